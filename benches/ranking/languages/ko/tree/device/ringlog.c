#include <stdint.h>
#include <string.h>

#define RING_SIZE 4096u

/* 전원이 나가도 지워지지 않는 메모리에 최근 사건을 돌려 쓰는 고리 모양 버퍼. */
struct ring_log {
    uint8_t data[RING_SIZE];
    uint32_t head;
    uint32_t count;
};

/*
 * 사건 하나를 고리에 적는다. 자리가 없으면 가장 먼저 적힌 바이트를 덮어쓴다.
 * 고장 직전의 일이 오래전 일보다 값지기 때문이다.
 */
void ring_write(struct ring_log *r, const uint8_t *src, uint32_t len)
{
    for (uint32_t i = 0; i < len; i++) {
        r->data[r->head] = src[i];
        r->head = (r->head + 1) % RING_SIZE;
        if (r->count < RING_SIZE)
            r->count++;
    }
}

/* 쌓인 내용을 시간 순서대로 펴서 내보낸다. 꼬리가 버퍼의 끝을 넘어가면 두 토막으로 나누어 복사한다. */
uint32_t ring_dump(const struct ring_log *r, uint8_t *dst)
{
    uint32_t tail = (r->head + RING_SIZE - r->count) % RING_SIZE;
    uint32_t first = RING_SIZE - tail < r->count ? RING_SIZE - tail : r->count;
    memcpy(dst, r->data + tail, first);
    memcpy(dst + first, r->data, r->count - first);
    return r->count;
}
