package notenpult.lending;

import java.time.DayOfWeek;
import java.time.LocalDate;
import java.util.Set;

/** Berechnet, bis wann geliehene Noten zurück im Archiv sein müssen. */
public final class DueDateCalculator {
    private static final int LEIHFRIST_TAGE = 28;
    private final Set<LocalDate> feiertage;

    public DueDateCalculator(Set<LocalDate> feiertage) {
        this.feiertage = feiertage;
    }

    /**
     * Verschiebt einen Rückgabetermin auf den nächsten Öffnungstag. Sonntags, montags und an
     * Feiertagen ist das Archiv geschlossen, da kann niemand etwas abgeben.
     */
    public LocalDate nextOpenDay(LocalDate tag) {
        while (tag.getDayOfWeek() == DayOfWeek.SUNDAY
                || tag.getDayOfWeek() == DayOfWeek.MONDAY
                || feiertage.contains(tag)) {
            tag = tag.plusDays(1);
        }
        return tag;
    }

    /**
     * Leihfrist eines Stücks: vier Wochen, bei Aufführungsmaterial jedoch mindestens bis drei
     * Tage nach dem Konzert.
     */
    public LocalDate dueDate(LocalDate ausgabe, LocalDate konzert) {
        LocalDate frist = ausgabe.plusDays(LEIHFRIST_TAGE);
        if (konzert != null && konzert.plusDays(3).isAfter(frist)) {
            frist = konzert.plusDays(3);
        }
        return nextOpenDay(frist);
    }
}
