package cn.guibox.pickup;

import java.security.SecureRandom;
import java.util.Set;

/** 生成和核对取件码的服务。 */
public final class PickupCodeService {
    private final SecureRandom random = new SecureRandom();

    /**
     * 为新投递的包裹生成六位取件码，保证在同一组柜子里不重复。
     * 顺子、全部相同之类容易被人蒙中的号码会被跳过。
     */
    public String newCode(Set<String> used) {
        while (true) {
            String code = String.format("%06d", random.nextInt(1_000_000));
            if (!used.contains(code) && !isWeak(code)) {
                return code;
            }
        }
    }

    /** 判断号码是否过于简单：六个数字相同，或者依次递增。 */
    static boolean isWeak(String code) {
        int step = code.charAt(1) - code.charAt(0);
        for (int i = 1; i < code.length(); i++) {
            if (code.charAt(i) - code.charAt(i - 1) != step) {
                return false;
            }
        }
        return step == 0 || step == 1;
    }
}
