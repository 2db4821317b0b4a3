package notenpult.lending;

import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;

/**
 * Puffert Katalogauskünfte des Verlags, deren Schnittstelle pro Abruf Geld kostet. Einträge
 * veralten nach einem Tag.
 */
public class CatalogCache {
    private static final Duration HALTBARKEIT = Duration.ofDays(1);

    /** Gemerkte Auskunft zusammen mit dem Zeitpunkt des Abrufs. */
    private record Eintrag(String titel, Instant geholt) {}

    private final Map<String, Eintrag> eintraege = new ConcurrentHashMap<>();

    /**
     * Schlägt eine ISMN nach. Antwortet der Verlag nicht, wird lieber eine veraltete Auskunft
     * ausgegeben als gar keine.
     */
    public String lookup(String ismn, Function<String, String> verlag, Instant jetzt) {
        Eintrag e = eintraege.get(ismn);
        if (e != null && e.geholt().plus(HALTBARKEIT).isAfter(jetzt)) {
            return e.titel();
        }
        try {
            String titel = verlag.apply(ismn);
            eintraege.put(ismn, new Eintrag(titel, jetzt));
            return titel;
        } catch (RuntimeException ausfall) {
            return e == null ? null : e.titel();
        }
    }

    /** Wirft nach einer Preisänderung alle Einträge eines Verlags weg, erkennbar an der Vorsilbe der ISMN. */
    public void invalidatePublisher(String vorsilbe) {
        eintraege.keySet().removeIf(k -> k.startsWith(vorsilbe));
    }
}
