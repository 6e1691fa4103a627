/* Watches and the samples they take. */
#include <search.h> /* before fake.h's ENTER, of which it has another */

#include "fake.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    struct {
        entity entity;
        unsigned field;
    } of;
    int64_t every, taken; /* microseconds; 0: never */
    unsigned version;     /* of the machine */
    sample last;
} watch;

static void *watches; /* a tree */

static int compare(const void *a, const void *b) { return memcmp(&((const watch *)a)->of, &((const watch *)b)->of, sizeof(((const watch *)a)->of)); }

static watch *find_watch(entity e, unsigned short field) {
    const watch wanted = { .of = { e, field } };
    watch **at = tfind(&wanted, &watches, compare);
    return at ? *at : NULL;
}

void watch_add(entity e, unsigned short field, int64_t every_us) {
    watch *w = find_watch(e, field);
    if (w == NULL) {
        w = calloc(1, sizeof *w);
        w->of.entity = e;
        w->of.field = field;
        tsearch(w, &watches, compare);
    }
    w->every = every_us; /* a connection's last watch of a field replaces that before */
}

void watch_remove(entity e, unsigned short field) {
    watch *w = find_watch(e, field);
    if (w) {
        tdelete(w, &watches, compare);
        free(w);
    }
}

void watches_clear(void) {
    tdestroy(watches, free);
    watches = NULL;
}

static void take_if_due(watch *w) {
    const int64_t now = now_us();
    const part *p = part_of(w->of.entity);
    const bool due = now - w->taken >= w->every || w->version != machine_version();
    if (w->taken > 0 && (!due || (p && p->gpu >= 0 && has("GPUs.%d.Values.frozen", p->gpu))))
        return;
    sample fresh;
    sample_live(w->of.entity, (unsigned short)w->of.field, &fresh);
    /* An entity that is gone keeps its last sample, which grows old. */
    if (w->taken == 0 || fresh.status != DCGM_ST_NO_DATA)
        w->last = fresh;
    w->taken = now;
    w->version = machine_version();
}

static void update(const void *node, VISIT when, int) {
    if (when == postorder || when == leaf)
        take_if_due(*(watch *const *)node);
}

void watches_update(void) { twalk(watches, update); }

void sample_latest(entity e, unsigned short field, sample *out) {
    watch *w = find_watch(e, field);
    if (w == NULL) {
        fake_log("unwatched %u %u %u\n", e.entityGroupId, e.entityId, field);
        sample_blank(field, DCGM_ST_NOT_WATCHED, out);
    } else if (field == XID_ERRORS) {
        sample_live(e, field, out);
    } else {
        take_if_due(w);
        *out = w->last;
        if (out->status == DCGM_ST_NOT_SUPPORTED)
            fake_log("unsupported %u %u %u\n", e.entityGroupId, e.entityId, field);
    }
}

int samples_since(entity e, unsigned short field, int64_t from, sample *out) {
    watch *w = find_watch(e, field);
    if (w == NULL || field == XID_ERRORS)
        return w ? xids_since(e, from, out) : -1;
    take_if_due(w);
    *out = w->last;
    return out->ts >= from;
}
