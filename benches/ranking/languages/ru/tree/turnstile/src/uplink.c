#include <stdbool.h>
#include <stdint.h>

enum link_state { LINK_DOWN, LINK_CONNECTING, LINK_UP };

/* Канал от турникета до серверной. */
struct uplink {
    enum link_state state;
    uint32_t next_try_ms;
    uint32_t last_pong_ms;
    uint8_t attempt;
    bool (*open)(const char *host);
};

static const char *const hosts[] = {"gate-a.local", "gate-b.local"};

/* Поднимает упавшее соединение с сервером. Чётные попытки идут на основной узел, нечётные
 * на резервный; промежуток между ними растёт до минуты. */
void uplink_reconnect(struct uplink *u, uint32_t now_ms)
{
    if (u->state != LINK_DOWN || (int32_t)(now_ms - u->next_try_ms) < 0)
        return;
    u->state = LINK_CONNECTING;
    if (u->open(hosts[u->attempt % 2])) {
        u->state = LINK_UP;
        u->attempt = 0;
        u->last_pong_ms = now_ms;
        return;
    }
    u->state = LINK_DOWN;
    u->attempt++;
    u->next_try_ms = now_ms + (u->attempt > 6 ? 60000u : 1000u << u->attempt);
}

/* Замечает «мёртвую» линию: сокет вроде открыт, но на пинги уже давно никто не отвечает.
 * Такое случается, когда коммутатор на опоре перезагружается. */
void uplink_watchdog(struct uplink *u, uint32_t now_ms)
{
    if (u->state == LINK_UP && now_ms - u->last_pong_ms > 15000u) {
        u->state = LINK_DOWN;
        u->next_try_ms = now_ms;
    }
}
