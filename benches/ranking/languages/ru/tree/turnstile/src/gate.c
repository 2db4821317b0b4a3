#include <stdbool.h>
#include <stdint.h>

enum gate_state { GATE_CLOSED, GATE_OPEN, GATE_EMERGENCY };

/* Состояние створок и счётчик прошедших. */
struct gate {
    enum gate_state state;
    uint32_t close_at_ms;
    uint32_t passed;
};

/* Открывает створки на один проход. Детям и гостям с инструктором даём больше времени,
 * они возятся с лыжами и палками. */
void gate_open(struct gate *g, uint32_t now_ms, bool slow_guest)
{
    if (g->state == GATE_EMERGENCY)
        return;
    g->state = GATE_OPEN;
    g->close_at_ms = now_ms + (slow_guest ? 9000u : 5000u);
}

/* Шаг автомата: закрывает створки, когда человек прошёл или время вышло. Если луч перекрыт,
 * ждём: прищемить гостя хуже, чем пропустить зайца. */
void gate_tick(struct gate *g, uint32_t now_ms, bool beam_blocked, bool passed)
{
    if (g->state != GATE_OPEN || beam_blocked)
        return;
    if (passed)
        g->passed++;
    if (passed || (int32_t)(now_ms - g->close_at_ms) >= 0)
        g->state = GATE_CLOSED;
}

/* Аварийная разблокировка по сигналу пожарной тревоги: створки распахнуты, пока дежурный не снимет режим вручную. */
void gate_emergency(struct gate *g, bool alarm, bool manual_reset)
{
    if (alarm)
        g->state = GATE_EMERGENCY;
    else if (manual_reset && g->state == GATE_EMERGENCY)
        g->state = GATE_CLOSED;
}
