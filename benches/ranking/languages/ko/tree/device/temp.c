#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WINDOW 9

/*
 * 냉장 칸 온도 센서의 측정값을 고르게 다듬는다. 문을 여닫을 때 한순간 튀는 값은
 * 평균을 크게 끌어올리므로 최근 아홉 개의 중앙값을 쓴다.
 */
int16_t temp_smooth(const int16_t *recent)
{
    int16_t v[WINDOW];
    for (size_t i = 0; i < WINDOW; i++) {
        size_t j = i;
        while (j > 0 && v[j - 1] > recent[i]) {
            v[j] = v[j - 1];
            j--;
        }
        v[j] = recent[i];
    }
    return v[WINDOW / 2];
}

/*
 * 압축기를 켤지 끌지 정한다. 켜는 온도와 끄는 온도 사이에 틈을 두어
 * 경계에서 쉴 새 없이 껐다 켰다 하며 수명을 깎아 먹는 일을 막는다.
 */
bool compressor_wanted(int16_t deci, bool running, int16_t target)
{
    if (running)
        return deci > target - 10;
    return deci > target + 15;
}

/* 신선 식품이 허용 온도를 벗어난 시간을 더해, 폐기해야 할 만큼 쌓였는지 알려 준다. */
bool cold_chain_broken(uint32_t *warm_sec, int16_t deci, uint32_t elapsed)
{
    if (deci > 80)
        *warm_sec += elapsed;
    return *warm_sec > 30u * 60u;
}
