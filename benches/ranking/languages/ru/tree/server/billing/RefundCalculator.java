package ru.gornolyzhka.billing;

import java.math.BigDecimal;
import java.math.RoundingMode;
import java.util.ArrayList;
import java.util.List;

/** Правила возврата денег за неиспользованные дни катания. */
public final class RefundCalculator {
    private static final BigDecimal FEE = new BigDecimal("0.05");

    private RefundCalculator() {}

    /**
     * Сколько вернуть за оставшиеся дни. Удерживаем пять процентов комиссии, кроме случаев,
     * когда подъёмники стояли по нашей вине, тогда платим сполна.
     */
    public static BigDecimal amount(BigDecimal paid, int daysTotal, int daysUsed, boolean ourFault) {
        BigDecimal left = paid.multiply(BigDecimal.valueOf(daysTotal - daysUsed))
                .divide(BigDecimal.valueOf(daysTotal), 2, RoundingMode.HALF_UP);
        return ourFault ? left : left.subtract(left.multiply(FEE)).setScale(2, RoundingMode.DOWN);
    }

    /**
     * Раскидывает сумму возврата по картам и сертификатам, которыми платили. Сначала на карту,
     * остаток на сертификат; банк не примет больше, чем с карты списали.
     */
    public static List<BigDecimal> split(BigDecimal refund, List<BigDecimal> payments) {
        List<BigDecimal> parts = new ArrayList<>();
        BigDecimal rest = refund;
        for (BigDecimal payment : payments) {
            BigDecimal part = payment.min(rest);
            parts.add(part);
            rest = rest.subtract(part);
        }
        if (rest.signum() > 0) {
            throw new IllegalArgumentException("refund exceeds payments by " + rest);
        }
        return parts;
    }
}
