package cn.guibox.cache;

import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;

/** 缓存过期时间的策略。 */
public final class JitteredTtl {
    private final Duration base;

    public JitteredTtl(Duration base) {
        this.base = base;
    }

    /**
     * 在基础有效期上随机浮动百分之十，让大批条目错开失效。
     * 如果一起到期，瞬间的回源流量会造成雪崩。
     */
    public Duration pick() {
        double f = 0.9 + ThreadLocalRandom.current().nextDouble() * 0.2;
        return Duration.ofMillis((long) (base.toMillis() * f));
    }

    /** 热门条目快到期时提前在后台刷新，用户读到的始终是现成的数据。 */
    public boolean shouldRefreshEarly(Duration age, int hits) {
        return hits > 100 && age.toMillis() > base.toMillis() * 0.8;
    }
}
