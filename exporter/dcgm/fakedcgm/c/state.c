/* Parsing of one state file. Every line is a keyword and key-value pairs; what
 * is not understood is an error, so that a typo in a test cannot pass. */
#include "state.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 24 };

/* Splits a line into words in place; gives their number or -1. */
static int split(char *line, char **words) {
    int n = 0;
    char *p = line + strspn(line, " \t");
    if (*p == '#')
        return 0;
    while (*p) {
        if (n == MAX_WORDS)
            return -1;
        bool quoted = *p == '"';
        char *end;
        if (quoted) {
            end = strchr(++p, '"');
            if (end == NULL || (end[1] != '\0' && end[1] != ' ' && end[1] != '\t'))
                return -1;
        } else {
            end = p + strcspn(p, " \t");
            if (memchr(p, '"', (size_t)(end - p)))
                return -1;
        }
        if (end - p >= MAX_TEXT || memchr(p, '\r', (size_t)(end - p)))
            return -1;
        words[n++] = p;
        bool last = *end == '\0';
        *end = '\0';
        p = last ? end : end + 1;
        p += strspn(p, " \t");
    }
    return n;
}

static bool whole(const char *s, int64_t *out) {
    char *end;
    errno = 0;
    *out = strtoll(s, &end, 10);
    return errno == 0 && end != s && *end == '\0';
}

/* A key that a line must have, and where its value goes. */
typedef struct {
    const char *key;
    int *number;
    int64_t *wide;
    bool *yes;
    char *text;
} slot;

/* Fills all slots from words[1..n): each key once, none missing, none unknown. */
static bool fill(char **words, int n, const slot *slots, int count) {
    unsigned seen = 0;
    if (n != 1 + 2 * count)
        return false;
    for (int w = 1; w < n; w += 2) {
        int k = 0;
        while (k < count && strcmp(slots[k].key, words[w]) != 0)
            k++;
        if (k == count || (seen & (1u << k)))
            return false;
        seen |= 1u << k;
        const slot *s = &slots[k];
        const char *v = words[w + 1];
        if (s->text) {
            strcpy(s->text, v); /* split() kept it under MAX_TEXT */
            continue;
        }
        int64_t x;
        if (!whole(v, &x))
            return false;
        if (s->wide)
            *s->wide = x;
        else if (s->yes)
            *s->yes = x != 0;
        else if (x < INT32_MIN || x > INT32_MAX)
            return false;
        else
            *s->number = (int)x;
    }
    return true;
}

static bool add_gpu(state *out, char **w, int n) {
    if (out->GPUs == MAX_GPUS)
        return false;
    GPU *c = &out->GPU[out->GPUs++];
    out->last = &c->fields;
    slot slots[] = {
        { .key = "index", .number = &c->index }, { .key = "minor", .number = &c->minor },
        { .key = "memory", .number = &c->memory }, { .key = "mig", .yes = &c->mig },
        { .key = "lost", .yes = &c->lost },        { .key = "uuid", .text = c->uuid },
        { .key = "pci", .text = c->pci },          { .key = "product", .text = c->product },
    };
    return fill(w, n, slots, 8);
}

static bool add_instance(state *out, GPU *c, char **w, int n) {
    if (c == NULL || c->instances == MAX_INSTANCES)
        return false;
    instance *i = &c->instance[c->instances++];
    out->last = &i->fields;
    slot slots[] = {
        { .key = "id", .number = &i->id },         { .key = "entity", .number = &i->entity },
        { .key = "slices", .number = &i->slices }, { .key = "start", .number = &i->start },
        { .key = "size", .number = &i->size },     { .key = "profile", .text = i->profile },
        { .key = "uuid", .text = i->uuid },
    };
    return fill(w, n, slots, 7);
}

static bool add_xid(GPU *c, char **w, int n) {
    if (c == NULL || c->xids == MAX_XIDS)
        return false;
    xid_event *x = &c->xid[c->xids++];
    slot slots[] = { { .key = "code", .number = &x->code }, { .key = "at", .wide = &x->at } };
    return fill(w, n, slots, 2);
}

/* Words that a field may have instead of a number. */
static bool special(const char *word, field_value *out) {
    static const struct {
        const char *word;
        answer what;
    } all[] = {
        { "blank", A_BLANK },
        { "not_found", A_NOT_FOUND },
        { "unsupported", A_UNSUPPORTED },
        { "not_permitted", A_NOT_PERMITTED },
        { "int32_blank", A_INT32_BLANK },
        { "int32_not_found", A_INT32_NOT_FOUND },
        { "int32_unsupported", A_INT32_UNSUPPORTED },
        { "int32_not_permitted", A_INT32_NOT_PERMITTED },
        { "nan", A_NAN },
        { "inf", A_INF },
    };
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(word, all[i].word) == 0) {
            out->what = all[i].what;
            return true;
        }
    }
    int64_t code;
    if (strncmp(word, "status:", 7) == 0 && whole(word + 7, &code) && code < 0 && code > -1000) {
        out->what = A_STATUS;
        out->number = (double)code;
        return true;
    }
    if (strncmp(word, "text:", 5) == 0) {
        out->what = A_TEXT;
        strcpy(out->text, word + 5);
        return true;
    }
    return false;
}

static bool field_id(const char *word, unsigned short *out) {
    int64_t id;
    if (!whole(word, &id) || id < 0 || id > UINT16_MAX)
        return false;
    *out = (unsigned short)id;
    return true;
}

static bool add_field(field_set *set, char **w, int n) {
    field_value v = { .what = A_NUMBER };
    if (set == NULL || n != 3 || !field_id(w[1], &v.id))
        return false;
    if (!special(w[2], &v)) {
        char *end;
        v.number = strtod(w[2], &end);
        if (end == w[2] || *end != '\0' || !isfinite(v.number))
            return false;
    }
    for (int i = 0; i < set->count; i++) {
        if (set->list[i].id == v.id) {
            set->list[i] = v;
            return true;
        }
    }
    if (set->count == MAX_FIELDS)
        return false;
    set->list[set->count++] = v;
    return true;
}

static bool add_profiled(GPU *c, char **w, int n) {
    if (c == NULL || n < 2 || n - 1 > MAX_PROFILED)
        return false;
    for (int i = 1; i < n; i++)
        if (!field_id(w[i], &c->profile[i - 1]))
            return false;
    c->profiled = n - 1;
    return true;
}

/* Kinds of entity as abi.h numbers them, which this file does not know. */
enum { KIND_GPU = 1, KIND_SWITCH = 3, KIND_LINK = 6, KIND_CPU = 7, KIND_CORE = 8 };

static bool add_thing(state *out, unsigned kind, char **w, int n) {
    if (out->things == MAX_THINGS)
        return false;
    thing *t = &out->thing[out->things++];
    int id = 0, cpus = 0;
    for (int i = 0; i < out->things - 1; i++)
        cpus += out->thing[i].kind == KIND_CPU;
    if (kind == KIND_CORE && cpus == 0)
        return false;
    t->kind = kind;
    out->last = &t->fields;
    if (kind == KIND_LINK) {
        slot slots[] = { { .key = "of", .number = &t->parent_kind },
                         { .key = "id", .number = &t->parent },
                         { .key = "index", .number = &t->index },
                         { .key = "up", .yes = &t->up } };
        if (!fill(w, n, slots, 4) || (t->parent_kind != KIND_GPU && t->parent_kind != KIND_SWITCH))
            return false;
        if (t->parent < 0 || t->parent > 255 || t->index < 0 || t->index > (t->parent_kind == KIND_GPU ? 17 : 255))
            return false;
        /* dcgm_link_t: type, index and parent in 8, 16 and 8 bits. */
        t->id = (unsigned)t->parent_kind | (unsigned)t->index << 8 | (unsigned)t->parent << 24;
        return true;
    }
    slot slots[] = { { .key = "id", .number = &id },
                     { .key = "first", .number = &t->first },
                     { .key = "last", .number = &t->last } };
    if (!fill(w, n, slots, kind == KIND_CPU ? 3 : 1) || id < 0)
        return false;
    t->id = (unsigned)id;
    return kind != KIND_CPU || (t->first >= 0 && t->first <= t->last && t->last < 1024);
}

static bool add_incident(state *out, char **w, int n) {
    if (out->incidents == MAX_NOTES)
        return false;
    health_note *h = &out->incident[out->incidents++];
    slot slots[] = { { .key = "gpu", .number = &h->gpu },
                     { .key = "system", .number = &h->system },
                     { .key = "result", .number = &h->result },
                     { .key = "code", .number = &h->code } };
    return fill(w, n, slots, 4);
}

static bool add_peer(state *out, char **w, int n) {
    if (out->peers == MAX_NOTES)
        return false;
    peer_note *p = &out->peer[out->peers++];
    slot slots[] = { { .key = "from", .number = &p->from },
                     { .key = "to", .number = &p->to },
                     { .key = "status", .number = &p->status } };
    return fill(w, n, slots, 3);
}

static bool add_failing(state *out, char **w, int n) {
    if (out->failing == MAX_NOTES)
        return false;
    failing_call *f = &out->fail[out->failing++];
    slot slots[] = { { .key = "call", .text = f->call }, { .key = "status", .number = &f->status } };
    return fill(w, n, slots, 2);
}

static bool apply(state *out, char **w, int n) {
    GPU *last = out->GPUs ? &out->GPU[out->GPUs - 1] : NULL;
    const char *word = w[0];
    if (strcmp(word, "field") == 0)
        return add_field(out->last, w, n);
    if (strcmp(word, "gpu") == 0)
        return add_gpu(out, w, n);
    if (strcmp(word, "instance") == 0)
        return add_instance(out, last, w, n);
    if (strcmp(word, "xid") == 0)
        return add_xid(last, w, n);
    if (strcmp(word, "profiling") == 0)
        return add_profiled(last, w, n);
    if (strcmp(word, "frozen") == 0 && n == 1)
        return last && (last->frozen = true);
    if (strcmp(word, "switch") == 0)
        return add_thing(out, KIND_SWITCH, w, n);
    if (strcmp(word, "link") == 0)
        return add_thing(out, KIND_LINK, w, n);
    if (strcmp(word, "cpu") == 0)
        return add_thing(out, KIND_CPU, w, n);
    if (strcmp(word, "core") == 0)
        return add_thing(out, KIND_CORE, w, n);
    if (strcmp(word, "health") == 0)
        return add_incident(out, w, n);
    if (strcmp(word, "p2p") == 0)
        return add_peer(out, w, n);
    if (strcmp(word, "fail") == 0)
        return add_failing(out, w, n);
    if (strcmp(word, "driver") == 0)
        return fill(w, n, &(slot){ .key = "version", .text = out->driver }, 1);
    if (strcmp(word, "hang") == 0)
        return fill(w, n, &(slot){ .key = "ms", .wide = &out->hang_ms }, 1);
    if (strcmp(word, "dead") == 0 && n == 1)
        return out->dead = true;
    if (strcmp(word, "nonvml") == 0 && n == 1)
        return out->no_nvml = true;
    return false;
}

int state_parse(char *text, state *out) {
    memset(out, 0, sizeof *out);
    int number = 1;
    for (char *line = text; line; number++) {
        char *newline = strchr(line, '\n');
        if (newline)
            *newline = '\0';
        if (number == 1) {
            if (strcmp(line, "fakedcgm 1") != 0)
                return number;
        } else if (strcmp(line, "end") == 0) {
            return 0;
        } else {
            char *words[MAX_WORDS];
            int n = split(line, words);
            if (n < 0 || (n > 0 && !apply(out, words, n)))
                return number;
        }
        line = newline ? newline + 1 : NULL;
    }
    return number; /* no "end": the file is truncated */
}
