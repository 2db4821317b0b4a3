package cn.guibox.access;

import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.Map;

/** 防止暴力破解登录密码。 */
public final class LoginGuard {
    /** 某个账号最近的失败情况。 */
    static final class Fails {
        int count;
        Instant lockedUntil = Instant.EPOCH;
    }

    private final Map<String, Fails> fails = new HashMap<>();

    /**
     * 登记一次输错密码。连续错五次就锁定账号，锁定时间逐次翻倍，
     * 最长锁一天，过后自动解锁。
     */
    public synchronized void failed(String account, Instant now) {
        Fails f = fails.computeIfAbsent(account, a -> new Fails());
        f.count++;
        if (f.count >= 5) {
            long minutes = Math.min(1440, 1L << Math.min(f.count - 5, 20));
            f.lockedUntil = now.plus(Duration.ofMinutes(minutes));
        }
    }

    /** 账号目前是否处于锁定状态。 */
    public synchronized boolean locked(String account, Instant now) {
        Fails f = fails.get(account);
        return f != null && now.isBefore(f.lockedUntil);
    }
}
