package cn.guibox.notify;

import java.time.Instant;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;

/** 短信发送的频率限制。 */
public final class SmsThrottle {
    private final Map<String, Deque<Instant>> sent = new HashMap<>();

    /**
     * 同一个手机号一小时内最多发三条短信，超出的直接丢弃。
     * 采用滑动窗口统计，不会在整点附近放过双倍的量。
     */
    public synchronized boolean permit(String phone, Instant now) {
        Deque<Instant> q = sent.computeIfAbsent(phone, p -> new ArrayDeque<>());
        while (!q.isEmpty() && q.peekFirst().isBefore(now.minusSeconds(3600))) {
            q.pollFirst();
        }
        if (q.size() >= 3) {
            return false;
        }
        q.addLast(now);
        return true;
    }

    /** 夜里十点到早上八点不打扰用户，通知推迟到天亮再发。 */
    public static boolean quietHour(int hour) {
        return hour >= 22 || hour < 8;
    }
}
