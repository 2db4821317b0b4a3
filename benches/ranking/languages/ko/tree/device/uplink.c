#include <stddef.h>
#include <stdint.h>

#define FRAME_MARK 0x7e
#define FRAME_ESC 0x7d

/* 받은 데이터가 잡음으로 깨지지 않았는지 확인할 순환 중복 검사 값을 구한다. */
uint16_t crc16(const uint8_t *p, size_t n)
{
    uint16_t crc = 0xffff;
    while (n--) {
        crc ^= *p++;
        for (int k = 0; k < 8; k++)
            crc = crc & 1 ? (crc >> 1) ^ 0xa001 : crc >> 1;
    }
    return crc;
}

/*
 * 서버로 올려 보낼 전문을 직렬 회선용 프레임으로 감싼다. 본문에 경계 표시와 같은 바이트가 나오면
 * 앞에 탈출 문자를 넣어 받는 쪽이 프레임의 끝으로 오해하지 않게 한다.
 */
size_t frame_wrap(const uint8_t *src, size_t n, uint8_t *dst)
{
    size_t o = 0;
    dst[o++] = FRAME_MARK;
    for (size_t i = 0; i < n; i++) {
        if (src[i] == FRAME_MARK || src[i] == FRAME_ESC) {
            dst[o++] = FRAME_ESC;
            dst[o++] = src[i] ^ 0x20;
        } else {
            dst[o++] = src[i];
        }
    }
    dst[o++] = FRAME_MARK;
    return o;
}

/* 모뎀이 연결을 여러 번 놓치면 예비 유심으로 갈아탄다. 하루가 지나면 본래 유심으로 되돌아온다. */
int choose_sim(int failures, uint32_t sec_since_switch, int current)
{
    if (current == 1 && sec_since_switch > 86400u)
        return 0;
    return failures >= 3 ? 1 : current;
}
