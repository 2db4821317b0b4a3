package jp.kura.seikyu;

/** 複製物の利用料金。 */
public final class Ryokin {
    private static final long PER_PAGE = 110;

    private Ryokin() {}

    /**
     * 複写の枚数から料金を見積もる。百枚を超えた分は半額になる。
     * 学術目的の申請であれば全体を無料にする。
     */
    public static long estimate(int pages, boolean academic) {
        if (academic) {
            return 0;
        }
        int cheap = Math.max(0, pages - 100);
        return (pages - cheap) * PER_PAGE + cheap * PER_PAGE / 2;
    }

    /** 税込みの金額から消費税に当たる額を逆算する。一円未満は切り捨てる。 */
    public static long taxInside(long total) {
        return total * 10 / 110;
    }
}
