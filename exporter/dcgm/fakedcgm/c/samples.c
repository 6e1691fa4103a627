/* Watches and the samples they take. */
#include "fake.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct watch {
    struct watch *next; /* in its bucket */
    entity entity;
    int64_t every, taken; /* microseconds */
    unsigned version;     /* of the state */
    /* The samples taken, as a ring: the newest stands at (taken_count - 1). */
    unsigned count;
    sample last;
    sample *history; /* MAX_HISTORY of them, of fields that are asked for since a time */
} watch;

/* What DCGM knows about its fields, by id. */
static dcgm_field_meta_t table[DCGM_FI_MAX_FIELDS];

#define FIELDS(first, last, kind, of) \
    for (unsigned short i = first; i <= last; i++) \
        table[i] = (dcgm_field_meta_t){ .fieldId = i, .fieldType = kind, .size = kind == 'i' || kind == 'd' ? 8 : 0, .scope = of != 0, .entityLevel = of };

__attribute__((constructor)) static void fill_table(void) {
#include "fields.h"
}

dcgm_field_meta_p DcgmFieldGetById(unsigned short id) {
    return id > 0 && id < DCGM_FI_MAX_FIELDS && table[id].fieldType != 0 ? &table[id] : NULL;
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
    static const char *const texts[] = { DCGM_STR_BLANK, DCGM_STR_NOT_FOUND, DCGM_STR_NOT_SUPPORTED, DCGM_STR_NOT_PERMISSIONED };
    if (out->type == 's')
        strcpy(out->value.str, texts[offset]);
    else if (out->type == 'd')
        out->value.dbl = DCGM_FP64_BLANK + offset;
    else
        out->value.i64 = DCGM_INT64_BLANK + offset;
}

static void set_number(sample *out, double number) {
    if (out->type == 'd')
        out->value.dbl = number;
    else
        out->value.i64 = number >= 9.2e18 ? DCGM_INT64_BLANK : (int64_t)number;
}

/* How many of the XIDs happened before the host engine began. */
static int before;

void xids_begin(int n) { before = n; }

int xids_count(void) {
    int n = 0;
    while (has("xid.%d", n))
        n++;
    return n;
}

/* Gives the XIDs of an entity that the host engine knows, from a time on, as samples. */
static int xids_since(entity e, int64_t from, sample *out) {
    int found = 0;
    const char *v;
    for (int k = 0; found < MAX_HISTORY && (v = value_at("xid.%d", k)) != NULL; k++) {
        long long at, code;
        unsigned kind, id, kernel; /* kernel: in the kernel log */
        if (sscanf(v, "%lld %lld %u %u %u", &at, &code, &kind, &id, &kernel) == 5 && kind == e.entityGroupId && id == e.entityId
            && at >= from && (kernel || k >= before))
            out[found++] = (sample){ .field = XID_ERRORS, .type = 'i', .ts = at, .value.i64 = code };
    }
    return found;
}

/* Before the first XID DCGM has no data. */
static void last_xid(entity e, sample *out) {
    static sample all[MAX_HISTORY];
    *out = (sample){ .field = XID_ERRORS, .type = 'i', .status = DCGM_ST_NO_DATA };
    set_blank(out, 0);
    for (int k = 0, n = xids_since(e, 0, all); k < n; k++)
        if (all[k].ts >= out->ts)
            *out = all[k];
}

/* Answers a word: a blank, which may be 32 bits wide at its source, a number that is none, a
 * status without a value, or a text where a number is expected. */
static void answer_word(const char *word, sample *out) {
    static const char *const blanks[] = { "blank", "not_found", "unsupported", "not_permitted" };
    const bool narrow = strncmp(word, "int32_", 6) == 0;
    for (int k = 0; k < 4; k++)
        if (!narrow && strcmp(word, blanks[k]) == 0) {
            set_blank(out, k);
        } else if (narrow && strcmp(word + 6, blanks[k]) == 0) {
            out->type = 'i';
            out->value.i64 = DCGM_INT32_BLANK + k;
        }
    if (strcmp(word, "nan") == 0 || strcmp(word, "inf") == 0) {
        out->type = 'd';
        out->value.dbl = *word == 'n' ? NAN : INFINITY;
    } else if (strncmp(word, "status:", 7) == 0) {
        out->status = atoi(word + 7);
        set_blank(out, 0);
    } else if (strncmp(word, "text:", 5) == 0) {
        out->type = 's';
        snprintf(out->value.str, sizeof out->value.str, "%s", word + 5);
    }
}

/* Answers what the state says of a field. */
static bool answer(entity e, sample *out) {
    const char *path = path_of(e), *v = path ? value_at("%s.f.%u", path, out->field) : NULL;
    if (v == NULL)
        v = path ? identity(e, out->field) : NULL;
    if (v != NULL && *v == '!')
        answer_word(v + 1, out);
    else if (v != NULL && out->type == 's')
        snprintf(out->value.str, sizeof out->value.str, "%s", v);
    else if (v != NULL)
        set_number(out, strtod(v, NULL));
    return v != NULL;
}

/* Which entity answers: DCGM gives what it measures on GPUs only of the GPU, and a compute
 * instance has the values of its GPU instance. */
static entity answering(entity e, dcgm_field_meta_p meta) {
    const bool of_instance = meta == NULL || meta->entityLevel == DCGM_FE_GPU_I || meta->entityLevel == DCGM_FE_GPU_CI;
    e = instance_of(e);
    return e.entityGroupId == DCGM_FE_GPU_I && !of_instance ? gpu_of(e) : e;
}

void sample_live(entity e, unsigned short field, sample *out) {
    dcgm_field_meta_p meta = DcgmFieldGetById(field);
    const entity of = answering(e, meta);
    *out = (sample){ .field = field, .type = meta ? (unsigned short)meta->fieldType : 'i' };
    out->status = meta == NULL ? DCGM_ST_UNKNOWN_FIELD : path_of(e) ? DCGM_ST_OK : DCGM_ST_NO_DATA;
    if (field == XID_ERRORS && out->status == DCGM_ST_OK && !answer(of, out)) {
        last_xid(e, out);
        return;
    }
    out->ts = out->status == DCGM_ST_OK ? now_us() : 0;
    if (out->status != DCGM_ST_OK || is_lost(e) || !answer(of, out))
        set_blank(out, 0);
}

/* Where the link to a watch is, or would be. */
static watch **find_watch(entity e, unsigned short field) {
    watch **at = &buckets[(e.entityId * 2039u + e.entityGroupId * 31u + field) % BUCKETS];
    while (*at && ((*at)->last.field != field || (*at)->entity.entityId != e.entityId || (*at)->entity.entityGroupId != e.entityGroupId))
        at = &(*at)->next;
    return at;
}

dcgmReturn_t watch_add(entity e, unsigned short field, int64_t every_us) {
    watch **at = find_watch(e, field);
    if (*at) { /* the fastest watcher decides */
        (*at)->every = every_us < (*at)->every ? every_us : (*at)->every;
        return DCGM_ST_OK;
    }
    watch *w = calloc(1, sizeof *w);
    if (w == NULL)
        return DCGM_ST_MEMORY;
    *w = (watch){ .entity = e, .every = every_us, .last.field = field };
    *at = w;
    return DCGM_ST_OK;
}

void watch_remove(entity e, unsigned short field) {
    watch **at = find_watch(e, field), *w = *at;
    if (w) {
        *at = w->next;
        free(w->history);
        free(w);
    }
}

void watches_clear(void) {
    for (int b = 0; b < BUCKETS; b++)
        while (buckets[b])
            watch_remove(buckets[b]->entity, buckets[b]->last.field);
}

static void take_if_due(watch *w) {
    int64_t now = now_us();
    const bool due = now - w->taken >= w->every || w->version != lines_version();
    if (w->count > 0 && (!due || number_of(gpu_of(w->entity), "frozen")))
        return;
    sample fresh;
    sample_live(w->entity, w->last.field, &fresh);
    w->taken = now;
    w->version = lines_version();
    /* An entity that is gone keeps its last sample, which grows old. */
    if (w->count > 0 && fresh.status == DCGM_ST_NO_DATA)
        return;
    w->last = fresh;
    if (w->history)
        w->history[w->count % MAX_HISTORY] = fresh;
    w->count++;
}

void watches_update(void) {
    for (int b = 0; b < BUCKETS; b++)
        for (watch *w = buckets[b]; w; w = w->next)
            take_if_due(w);
}

void sample_latest(entity e, unsigned short field, sample *out) {
    watch *w = *find_watch(e, field);
    if (w && field == XID_ERRORS) {
        sample_live(e, field, out);
        return;
    }
    if (w) {
        take_if_due(w);
        *out = w->last;
        if (out->status == DCGM_ST_NOT_SUPPORTED)
            fake_log("unsupported %u %u %u", e.entityGroupId, e.entityId, field);
        return;
    }
    fake_log("unwatched %u %u %u", e.entityGroupId, e.entityId, field);
    dcgm_field_meta_p meta = DcgmFieldGetById(field);
    *out = (sample){ .field = field, .type = meta ? (unsigned short)meta->fieldType : 'i' };
    out->status = meta ? DCGM_ST_NOT_WATCHED : DCGM_ST_UNKNOWN_FIELD;
    set_blank(out, 0);
}

int samples_since(entity e, unsigned short field, int64_t from, sample *out) {
    watch *w = *find_watch(e, field);
    if (w == NULL)
        return 0;
    if (field == XID_ERRORS)
        return xids_since(e, from, out);
    if (w->history == NULL) { /* from the first request on */
        w->history = calloc(MAX_HISTORY, sizeof *w->history);
        w->count = 0;
    }
    take_if_due(w);
    int n = 0;
    unsigned kept = w->count < MAX_HISTORY ? w->count : MAX_HISTORY;
    for (unsigned k = w->count - kept; w->history && k < w->count; k++) {
        const sample *v = &w->history[k % MAX_HISTORY];
        if (v->ts >= from)
            out[n++] = *v;
    }
    return n;
}
