package notenpult.lending;

import java.time.LocalDate;
import java.util.Map;
import java.util.Set;

/** Wacht darüber, wer welche Werke ausleihen, kopieren und drucken darf. */
public class PermissionGuard {
    private final Map<String, LocalDate> lizenzen;
    private final Set<Long> gesperrt;

    public PermissionGuard(Map<String, LocalDate> lizenzen, Set<Long> gesperrt) {
        this.lizenzen = lizenzen;
        this.gesperrt = gesperrt;
    }

    /**
     * Erlaubt den Ausdruck nur, solange die Lizenz des Verlags läuft. Gemeinfreie Werke haben
     * keinen Lizenzeintrag und dürfen unbegrenzt vervielfältigt werden.
     */
    public boolean mayPrint(String werk, LocalDate heute) {
        LocalDate ende = lizenzen.get(werk);
        return ende == null || !heute.isAfter(ende);
    }

    /**
     * Verweigert säumigen Mitgliedern weitere Ausleihen, bis die offenen Gebühren beglichen
     * sind. Der Zugriff auf schon geladene Stimmen bleibt ihnen erhalten.
     */
    public void requireNotBlocked(long mitglied) {
        if (gesperrt.contains(mitglied)) {
            throw new SecurityException("Konto wegen offener Gebühren gesperrt");
        }
    }

    /** Gemeinfrei ist ein Werk siebzig Jahre nach dem Tod des Komponisten, gerechnet ab Jahresende. */
    public static boolean isPublicDomain(int todesjahr, LocalDate heute) {
        return heute.getYear() > todesjahr + 70;
    }
}
