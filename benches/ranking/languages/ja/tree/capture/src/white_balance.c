#include <stddef.h>
#include <stdint.h>

/* 三原色それぞれの倍率。 */
struct gains {
    float r, g, b;
};

/* 画面の隅に写り込んだ灰色の基準板から、赤・緑・青それぞれの補正係数を求める。
 * 照明が劣化して黄ばんでも、年をまたいで色味が揃うようにするため。 */
struct gains gains_from_card(const uint8_t *rgb, size_t n)
{
    float sum[3] = { 1, 1, 1 };
    struct gains k;

    for (size_t i = 0; i < n * 3; i++)
        sum[i % 3] += rgb[i];
    k.r = sum[1] / sum[0];
    k.g = 1.0f;
    k.b = sum[1] / sum[2];
    return k;
}

/* 係数を画素に掛ける。255 を超えた値は桁あふれさせずに飽和させる。 */
void apply_gains(uint8_t *rgb, size_t n, struct gains k)
{
    const float f[3] = { k.r, k.g, k.b };
    for (size_t i = 0; i < n * 3; i++) {
        float v = rgb[i] * f[i % 3];
        rgb[i] = v > 255 ? 255 : (uint8_t)v;
    }
}
