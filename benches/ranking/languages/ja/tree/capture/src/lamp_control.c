#include <stdint.h>
#include "rig.h"

#define LUX_LIMIT 50
#define DOSE_LIMIT 3600000u

static uint32_t dose;

/* 撮影用ランプの明るさを、資料に許された照度を超えない範囲で少しずつ上げる。
 * 和紙や顔料は光で褪色するため、急に全点灯させてはならない。 */
int lamp_ramp(uint16_t target)
{
    uint16_t now = rig_lux();

    if (target > LUX_LIMIT)
        target = LUX_LIMIT;
    while (now < target) {
        rig_lamp_set(now += 5);
        rig_wait_ms(120);
    }
    return now;
}

/* これまでに資料が浴びた光の積算量を加算し、上限に達したら非ゼロを返す。
 * 呼び出し側はその日の撮影を打ち切ること。 */
int dose_add(uint32_t ms)
{
    dose += rig_lux() * (ms / 100);
    return dose >= DOSE_LIMIT;
}
