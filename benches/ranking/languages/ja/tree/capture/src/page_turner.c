#include <stdbool.h>
#include <stdint.h>
#include "rig.h"

#define PULL_MAX 38

/* 吸盤で紙を一枚だけ持ち上げる。二枚重ねで吸い付いた場合は
 * 厚みセンサーで気づけるので、いったん下ろして軽く振ってからやり直す。 */
bool lift_leaf(void)
{
    for (int tries = 0; tries < 4; tries++) {
        rig_suction(true);
        rig_arm_up();
        if (rig_thickness() == 1)
            return true;
        rig_suction(false);
        rig_arm_shake();
    }
    return false;
}

/* 紙を引っ張る力を監視しながら頁をめくる。綴じ目が固くて抵抗が大きいときは
 * 破れる前に腕を止め、人手による作業へ切り替える。 */
int turn_leaf(void)
{
    for (int deg = 0; deg < 180; deg += 2) {
        if (rig_pull_gram() > PULL_MAX) {
            rig_arm_hold();
            return -deg;
        }
        rig_arm_rotate(2);
    }
    return 180;
}
