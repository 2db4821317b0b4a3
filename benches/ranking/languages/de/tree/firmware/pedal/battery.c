#include <stdint.h>
#include <stddef.h>

struct stuetzpunkt {
    uint16_t mv;
    uint8_t prozent;
};

static const struct stuetzpunkt kennlinie[] = {
    {3300, 0}, {3600, 15}, {3700, 40}, {3900, 75}, {4150, 100},
};

/*
 * Rechnet die gemessene Zellspannung in einen Ladestand um. Die Entladekurve ist krumm,
 * deshalb wird zwischen den Stützpunkten der Kennlinie linear interpoliert.
 */
uint8_t akku_prozent(uint16_t mv)
{
    size_t n = sizeof kennlinie / sizeof kennlinie[0];
    if (mv <= kennlinie[0].mv)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if (mv < kennlinie[i].mv) {
            uint32_t dmv = kennlinie[i].mv - kennlinie[i - 1].mv;
            uint32_t dp = kennlinie[i].prozent - kennlinie[i - 1].prozent;
            return (uint8_t)(kennlinie[i - 1].prozent + (mv - kennlinie[i - 1].mv) * dp / dmv);
        }
    }
    return 100;
}

/*
 * Wie lange das Pedal unbenutzt bleiben darf, bevor es sich schlafen legt. Bei schwachem
 * Akku wird die Frist verkürzt, während des Ladens schläft es gar nicht (Rückgabe 0).
 */
uint32_t schlaf_nach_s(uint8_t prozent, int laedt)
{
    if (laedt)
        return 0;
    return prozent < 20 ? 120 : 900;
}
