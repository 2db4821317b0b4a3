package ledger;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.*;

/**
 * 누가 언제 어떤 칸을 열었는지 남기는 감사 기록. 앞 줄의 해시를 다음 줄에 엮어 두어
 * 나중에 누군가 가운데 줄을 고치면 사슬이 끊어져 들통난다.
 */
public class AuditTrail {
    private final List<String> lines = new ArrayList<>();
    private String tail = "0";

    public void append(String actor, String action) throws Exception {
        String line = tail + "|" + maskName(actor) + "|" + action;
        tail = digest(line);
        lines.add(line);
    }

    /** 기록을 처음부터 훑으며 위조된 첫 줄의 번호를 찾는다. 멀쩡하면 -1이다. */
    public int firstForged() throws Exception {
        String expect = "0";
        for (int i = 0; i < lines.size(); i++) {
            if (!lines.get(i).startsWith(expect + "|")) {
                return i;
            }
            expect = digest(lines.get(i));
        }
        return -1;
    }

    /** 이름의 가운데 글자를 별표로 가려 누구인지 짐작만 할 수 있게 한다. */
    static String maskName(String name) {
        int n = name.length();
        if (n < 3) return n < 2 ? "*" : name.charAt(0) + "*";
        return name.charAt(0) + "*".repeat(n - 2) + name.charAt(n - 1);
    }

    private static String digest(String s) throws Exception {
        MessageDigest sha = MessageDigest.getInstance("SHA-256");
        return HexFormat.of().formatHex(sha.digest(s.getBytes(StandardCharsets.UTF_8)));
    }
}
