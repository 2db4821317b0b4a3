package ru.gornolyzhka.billing;

import java.io.IOException;
import java.util.UUID;

/** Списание денег через банк-эквайер. */
public final class AcquirerClient {
    private final Transport transport;

    public AcquirerClient(Transport transport) {
        this.transport = transport;
    }

    /**
     * Проводит оплату. При обрыве связи не повторяем списание вслепую, а спрашиваем у банка,
     * чем кончилась прошлая попытка: иначе гость заплатит дважды.
     */
    public Status charge(String orderId, long kopecks) throws IOException {
        String key = idempotencyKey(orderId, kopecks);
        try {
            return transport.post("/charge", key, kopecks);
        } catch (IOException lost) {
            Status known = transport.query("/status", key);
            // UNKNOWN значит, что запрос до банка не дошёл и повторить безопасно.
            return known == Status.UNKNOWN ? transport.post("/charge", key, kopecks) : known;
        }
    }

    /** Строит ключ идемпотентности из номера заказа и суммы: тот же заказ даёт тот же ключ даже после перезапуска. */
    static String idempotencyKey(String orderId, long kopecks) {
        return UUID.nameUUIDFromBytes((orderId + ":" + kopecks).getBytes()).toString();
    }

    enum Status { OK, DECLINED, UNKNOWN }

    interface Transport {
        Status post(String path, String key, long kopecks) throws IOException;

        Status query(String path, String key) throws IOException;
    }
}
