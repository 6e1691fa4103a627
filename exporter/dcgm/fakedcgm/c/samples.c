/* Watches and the samples they take. */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct watch {
    struct watch *next; /* in its bucket */
    entity_t entity;
    bool sampled;
    int64_t every, taken; /* microseconds */
    sample last;
} watch;

enum { XID_ERRORS = 230, BUCKETS = 4096 };

static watch *buckets[BUCKETS];

const card *find_card(const state *s, unsigned int gpu) {
    for (int i = 0; i < s->cards; i++)
        if ((unsigned)s->card[i].index == gpu)
            return &s->card[i];
    return NULL;
}

const instance *find_instance(const state *s, unsigned int entity, const card **parent) {
    for (int i = 0; i < s->cards; i++) {
        const card *c = &s->card[i];
        for (int k = 0; k < c->instances; k++) {
            if ((unsigned)c->instance[k].entity == entity) {
                *parent = c;
                return &c->instance[k];
            }
        }
    }
    return NULL;
}

bool entity_exists(const state *s, entity_t e) {
    const card *parent;
    if (e.kind == FE_GPU)
        return find_card(s, e.id) != NULL;
    /* A compute instance fills its GPU instance and shares its number. */
    return (e.kind == FE_GPU_I || e.kind == FE_GPU_CI) && find_instance(s, e.id, &parent) != NULL;
}

static void set_blank(sample *out, bool unsupported) {
    if (out->type == 's')
        strcpy(out->value.str, unsupported ? STR_NOT_SUPPORTED : STR_BLANK);
    else if (out->type == 'd')
        out->value.dbl = FP64_BLANK + (unsupported ? 2 : 0);
    else
        out->value.i64 = INT64_BLANK + (unsupported ? 2 : 0);
}

static void set_text(sample *out, const char *text) {
    if (*text)
        snprintf(out->value.str, MAX_TEXT, "%s", text);
    else
        set_blank(out, false);
}

static void set_number(sample *out, double number) {
    if (out->type == 'd')
        out->value.dbl = number;
    else
        out->value.i64 = number >= 9.2e18 ? INT64_BLANK : (int64_t)number;
}

/* Values that follow from what the card is, unless the state sets them. */
static bool identity(const state *s, const card *c, const instance *i, sample *out) {
    switch (out->field) {
    case 1: set_text(out, s->driver); break;
    case 50: set_text(out, i ? i->profile : c->product); break;
    case 52: set_number(out, c->index); break;
    case 54: set_text(out, i ? i->uuid : c->uuid); break;
    case 55: set_number(out, c->minor); break;
    case 57: set_text(out, c->pci); break;
    case 67: set_number(out, c->mig); break;
    /* Seven slices on every card but the A30, which has four. */
    case 69: set_number(out, strstr(c->product, "A30") && !strstr(c->product, "A300") ? 4 : 7); break;
    case 250:
        if (i)
            return false;
        set_number(out, c->memory);
        break;
    default: return false;
    }
    return true;
}

static void set_from_xids(const card *c, sample *out) {
    out->value.i64 = 0;
    const xid_event *newest = NULL;
    for (int k = 0; k < c->xids; k++)
        if (newest == NULL || c->xid[k].at >= newest->at)
            newest = &c->xid[k];
    if (newest) {
        out->value.i64 = newest->code;
        out->ts = newest->at;
    }
}

void sample_live(const state *s, entity_t e, unsigned short field, sample *out) {
    const field_meta *meta = field_by_id(field);
    const card *c = NULL;
    const instance *i = NULL;
    if (e.kind == FE_GPU)
        c = find_card(s, e.id);
    else if (e.kind == FE_GPU_I || e.kind == FE_GPU_CI)
        i = find_instance(s, e.id, &c);
    /* DCGM answers what it measures on cards only with the card's value. */
    if (meta && meta->level == FE_GPU)
        i = NULL;
    *out = (sample){ .field = field, .type = meta ? (unsigned short)meta->type : 'i' };
    out->status = meta == NULL ? ST_UNKNOWN_FIELD : c == NULL ? ST_NO_DATA : ST_OK;
    out->ts = out->status == ST_OK ? now_us() : 0;
    if (out->status != ST_OK || c->lost) {
        set_blank(out, false);
        return;
    }
    const field_set *set = i ? &i->fields : &c->fields;
    for (int k = 0; k < set->count; k++) {
        if (set->list[k].id != field)
            continue;
        if (set->list[k].unsupported)
            set_blank(out, true);
        else
            set_number(out, set->list[k].number);
        return;
    }
    if (field == XID_ERRORS && i == NULL)
        set_from_xids(c, out);
    else if (!identity(s, c, i, out))
        set_blank(out, false);
}

/* Where the link to a watch is, or would be. */
static watch **find_watch(entity_t e, unsigned short field) {
    watch **at = &buckets[(e.id * 2039u + e.kind * 31u + field) % BUCKETS];
    while (*at && ((*at)->last.field != field || (*at)->entity.id != e.id || (*at)->entity.kind != e.kind))
        at = &(*at)->next;
    return at;
}

bool watch_exists(entity_t e, unsigned short field) {
    return *find_watch(e, field) != NULL;
}

status_t watch_add(entity_t e, unsigned short field, int64_t every_us) {
    watch **at = find_watch(e, field);
    if (*at) { /* the fastest watcher decides */
        (*at)->every = every_us < (*at)->every ? every_us : (*at)->every;
        return ST_OK;
    }
    watch *w = calloc(1, sizeof *w);
    if (w == NULL)
        return ST_MEMORY;
    *w = (watch){ .entity = e, .every = every_us, .last.field = field };
    *at = w;
    return ST_OK;
}

void watch_remove(entity_t e, unsigned short field) {
    watch **at = find_watch(e, field), *w = *at;
    if (w) {
        *at = w->next;
        free(w);
    }
}

void watches_clear(void) {
    for (int b = 0; b < BUCKETS; b++) {
        while (buckets[b]) {
            watch *w = buckets[b];
            buckets[b] = w->next;
            free(w);
        }
    }
}

static void take_if_due(const state *s, watch *w) {
    int64_t now = now_us();
    if (w->sampled && now - w->taken < w->every)
        return;
    sample fresh;
    sample_live(s, w->entity, w->last.field, &fresh);
    w->taken = now;
    /* An entity that is gone keeps its last sample, which grows old. */
    if (w->sampled && fresh.status == ST_NO_DATA)
        return;
    w->last = fresh;
    w->sampled = true;
}

void watches_update(const state *s) {
    for (int b = 0; b < BUCKETS; b++)
        for (watch *w = buckets[b]; w; w = w->next)
            take_if_due(s, w);
}

void sample_latest(const state *s, entity_t e, unsigned short field, sample *out) {
    watch *w = *find_watch(e, field);
    if (w) {
        take_if_due(s, w);
        *out = w->last;
        return;
    }
    const field_meta *meta = field_by_id(field);
    *out = (sample){ .field = field, .type = meta ? (unsigned short)meta->type : 'i' };
    out->status = meta ? ST_NOT_WATCHED : ST_UNKNOWN_FIELD;
    set_blank(out, false);
}
