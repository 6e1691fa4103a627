/* Watches and the samples they take. */
#include "fake.h"

#include <stdlib.h>

typedef struct watch {
    struct watch *next; /* in its bucket */
    entity entity;
    unsigned short field;
    int64_t every, taken; /* microseconds */
    unsigned version;     /* of the machine */
    unsigned count, capacity; /* of the samples taken, and kept: one or, of a field that is asked for since a time, MAX_HISTORY */
    sample *kept;         /* a ring: the newest stands at count - 1 */
} watch;

enum { BUCKETS = 4096 };
static watch *buckets[BUCKETS];

/* Where the link to a watch is, or would be. */
static watch **find_watch(entity e, unsigned short field) {
    watch **at = &buckets[(e.entityId * 2039u + e.entityGroupId * 31u + field) % BUCKETS];
    while (*at && ((*at)->field != field || (*at)->entity.entityId != e.entityId || (*at)->entity.entityGroupId != e.entityGroupId))
        at = &(*at)->next;
    return at;
}

void watch_add(entity e, unsigned short field, int64_t every_us) {
    watch **at = find_watch(e, field);
    if (*at == NULL) {
        *at = malloc(sizeof **at);
        **at = (watch){ .entity = e, .field = field, .capacity = 1, .kept = malloc(sizeof(sample)) };
    }
    (*at)->every = every_us; /* a connection's last watch of a field replaces that before */
}

void watch_remove(entity e, unsigned short field) {
    watch **at = find_watch(e, field), *w = *at;
    if (w) {
        *at = w->next;
        free(w->kept);
        free(w);
    }
}

void watches_clear(void) {
    for (int b = 0; b < BUCKETS; b++)
        while (buckets[b])
            watch_remove(buckets[b]->entity, buckets[b]->field);
}

static void take_if_due(watch *w) {
    const int64_t now = now_us();
    const part *p = part_of(w->entity);
    const bool due = now - w->taken >= w->every || w->version != machine_version();
    if (w->count > 0 && (!due || (p && p->gpu >= 0 && has("GPUs.%d.Values.frozen", p->gpu))))
        return;
    sample fresh;
    sample_live(w->entity, w->field, &fresh);
    w->taken = now;
    w->version = machine_version();
    /* An entity that is gone keeps its last sample, which grows old. */
    if (w->count > 0 && fresh.status == DCGM_ST_NO_DATA)
        return;
    w->kept[w->count++ % w->capacity] = fresh;
}

void watches_update(void) {
    for (int b = 0; b < BUCKETS; b++)
        for (watch *w = buckets[b]; w; w = w->next)
            take_if_due(w);
}

void sample_latest(entity e, unsigned short field, sample *out) {
    watch *w = *find_watch(e, field);
    if (w == NULL) {
        fake_log("unwatched %u %u %u\n", e.entityGroupId, e.entityId, field);
        sample_blank(field, DCGM_ST_NOT_WATCHED, out);
    } else if (field == XID_ERRORS) {
        sample_live(e, field, out);
    } else {
        take_if_due(w);
        *out = w->kept[(w->count - 1) % w->capacity];
        if (out->status == DCGM_ST_NOT_SUPPORTED)
            fake_log("unsupported %u %u %u\n", e.entityGroupId, e.entityId, field);
    }
}

int samples_since(entity e, unsigned short field, int64_t from, sample *out) {
    watch *w = *find_watch(e, field);
    if (w == NULL || field == XID_ERRORS)
        return w ? xids_since(e, from, out) : -1;
    if (w->capacity == 1) { /* kept from the first request on */
        w->kept = realloc(w->kept, MAX_HISTORY * sizeof *w->kept);
        w->capacity = MAX_HISTORY;
        w->count = 0;
    }
    take_if_due(w);
    int n = 0;
    for (unsigned k = w->count < w->capacity ? 0 : w->count - w->capacity; k < w->count; k++)
        if (w->kept[k % w->capacity].ts >= from)
            out[n++] = w->kept[k % w->capacity];
    return n;
}
