#include <stddef.h>
#include <stdint.h>

enum frame_result { FRAME_OK, FRAME_SHORT, FRAME_BAD_CRC };

/* Контрольная сумма кадра считывателя, вариант с полиномом 0x1021. Побитовый расчёт медленнее
 * табличного, зато экономит полкилобайта прошивки. */
static uint16_t crc16(const uint8_t *data, size_t len)
{
    uint16_t crc = 0xFFFF;
    while (len--) {
        crc ^= (uint16_t)(*data++ << 8);
        for (int bit = 0; bit < 8; bit++)
            crc = (crc & 0x8000) ? (uint16_t)(crc << 1 ^ 0x1021) : (uint16_t)(crc << 1);
    }
    return crc;
}

/* Разбирает кадр от считывателя карт: заголовок, восемь байт номера, сумма. Порядок байтов
 * на шине обратный, поэтому номер собираем с конца. */
enum frame_result frame_parse(const uint8_t *buf, size_t len, uint64_t *uid)
{
    if (len < 11)
        return FRAME_SHORT;
    if (crc16(buf, 9) != (uint16_t)(buf[9] << 8 | buf[10]))
        return FRAME_BAD_CRC;
    *uid = 0;
    for (int i = 8; i >= 1; i--)
        *uid = *uid << 8 | buf[i];
    return FRAME_OK;
}

/* Подавляет дребезг: карта, лежащая в кармане у антенны, читается десять раз в секунду,
 * а засчитать надо один проход. */
int is_duplicate_read(uint64_t uid, uint32_t now_ms)
{
    static uint64_t last_uid;
    static uint32_t last_ms;
    int dup = uid == last_uid && now_ms - last_ms < 3000;
    last_uid = uid;
    last_ms = now_ms;
    return dup;
}
