#include <stdbool.h>
#include <stdint.h>

#define RUHE_MS 15
#define LANG_MS 600

/* Zustand eines Fußtasters zwischen zwei Abfragen. */
struct taster {
    bool stabil;
    bool roh;
    uint32_t seit;
};

/*
 * Entprellt den Kontakt: Ein Pegelwechsel zählt erst, wenn er fünfzehn Millisekunden lang
 * unverändert ansteht. Sonst blättert ein einziger Tritt gleich drei Seiten weiter.
 */
bool taster_update(struct taster *t, bool pegel, uint32_t jetzt)
{
    if (pegel != t->roh) {
        t->roh = pegel;
        t->seit = jetzt;
        return false;
    }
    if (pegel != t->stabil && jetzt - t->seit >= RUHE_MS) {
        t->stabil = pegel;
        return true;
    }
    return false;
}

/* Langes Drücken heißt zurückblättern, kurzes Antippen heißt vorwärts. */
int taster_richtung(uint32_t gedrueckt, uint32_t losgelassen)
{
    return losgelassen - gedrueckt >= LANG_MS ? -1 : 1;
}
