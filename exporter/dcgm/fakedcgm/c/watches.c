/* Watches and the samples they take. */
#include <search.h> /* before fake.h, since both define ENTER */

#include "fake.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    struct {
        entity entity;
        unsigned field;
    } of;
    int64_t every, since; /* microseconds */
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
    w->since = now_us();
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

bool is_watched(entity e, unsigned short field) { return find_watch(e, field) != NULL; }

void sample_latest(entity e, unsigned short field, sample *out) {
    const watch *w = find_watch(e, field);
    if (w == NULL) {
        fake_log("unwatched %u %u %u\n", e.entityGroupId, e.entityId, field);
        sample_blank(e, field, DCGM_ST_NOT_WATCHED, out);
        return;
    }
    sample_live(e, field, out);
    if (field == XID_ERRORS)
        return;
    const int64_t taken = w->since + (now_us() - w->since) / w->every * w->every;
    out->ts = taken > machine_changed() ? taken : machine_changed();
    if (out->status == DCGM_ST_NOT_SUPPORTED)
        fake_log("unsupported %u %u %u\n", e.entityGroupId, e.entityId, field);
}
