#include <stdbool.h>
#include <stdint.h>

#define RING_GROESSE 32u /* muss eine Zweierpotenz sein */

/*
 * Ringpuffer zwischen Interrupt und Hauptschleife. Genau einer schreibt und genau einer
 * liest, daher kommt er ohne Sperren aus.
 */
struct ring {
    volatile uint8_t kopf;
    volatile uint8_t ende;
    uint8_t daten[RING_GROESSE];
};

/* Legt ein Ereignis ab; ist kein Platz mehr, wird das neue verworfen und nicht das alte. */
bool ring_put(struct ring *r, uint8_t wert)
{
    if ((uint8_t)(r->kopf - r->ende) == RING_GROESSE)
        return false;
    r->daten[r->kopf % RING_GROESSE] = wert;
    r->kopf++;
    return true;
}

/* Holt das älteste Ereignis heraus oder meldet, dass nichts vorliegt. */
bool ring_get(struct ring *r, uint8_t *wert)
{
    if (r->kopf == r->ende)
        return false;
    *wert = r->daten[r->ende % RING_GROESSE];
    r->ende++;
    return true;
}
