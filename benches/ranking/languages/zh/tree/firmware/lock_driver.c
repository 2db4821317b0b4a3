#include <stdbool.h>
#include <stdint.h>
#include "board.h"

#define PULSE_MS 350
#define COOLDOWN_MS 1200

/* 给指定格口的电磁锁通电一小段时间，让锁舌弹开。
 * 通电时间不能太长，否则线圈会过热烧毁，所以两次开锁之间强制留出冷却间隔。 */
int door_unlock_pulse(uint8_t cell)
{
    static uint32_t last_fire[64];
    uint32_t now = board_millis();

    if (cell >= 64)
        return -1;
    /* 线圈还没凉下来，拒绝这次请求 */
    if (last_fire[cell] != 0 && now - last_fire[cell] < COOLDOWN_MS)
        return -2;
    board_relay_set(cell, true);
    board_sleep(PULSE_MS);
    board_relay_set(cell, false);
    last_fire[cell] = now;
    return 0;
}

/* 判断柜门是否真的关严了。门磁开关会抖动，
 * 因此连续采样五次，全部一致才认为门已闭合。 */
bool door_is_closed(uint8_t cell)
{
    for (int i = 0; i < 5; i++) {
        if (!board_reed_read(cell))
            return false;
        board_sleep(8);
    }
    return true;
}
