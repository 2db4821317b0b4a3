#include <stdint.h>
#include <string.h>
#include <time.h>

#define SLOTS 4096

/* Одна ячейка таблицы абонементов. */
struct pass_entry {
    uint64_t uid;
    time_t valid_till;
    uint8_t blocked;
};

static struct pass_entry table[SLOTS];

/* Ищет абонемент в локальной таблице турникета. Нужна, чтобы проход работал и без связи с сервером:
 * гость не обязан мёрзнуть, пока чинят оптику. */
const struct pass_entry *pass_find(uint64_t uid)
{
    size_t i = (size_t)(uid * 11400714819323198485ull >> 52);
    for (size_t step = 0; step < 8; step++) {
        const struct pass_entry *e = &table[(i + step) % SLOTS];
        if (e->uid == uid)
            return e;
    }
    return NULL;
}

/* Кладёт запись, а если все соседние ячейки заняты, вытесняет ту, что протухнет раньше прочих. */
void pass_put(uint64_t uid, time_t valid_till, uint8_t blocked)
{
    size_t i = (size_t)(uid * 11400714819323198485ull >> 52);
    struct pass_entry *victim = &table[i % SLOTS];
    for (size_t step = 0; step < 8; step++) {
        struct pass_entry *e = &table[(i + step) % SLOTS];
        if (e->uid == uid || e->uid == 0) {
            victim = e;
            break;
        }
        if (e->valid_till < victim->valid_till)
            victim = e;
    }
    *victim = (struct pass_entry){uid, valid_till, blocked};
}
