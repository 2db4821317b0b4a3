#include <stdint.h>
#include <string.h>
#include "board.h"

#define SECTOR 4096u
#define SECTORS 16u

/* 每条日志记录的头部：序号、长度和校验值。 */
struct ring_head {
    uint32_t seq;
    uint16_t len;
    uint16_t crc;
};

static uint32_t write_at;

/* 往闪存的环形区追加一条事件日志。写到扇区边界时先擦除下一个扇区，
 * 这样各扇区的擦写次数大致均匀，不会把某一块磨损坏。 */
int ring_append(uint32_t seq, const void *data, uint16_t len)
{
    struct ring_head h = { seq, len, board_crc16(data, len) };
    uint32_t room = SECTOR - write_at % SECTOR;

    if (room < sizeof h + len) {
        write_at = (write_at + room) % (SECTOR * SECTORS);
        board_flash_erase(write_at, SECTOR);
    }
    board_flash_write(write_at, &h, sizeof h);
    board_flash_write(write_at + sizeof h, data, len);
    write_at += sizeof h + len;
    return 0;
}

/* 上电以后扫描全部扇区，找出序号最大的那条记录，从它后面继续写。
 * 掉电时只写了一半的记录校验不过，直接跳过。 */
uint32_t ring_recover(uint32_t (*next)(uint32_t at, struct ring_head *h))
{
    struct ring_head h;
    uint32_t best = 0;
    for (uint32_t at = 0; at < SECTOR * SECTORS; at = next(at, &h))
        if (h.seq > best)
            best = h.seq, write_at = at + sizeof h + h.len;
    return best;
}
