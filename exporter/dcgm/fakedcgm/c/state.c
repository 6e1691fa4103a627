/* Parsing of one state file. Every line is a keyword and key-value pairs; what
 * is not understood is an error, so that a typo in a test cannot pass. */
#include "state.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 24 };

/* Cuts a line into words in place; gives their number or -1. */
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

static bool add_card(state *out, char **w, int n) {
    if (out->cards == MAX_CARDS)
        return false;
    card *c = &out->card[out->cards++];
    slot slots[] = {
        { .key = "index", .number = &c->index }, { .key = "minor", .number = &c->minor },
        { .key = "memory", .number = &c->memory }, { .key = "mig", .yes = &c->mig },
        { .key = "lost", .yes = &c->lost },        { .key = "uuid", .text = c->uuid },
        { .key = "pci", .text = c->pci },          { .key = "product", .text = c->product },
    };
    return fill(w, n, slots, 8);
}

static bool add_instance(card *c, char **w, int n) {
    if (c == NULL || c->instances == MAX_INSTANCES)
        return false;
    instance *i = &c->instance[c->instances++];
    slot slots[] = {
        { .key = "id", .number = &i->id },         { .key = "entity", .number = &i->entity },
        { .key = "slices", .number = &i->slices }, { .key = "start", .number = &i->start },
        { .key = "size", .number = &i->size },     { .key = "profile", .text = i->profile },
        { .key = "uuid", .text = i->uuid },
    };
    return fill(w, n, slots, 7);
}

static bool add_xid(card *c, char **w, int n) {
    if (c == NULL || c->xids == MAX_XIDS)
        return false;
    xid_event *x = &c->xid[c->xids++];
    slot slots[] = { { .key = "code", .number = &x->code }, { .key = "at", .wide = &x->at } };
    return fill(w, n, slots, 2);
}

static bool add_field(card *c, char **w, int n) {
    int64_t id;
    if (c == NULL || n != 3 || !whole(w[1], &id) || id < 0 || id > UINT16_MAX)
        return false;
    field_set *set = c->instances ? &c->instance[c->instances - 1].fields : &c->fields;
    field_value v = { .id = (unsigned short)id };
    if (strcmp(w[2], "unsupported") == 0) {
        v.unsupported = true;
    } else {
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

static bool apply(state *out, char **w, int n) {
    card *last = out->cards ? &out->card[out->cards - 1] : NULL;
    if (strcmp(w[0], "field") == 0)
        return add_field(last, w, n);
    if (strcmp(w[0], "card") == 0)
        return add_card(out, w, n);
    if (strcmp(w[0], "instance") == 0)
        return add_instance(last, w, n);
    if (strcmp(w[0], "xid") == 0)
        return add_xid(last, w, n);
    if (strcmp(w[0], "driver") == 0)
        return fill(w, n, &(slot){ .key = "version", .text = out->driver }, 1);
    if (strcmp(w[0], "hang") == 0)
        return fill(w, n, &(slot){ .key = "ms", .wide = &out->hang_ms }, 1);
    if (strcmp(w[0], "dead") == 0 && n == 1)
        return out->dead = true;
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
    return number; /* no "end": the file is cut off */
}
