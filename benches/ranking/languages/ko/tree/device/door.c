#include <stdbool.h>
#include <stdint.h>

enum { PULSE_MS = 120, STABLE_READS = 5 };

extern void coil_set(uint8_t cell, bool on);
extern bool switch_closed(uint8_t cell);
extern void sleep_ms(uint32_t ms);

/*
 * 전자석에 짧게 전류를 흘려 칸의 문을 연다.
 * 오래 켜 두면 코일이 타 버리므로 어떤 경우에도 정해진 시간 뒤에는 전류를 끊는다.
 */
void door_kick(uint8_t cell)
{
    coil_set(cell, true);
    sleep_ms(PULSE_MS);
    coil_set(cell, false);
}

/*
 * 문에 달린 접점 스위치의 떨림을 거른다. 같은 값이 연이어 여러 번 읽혀야
 * 문이 정말로 닫힌 것으로 인정한다.
 */
bool door_settled(uint8_t cell)
{
    int same = 0;
    for (int i = 0; i < 50 && same < STABLE_READS; i++) {
        same = switch_closed(cell) ? same + 1 : 0;
        sleep_ms(2);
    }
    return same >= STABLE_READS;
}

/* 문이 뻑뻑해서 한 번에 안 열리면 몇 차례 더 튕겨 보고, 그래도 닫혀 있으면 걸림 고장으로 보고한다. */
bool door_open_stubborn(uint8_t cell, int max_kicks)
{
    for (int i = 0; i < max_kicks; i++) {
        door_kick(cell);
        if (!door_settled(cell))
            return true;
        sleep_ms(400); /* 코일이 식을 틈을 준다 */
    }
    return false;
}
