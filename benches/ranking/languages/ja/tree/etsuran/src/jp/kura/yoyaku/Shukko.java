package jp.kura.yoyaku;

import java.time.DayOfWeek;
import java.time.LocalDate;
import java.util.Comparator;
import java.util.List;
import java.util.Set;

/** 書庫から原本を運び出す出庫依頼。 */
record Irai(String id, int tana, boolean fragile) {}

/** 出庫作業の段取り。 */
public final class Shukko {

    /** 係員が歩く距離を短くするため、依頼を棚の番号順に並べ替える。壊れやすい資料は最後に取り出す。 */
    public List<Irai> route(List<Irai> all) {
        return all.stream()
            .sorted(Comparator.comparing(Irai::fragile).thenComparingInt(Irai::tana))
            .toList();
    }

    /** 休館日を飛ばして、依頼した資料を受け取れる最短の日を求める。月曜は定休とする。 */
    public LocalDate readyOn(LocalDate ordered, Set<LocalDate> closed) {
        LocalDate d = ordered.plusDays(1);
        while (d.getDayOfWeek() == DayOfWeek.MONDAY || closed.contains(d)) {
            d = d.plusDays(1);
        }
        return d;
    }
}
