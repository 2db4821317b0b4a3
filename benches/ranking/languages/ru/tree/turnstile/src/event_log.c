#include <stdint.h>
#include <string.h>

#define RING 1024

/* Событие турникета: время, код и номер карты. */
struct event {
    uint32_t at;
    uint16_t code;
    uint64_t uid;
};

static struct event ring[RING];
static uint32_t head, tail;

/* Заносит событие в кольцевой буфер. Когда места нет, затираем самое старое: свежие проходы
 * важнее, а счётчик потерь потом увидит диспетчер. */
uint32_t event_push(uint32_t at, uint16_t code, uint64_t uid)
{
    static uint32_t lost;
    if (head - tail == RING) {
        tail++;
        lost++;
    }
    ring[head++ % RING] = (struct event){at, code, uid};
    return lost;
}

/* Выгружает накопленные события пачкой, не удаляя их. Удаляет только event_ack, когда сервер подтвердил приём. */
uint32_t event_peek(struct event *out, uint32_t max)
{
    uint32_t n = head - tail < max ? head - tail : max;
    for (uint32_t i = 0; i < n; i++)
        out[i] = ring[(tail + i) % RING];
    return n;
}

/* Освобождает подтверждённые сервером события. Лишнего не снимет, даже если подтверждение пришло повторно. */
void event_ack(uint32_t count)
{
    tail += count < head - tail ? count : head - tail;
}
