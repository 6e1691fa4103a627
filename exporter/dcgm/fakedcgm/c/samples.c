/* Watches and the samples they take. */
#include "fake.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct watch {
    struct watch *next; /* in its bucket */
    entity_t entity;
    int64_t every, taken; /* microseconds */
    /* The samples taken, as a ring: the newest stands at (taken_count - 1). */
    unsigned count;
    sample last;
    struct history *history; /* of fields that are asked for since a time */
} watch;

typedef struct history {
    sample ring[MAX_HISTORY];
} history;

/* What DCGM knows about its fields, by id. */
#define FIELD(number, kind, of, where, name) \
    [number] = { .id = number, .type = kind, .size = kind == 'i' || kind == 'd' ? 8 : 0, .tag = name, .scope = where, .level = of },

static const field_meta table[MAX_FIELD_ID] = {
#include "fields.h"
};

const field_meta *field_by_id(unsigned short id) {
    return id > 0 && id < MAX_FIELD_ID && table[id].type != 0 ? &table[id] : NULL;
}

static int64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

enum { XID_ERRORS = 230, BUCKETS = 4096 };

static watch *buckets[BUCKETS];

/* offset 0 is blank, then not found, not supported and not permitted. */
static void set_blank(sample *out, int offset) {
    static const char *const texts[] = { STR_BLANK, STR_NOT_FOUND, STR_NOT_SUPPORTED, STR_NOT_PERMITTED };
    if (out->type == 's')
        strcpy(out->value.str, texts[offset]);
    else if (out->type == 'd')
        out->value.dbl = FP64_BLANK + offset;
    else
        out->value.i64 = INT64_BLANK + offset;
}

static void set_text(sample *out, const char *text) {
    if (*text)
        snprintf(out->value.str, MAX_TEXT, "%s", text);
    else
        set_blank(out, 0);
}

static void set_number(sample *out, double number) {
    if (out->type == 'd')
        out->value.dbl = number;
    else
        out->value.i64 = number >= 9.2e18 ? INT64_BLANK : (int64_t)number;
}

/* Values that follow from what the GPU is, unless the state sets them. */
static bool identity(const state *s, const GPU *c, const instance *i, sample *out) {
    switch (out->field) {
    case 1: set_text(out, s->driver); break;
    case 50: set_text(out, i ? i->profile : c->product); break;
    case 52: set_number(out, c->index); break;
    case 54: set_text(out, i ? i->uuid : c->uuid); break;
    case 55: set_number(out, c->minor); break;
    case 57: set_text(out, c->pci); break;
    case 67: set_number(out, c->mig); break;
    /* Seven slices on every GPU but the A30, which has four. */
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

/* The XIDs that there were when the host engine began. */
static xid_event before[MAX_XIDS];
static int befores;

void xids_begin(const xid_event *xids, int n) {
    befores = n;
    memcpy(before, xids, (size_t)n * sizeof *before);
}

/* Gives the k-th XID as a sample where the host engine knows it. */
static bool xid_sample(const state *s, int k, sample *out) {
    const xid_event *x = &s->xid[k];
    *out = (sample){ .field = XID_ERRORS, .type = 'i', .ts = x->at, .value.i64 = x->code };
    for (int i = 0; i < befores; i++) {
        const xid_event *b = &before[i];
        if (b->at == x->at && b->code == x->code && b->kind == x->kind && b->id == x->id) {
            out->ts += s->kernel_shift;
            return x->kernel;
        }
    }
    return true;
}

static bool is_of(const xid_event *x, entity_t e) {
    return (unsigned)x->kind == e.kind && (unsigned)x->id == e.id;
}

/* Before the first XID DCGM has no data. */
static void last_xid(const state *s, entity_t e, sample *out) {
    *out = (sample){ .field = XID_ERRORS, .type = 'i', .status = ST_NO_DATA };
    set_blank(out, 0);
    for (int k = 0; k < s->xids; k++) {
        sample v;
        if (is_of(&s->xid[k], e) && xid_sample(s, k, &v) && v.ts >= out->ts)
            *out = v;
    }
}

/* Answers what the state says of a field. */
static void answer_field(const state *s, const field_value *f, sample *out) {
    switch (f->what) {
    case A_NUMBER: set_number(out, f->number); break;
    case A_TEXT:
        out->type = 's';
        snprintf(out->value.str, MAX_TEXT, "%s", s->text[(int)f->number]);
        break;
    case A_NAN:
    case A_INF:
        out->type = 'd';
        out->value.dbl = f->what == A_NAN ? NAN : INFINITY;
        break;
    case A_STATUS:
        out->status = (int)f->number;
        set_blank(out, 0);
        break;
    case A_BLANK:
    case A_NOT_FOUND:
    case A_UNSUPPORTED:
    case A_NOT_PERMITTED: set_blank(out, (int)f->what - A_BLANK); break;
    default: /* 32 bits wide at its source */
        out->type = 'i';
        out->value.i64 = INT32_BLANK + ((int)f->what - A_INT32_BLANK);
    }
}

const field_value *find_value(const state *s, span of, unsigned short field) {
    for (int k = of.first; k < of.first + of.count; k++)
        if (s->value[k].id == field)
            return &s->value[k];
    return NULL;
}

static bool answer_from(const state *s, span of, sample *out) {
    const field_value *f = find_value(s, of, out->field);
    if (f)
        answer_field(s, f, out);
    return f != NULL;
}

/* Switches, links, CPUs and cores have what the state says and nothing else. */
static void thing_live(const state *s, entity_t e, sample *out) {
    const thing *t = find_thing(s, e);
    if (!entity_exists(s, e) || out->status != ST_OK) {
        out->status = out->status == ST_OK ? ST_NO_DATA : out->status;
        set_blank(out, 0);
        return;
    }
    out->ts = now_us();
    if (t == NULL || !answer_from(s, t->fields, out))
        set_blank(out, 0);
}

void sample_live(const state *s, entity_t e, unsigned short field, sample *out) {
    const field_meta *meta = field_by_id(field);
    const GPU *c = NULL;
    const instance *i = NULL;
    *out = (sample){ .field = field, .type = meta ? (unsigned short)meta->type : 'i' };
    out->status = meta == NULL ? ST_UNKNOWN_FIELD : ST_OK;
    if (e.kind == FE_GPU) {
        c = find_gpu(s, e.id);
    } else if (e.kind == FE_GPU_I) {
        i = find_instance(s, e.id, &c);
    } else if (e.kind == FE_GPU_CI) {
        i = find_compute(s, e.id, &c);
    } else {
        thing_live(s, e, out);
        return;
    }
    /* DCGM answers what it measures on GPUs only with the GPU's value. */
    if (meta && meta->level != FE_GPU_I && meta->level != FE_GPU_CI)
        i = NULL;
    if (meta && c == NULL)
        out->status = ST_NO_DATA;
    if (field == XID_ERRORS && out->status == ST_OK && !answer_from(s, i ? i->fields : c->fields, out)) {
        last_xid(s, e, out);
        return;
    }
    out->ts = out->status == ST_OK ? now_us() : 0;
    if (out->status != ST_OK || c->lost) {
        set_blank(out, 0);
        return;
    }
    if (answer_from(s, i ? i->fields : c->fields, out))
        return;
    if (!identity(s, c, i, out))
        set_blank(out, 0);
}

/* Where the link to a watch is, or would be. */
static watch **find_watch(entity_t e, unsigned short field) {
    watch **at = &buckets[(e.id * 2039u + e.kind * 31u + field) % BUCKETS];
    while (*at && ((*at)->last.field != field || (*at)->entity.id != e.id || (*at)->entity.kind != e.kind))
        at = &(*at)->next;
    return at;
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

static void watch_free(watch *w) {
    free(w->history);
    free(w);
}

void watch_remove(entity_t e, unsigned short field) {
    watch **at = find_watch(e, field), *w = *at;
    if (w) {
        *at = w->next;
        watch_free(w);
    }
}

void watches_clear(void) {
    for (int b = 0; b < BUCKETS; b++) {
        while (buckets[b]) {
            watch *w = buckets[b];
            buckets[b] = w->next;
            watch_free(w);
        }
    }
}

static bool is_frozen(const state *s, entity_t e) {
    const GPU *c = NULL;
    if (e.kind == FE_GPU)
        c = find_gpu(s, e.id);
    else if (e.kind == FE_GPU_I)
        find_instance(s, e.id, &c);
    return c && c->frozen;
}

static void take_if_due(const state *s, watch *w) {
    int64_t now = now_us();
    if (w->count > 0 && (now - w->taken < w->every || is_frozen(s, w->entity)))
        return;
    sample fresh;
    sample_live(s, w->entity, w->last.field, &fresh);
    w->taken = now;
    /* An entity that is gone keeps its last sample, which grows old. */
    if (w->count > 0 && fresh.status == ST_NO_DATA)
        return;
    w->last = fresh;
    if (w->history)
        w->history->ring[w->count % MAX_HISTORY] = fresh;
    w->count++;
}

void watches_update(const state *s) {
    for (int b = 0; b < BUCKETS; b++)
        for (watch *w = buckets[b]; w; w = w->next)
            take_if_due(s, w);
}

void sample_latest(const state *s, entity_t e, unsigned short field, sample *out) {
    watch *w = *find_watch(e, field);
    if (w && field == XID_ERRORS) {
        sample_live(s, e, field, out);
        return;
    }
    if (w) {
        take_if_due(s, w);
        *out = w->last;
        return;
    }
    fake_log("unwatched %u %u %u", e.kind, e.id, field);
    const field_meta *meta = field_by_id(field);
    *out = (sample){ .field = field, .type = meta ? (unsigned short)meta->type : 'i' };
    out->status = meta ? ST_NOT_WATCHED : ST_UNKNOWN_FIELD;
    set_blank(out, 0);
}

/* Of field 230 each event of the state is a sample; it has no others. */
static int xids_since(const state *s, entity_t e, int64_t from, sample *out) {
    int n = 0;
    for (int k = 0; k < s->xids && n < MAX_HISTORY; k++)
        if (is_of(&s->xid[k], e) && xid_sample(s, k, &out[n]) && out[n].ts >= from)
            n++;
    return n;
}

int samples_since(const state *s, entity_t e, unsigned short field, int64_t from, sample *out) {
    watch *w = *find_watch(e, field);
    if (w == NULL)
        return 0;
    if (field == XID_ERRORS)
        return xids_since(s, e, from, out);
    if (w->history == NULL) { /* from the first request on */
        w->history = calloc(1, sizeof *w->history);
        w->count = 0;
    }
    take_if_due(s, w);
    int n = 0;
    unsigned kept = w->count < MAX_HISTORY ? w->count : MAX_HISTORY;
    for (unsigned k = w->count - kept; w->history && k < w->count; k++) {
        const sample *v = &w->history->ring[k % MAX_HISTORY];
        if (v->ts >= from)
            out[n++] = *v;
    }
    return n;
}
