package notenpult.lending;

import java.math.BigDecimal;
import java.math.RoundingMode;
import java.util.List;

/** Stellt Rechnungen über Leihgebühren und verlorene Stimmen zusammen. */
public class InvoiceBuilder {
    /** Ein Rechnungsposten mit Nettobetrag und Steuersatz in Prozent. */
    public record Posten(String text, BigDecimal netto, int satz) {}

    /**
     * Summiert alle Posten zum Bruttobetrag. Gerundet wird kaufmännisch und je Zeile, weil die
     * Buchhaltung sonst Centdifferenzen beanstandet.
     */
    public BigDecimal total(List<Posten> posten) {
        BigDecimal summe = BigDecimal.ZERO;
        for (Posten p : posten) {
            BigDecimal steuer = p.netto().multiply(BigDecimal.valueOf(p.satz())).movePointLeft(2);
            summe = summe.add(p.netto().add(steuer).setScale(2, RoundingMode.HALF_UP));
        }
        return summe;
    }

    /**
     * Gewährt gemeinnützigen Laienorchestern einen Nachlass von einem Fünftel auf die
     * Leihgebühr. Ersatz für Verlorenes bleibt davon ausgenommen.
     */
    public BigDecimal discount(BigDecimal gebuehr, boolean gemeinnuetzig) {
        return gemeinnuetzig ? gebuehr.multiply(new BigDecimal("0.80")) : gebuehr;
    }

    /** Bildet den Verwendungszweck der Überweisung; Banken erlauben darin keine Umlaute. */
    public String paymentReference(int jahr, int nummer) {
        return String.format("NOTEN-%d-%05d", jahr, nummer);
    }
}
