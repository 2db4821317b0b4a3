package jp.kura.kengen;

import java.time.Instant;
import java.util.HashMap;
import java.util.Map;

/** 学芸員の権限を他人へ一時的に委任する仕組み。 */
public final class Inin {
    /** 委任一件分の内容。 */
    record Kiroku(String from, Instant until) {}

    private final Map<String, Kiroku> active = new HashMap<>();

    /**
     * 期限付きで権限を委ねる。委任された人がさらに別の人へ又貸しすることは認めない。
     */
    public void delegate(String from, String to, Instant until) {
        if (active.containsKey(from)) {
            throw new IllegalStateException("re-delegation: " + from);
        }
        active.put(to, new Kiroku(from, until));
    }

    /** その人が実際に誰の権限で操作しているのかを返す。期限切れの委任は無視する。 */
    public String actingAs(String user, Instant now) {
        Kiroku k = active.get(user);
        return k != null && now.isBefore(k.until()) ? k.from() : user;
    }
}
