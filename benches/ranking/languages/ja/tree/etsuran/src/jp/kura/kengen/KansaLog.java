package jp.kura.kengen;

import java.util.ArrayList;
import java.util.List;

/** 誰がいつどの資料を見たかを残す監査記録。 */
public final class KansaLog {
    /** 記録一件。直前の記録のハッシュを含む。 */
    public record Gyo(String who, String what, int prev) {}

    private final List<Gyo> lines = new ArrayList<>();

    /** 記録を追加する。ひとつ前の行のハッシュを鎖のようにつなぎ、あとからの改竄を見抜けるようにする。 */
    public void append(String who, String what) {
        int prev = lines.isEmpty() ? 0 : lines.get(lines.size() - 1).hashCode();
        lines.add(new Gyo(who, what, prev));
    }

    /** 鎖を先頭からたどり、つじつまの合わない最初の行番号を返す。問題がなければ -1。 */
    public int firstTampered() {
        for (int i = 1; i < lines.size(); i++) {
            if (lines.get(i).prev() != lines.get(i - 1).hashCode()) {
                return i;
            }
        }
        return -1;
    }
}
