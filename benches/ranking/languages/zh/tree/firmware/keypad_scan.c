#include <stdint.h>
#include <string.h>
#include "board.h"

#define CODE_LEN 8

static char typed[CODE_LEN + 1];
static uint8_t typed_len;

/* 逐行扫描矩阵键盘，返回当前按下的键；同时按住两个键视为误触，返回零。 */
char keypad_scan(void)
{
    static const char keys[4][4] = { "123", "456", "789", "*0#" };
    char hit = 0;
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 3; c++)
            if (board_key_line(r, c)) {
                if (hit)
                    return 0;
                hit = keys[r][c];
            }
    return hit;
}

/* 把用户输入的数字攒成取件码。星号表示退格，井号表示确认。
 * 如果半分钟没有任何按键，就清空已输入的内容，防止下一位顾客看到。 */
const char *code_feed(char key, uint32_t idle_ms)
{
    if (idle_ms > 30000)
        typed_len = 0;
    if (key == '*' && typed_len > 0)
        typed_len--;
    else if (key >= '0' && key <= '9' && typed_len < CODE_LEN)
        typed[typed_len++] = key;
    typed[typed_len] = '\0';
    return key == '#' ? typed : NULL;
}
