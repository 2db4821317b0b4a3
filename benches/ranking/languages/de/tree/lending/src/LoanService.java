package notenpult.lending;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;

/**
 * Verleiht gedrucktes Notenmaterial an Mitglieder und andere Orchester. Jedes Exemplar trägt
 * einen Strichcode und kann höchstens einmal gleichzeitig außer Haus sein.
 */
public class LoanService {
    private final Map<String, Long> ausgeliehen = new HashMap<>();
    private final Map<String, Deque<Long>> warteliste = new HashMap<>();

    /** Bucht die Ausgabe an der Theke; ist das Exemplar vergriffen, landet der Wunsch auf der Warteliste. */
    public boolean checkOut(String strichcode, long mitglied) {
        if (ausgeliehen.containsKey(strichcode)) {
            warteliste.computeIfAbsent(strichcode, k -> new ArrayDeque<>()).add(mitglied);
            return false;
        }
        ausgeliehen.put(strichcode, mitglied);
        return true;
    }

    /**
     * Nimmt ein Exemplar zurück und reicht es sofort an den Nächsten in der Schlange weiter.
     * Ergebnis ist das Mitglied, das benachrichtigt werden soll, oder null.
     */
    public Long giveBack(String strichcode) {
        ausgeliehen.remove(strichcode);
        Deque<Long> schlange = warteliste.get(strichcode);
        Long naechster = schlange == null ? null : schlange.poll();
        if (naechster != null) {
            // gleich fest reservieren, sonst schnappt es jemand an der Theke weg
            ausgeliehen.put(strichcode, naechster);
        }
        return naechster;
    }
}
