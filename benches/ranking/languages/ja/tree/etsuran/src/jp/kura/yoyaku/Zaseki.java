package jp.kura.yoyaku;

import java.time.LocalTime;
import java.util.ArrayList;
import java.util.List;

/** 閲覧室の座席予約。 */
public final class Zaseki {
    /** 予約の時間帯。終了時刻そのものは含まない。 */
    public record Waku(LocalTime from, LocalTime to) {
        /** 二つの枠が少しでも重なっているか。 */
        boolean overlaps(Waku o) {
            return from.isBefore(o.to) && o.from.isBefore(to);
        }
    }

    private final List<Waku> booked = new ArrayList<>();

    /** 希望の時間帯が既存の予約と重ならなければ席を確保する。前の人の終了と同時に始まるのは構わない。 */
    public synchronized boolean reserve(Waku hope) {
        if (booked.stream().anyMatch(hope::overlaps)) {
            return false;
        }
        return booked.add(hope);
    }

    /** 開始から十五分たっても来館しない予約を取り消し、空いた席をほかの人に回す。 */
    public synchronized int dropNoShows(LocalTime now, List<Waku> arrived) {
        int before = booked.size();
        booked.removeIf(w -> !arrived.contains(w) && w.from().plusMinutes(15).isBefore(now));
        return before - booked.size();
    }
}
