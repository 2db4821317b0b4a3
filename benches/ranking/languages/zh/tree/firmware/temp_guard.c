#include <stdint.h>
#include "board.h"

#define HISTORY 7

/* 生鲜格口的温度记录，保存最近几次读数以及压缩机当前的启停状态。 */
struct temp_guard {
    int16_t samples[HISTORY];
    uint8_t pos;
    uint8_t compressor_on;
};

/* 对热敏电阻的读数取中位数，剔除偶尔冒出来的毛刺。
 * 用平均值会被一个坏点带偏，所以没有采用。 */
int16_t filter_median(const struct temp_guard *g)
{
    int16_t v[HISTORY];
    for (int i = 0; i < HISTORY; i++) {
        int j = i;
        for (; j > 0 && v[j - 1] > g->samples[i]; j--)
            v[j] = v[j - 1];
        v[j] = g->samples[i];
    }
    return v[HISTORY / 2];
}

/* 根据上下两个门限控制制冷压缩机，中间留一段回差，
 * 避免温度在临界点附近来回波动时频繁启停，损伤设备寿命。 */
void compressor_step(struct temp_guard *g, int16_t low, int16_t high)
{
    int16_t t = filter_median(g);
    if (t > high)
        g->compressor_on = 1;
    else if (t < low)
        g->compressor_on = 0;
    board_compressor(g->compressor_on);
}
