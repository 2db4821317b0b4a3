package ru.gornolyzhka.billing;

import java.math.BigDecimal;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Function;

/**
 * Держит в памяти рассчитанные цены абонементов. Инвалидируется целиком по номеру прайс-листа:
 * точечная чистка один раз уже привела к тому, что две кассы продавали по разным ценам.
 */
public final class PriceCache {
    private final ConcurrentHashMap<String, BigDecimal> prices = new ConcurrentHashMap<>();
    private final AtomicLong revision = new AtomicLong();
    private final Function<String, BigDecimal> calculator;

    public PriceCache(Function<String, BigDecimal> calculator) {
        this.calculator = calculator;
    }

    /** Сбрасывает весь кеш, если пришёл прайс-лист новее нашего; запоздавшие уведомления пропускает. */
    public void onPriceList(long newRevision) {
        long old = revision.getAndUpdate(r -> Math.max(r, newRevision));
        if (newRevision > old) {
            prices.clear();
        }
    }

    /** Возвращает цену тарифа на дату и при промахе считает её ровно один раз, сколько бы потоков ни ждало. */
    public BigDecimal priceOf(String tariff, String date) {
        return prices.computeIfAbsent(tariff + "@" + date, calculator);
    }

    /** Заранее прогревает цены на ближайшие выходные, чтобы утренняя очередь у касс не упиралась в расчёт. */
    public void warmUp(Iterable<String> tariffs, Iterable<String> dates) {
        for (String tariff : tariffs) {
            for (String date : dates) {
                priceOf(tariff, date);
            }
        }
    }
}
