package cn.guibox.access;

import java.util.EnumMap;
import java.util.EnumSet;
import java.util.Map;

/** 后台操作的种类。 */
enum Action { VIEW, OPEN_REMOTE, REFUND, EDIT_PRICE }

/** 角色与操作的对应表，客服、运维、财务各有各的权限。 */
public final class RoleMatrix {
    /** 后台用户的角色。 */
    public enum Role { SUPPORT, OPERATOR, FINANCE }

    private final Map<Role, EnumSet<Action>> table = new EnumMap<>(Role.class);

    /** 给某个角色追加一项操作权限。 */
    public RoleMatrix allow(Role role, Action action) {
        table.computeIfAbsent(role, r -> EnumSet.noneOf(Action.class)).add(action);
        return this;
    }

    /**
     * 远程开门和退款属于高危操作，必须由两名不同的员工先后批准。
     * 自己不能审批自己的申请。
     */
    public boolean needsSecondApproval(Action action, String applicant, String approver) {
        boolean risky = action == Action.OPEN_REMOTE || action == Action.REFUND;
        return risky && applicant.equals(approver);
    }
}
