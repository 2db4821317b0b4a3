package jp.kura.kengen;

import java.time.LocalDate;

/** 資料ごとの公開区分。 */
public enum EtsuranKubun {
    KOKAI, KANNAI, HIKOKAI;

    /**
     * 資料の公開区分と閲覧場所から、画像を見せてよいかどうかを決める。
     * 館内限定の資料は、閲覧室の端末からでなければ開けない。
     */
    public boolean permits(boolean inReadingRoom) {
        return switch (this) {
            case KOKAI -> true;
            case KANNAI -> inReadingRoom;
            case HIKOKAI -> false;
        };
    }

    /**
     * 個人情報を含む文書の公開区分を、作成からの経過年数で自動的に切り替える。
     * 八十年を過ぎるまでは非公開とする。
     */
    public static EtsuranKubun forPersonalRecord(LocalDate created, LocalDate today) {
        return created.plusYears(80).isAfter(today) ? HIKOKAI : KANNAI;
    }
}
