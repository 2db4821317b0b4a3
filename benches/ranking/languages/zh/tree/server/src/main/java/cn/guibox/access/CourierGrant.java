package cn.guibox.access;

import java.time.LocalTime;
import java.util.Set;

/** 快递员的投递授权：能用哪些柜子，一天中的什么时段可以投递。 */
public record CourierGrant(String courier, Set<String> cabinets, LocalTime from, LocalTime to) {

    /**
     * 检查快递员此刻有没有权限打开这组柜子。
     * 授权时段可能跨过午夜，例如晚上十点到次日六点，要单独处理。
     */
    public boolean mayOpen(String cabinet, LocalTime now) {
        if (!cabinets.contains(cabinet)) {
            return false;
        }
        if (from.isBefore(to)) {
            return !now.isBefore(from) && now.isBefore(to);
        }
        return !now.isBefore(from) || now.isBefore(to);
    }

    /** 离职时撤销授权，返回一个空的授权对象，不删除原记录以便日后审计。 */
    public CourierGrant revoked() {
        return new CourierGrant(courier, Set.of(), from, to);
    }
}
