package notenpult.lending;

import java.time.LocalDate;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;

/** Nächtlicher Mahnlauf über alle überfälligen Ausleihen. */
public class DunningRun {
    /** Eine überfällige Ausleihe mit der zuletzt verschickten Mahnstufe. */
    public record Ueberfaellig(long mitglied, LocalDate faellig, int mahnstufe) {}

    /**
     * Bestimmt die Mahnstufe aus den Verzugstagen. Die erste Woche gilt als Kulanz, danach kommt
     * eine freundliche Erinnerung, und erst nach einem Monat wird es kostenpflichtig.
     */
    static int mahnstufe(LocalDate faellig, LocalDate heute) {
        long tage = ChronoUnit.DAYS.between(faellig, heute);
        if (tage <= 7) {
            return 0;
        }
        return tage <= 30 ? 1 : 2;
    }

    /**
     * Wählt die Empfänger für heute aus. Wer auf seiner Stufe schon angeschrieben wurde,
     * erhält keinen zweiten gleichen Brief.
     */
    public List<Long> selectRecipients(List<Ueberfaellig> alle, LocalDate heute) {
        List<Long> out = new ArrayList<>();
        for (Ueberfaellig u : alle) {
            if (mahnstufe(u.faellig(), heute) > u.mahnstufe()) {
                out.add(u.mitglied());
            }
        }
        return out;
    }
}
