package cn.guibox.pickup;

import java.time.Duration;

/** 包裹滞留费的计价规则。 */
public record OverdueFee(Duration free, long centsPerHalfDay, long capCents) {

    /**
     * 计算包裹超期存放应收多少钱。免费时段以内不收，之后每满十二小时加收一次，
     * 不足十二小时按一次算，但总额不超过封顶价。
     */
    public long charge(Duration stored) {
        Duration over = stored.minus(free);
        if (over.isNegative() || over.isZero()) {
            return 0;
        }
        long half = Duration.ofHours(12).toMillis();
        long times = (over.toMillis() + half - 1) / half;
        return Math.min(capCents, times * centsPerHalfDay);
    }

    /** 节假日驿站歇业，期间不计入滞留时长，避免用户投诉。 */
    public Duration withoutHolidays(Duration stored, Duration closed) {
        Duration rest = stored.minus(closed);
        return rest.isNegative() ? Duration.ZERO : rest;
    }
}
