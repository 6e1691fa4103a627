/* Serves the calls that concern groups, watches and values. */
#include "engine.h"

#include <string.h>

enum { LIVE_DATA = 1 };

static void get_name(buffer *in, char name[STR_LEN]) {
    get_bytes(in, name, STR_LEN);
    name[STR_LEN - 1] = '\0';
}

status_t serve_dcgmGroupCreate(const state *s, buffer *in, buffer *out) {
    int type;
    char name[STR_LEN];
    uintptr_t id = 0;
    GET(in, type);
    get_name(in, name);
    status_t st = group_new(name, &id);
    if (st == ST_OK && type == 0) {
        entity_group *g = group_find(id, s), *all = group_find(GROUP_ALL_GPUS, s);
        memcpy(g->list, all->list, sizeof g->list);
        g->count = all->count;
    }
    PUT(out, id);
    return st;
}

status_t serve_dcgmGroupDestroy(const state *s, buffer *in, buffer *out) {
    uintptr_t id;
    (void)out;
    GET(in, id);
    entity_group *g = id == GROUP_ALL_GPUS ? NULL : group_find(id, s);
    if (g)
        g->used = false;
    return g ? ST_OK : ST_NOT_CONFIGURED;
}

status_t serve_dcgmGroupAddEntity(const state *s, buffer *in, buffer *out) {
    uintptr_t id;
    entity_t e;
    (void)out;
    GET(in, id);
    GET(in, e);
    entity_group *g = id == GROUP_ALL_GPUS ? NULL : group_find(id, s);
    if (g == NULL)
        return ST_NOT_CONFIGURED;
    if (!entity_exists(s, e))
        return ST_BADPARAM;
    for (int i = 0; i < g->count; i++)
        if (g->list[i].kind == e.kind && g->list[i].id == e.id)
            return ST_BADPARAM;
    if (g->count == MAX_ENTITIES)
        return ST_MAX_LIMIT;
    g->list[g->count++] = e;
    return ST_OK;
}

status_t serve_dcgmGroupGetInfo(const state *s, buffer *in, buffer *out) {
    uintptr_t id;
    GET(in, id);
    entity_group *g = group_find(id, s);
    if (g == NULL)
        return ST_NOT_CONFIGURED;
    put_bytes(out, g->name, STR_LEN);
    PUT(out, g->count);
    put_bytes(out, g->list, (size_t)g->count * sizeof *g->list);
    return ST_OK;
}

status_t serve_dcgmFieldGroupCreate(const state *s, buffer *in, buffer *out) {
    char name[STR_LEN];
    int n;
    unsigned short fields[MAX_FIELDS_IN_GROUP];
    uintptr_t id = 0;
    (void)s;
    get_name(in, name);
    GET(in, n);
    if (n < 1 || n > MAX_FIELDS_IN_GROUP)
        return ST_BADPARAM;
    get_bytes(in, fields, (size_t)n * sizeof *fields);
    for (int i = 0; i < n; i++)
        if (field_by_id(fields[i]) == NULL)
            return ST_UNKNOWN_FIELD;
    status_t st = field_group_new(name, &id);
    if (st == ST_OK) {
        field_group *f = field_group_find(id);
        f->count = n;
        memcpy(f->list, fields, (size_t)n * sizeof *fields);
    }
    PUT(out, id);
    return st;
}

status_t serve_dcgmFieldGroupDestroy(const state *s, buffer *in, buffer *out) {
    uintptr_t id;
    (void)s, (void)out;
    GET(in, id);
    field_group *f = field_group_find(id);
    if (f)
        f->used = false;
    return f ? ST_OK : ST_NOT_CONFIGURED;
}

static bool is_profiling(unsigned short field) {
    return field >= 1001 && field <= 1083;
}

static bool can_profile(const state *s, const GPU *c, unsigned short field) {
    int n;
    const unsigned short *fields = profiled_fields(s, c, &n);
    for (int i = 0; i < n; i++)
        if (fields[i] == field)
            return true;
    return false;
}

/* A list is refused as a whole when one GPU cannot profile one field of it. */
static bool may_watch(const state *s, const entity_group *g, const field_group *f) {
    for (int i = 0; i < g->count; i++) {
        const GPU *c = g->list[i].kind == FE_GPU ? find_gpu(s, g->list[i].id) : NULL;
        for (int k = 0; c && k < f->count; k++)
            if (is_profiling(f->list[k]) && !can_profile(s, c, f->list[k]))
                return false;
    }
    return true;
}

/* A group and a list of fields, as several calls name them. */
static bool get_pair(const state *s, buffer *in, entity_group **g, field_group **f) {
    uintptr_t group, fields;
    GET(in, group);
    GET(in, fields);
    *g = group_find(group, s);
    *f = field_group_find(fields);
    return *g && *f;
}

status_t serve_dcgmWatchFields(const state *s, buffer *in, buffer *out) {
    entity_group *g;
    field_group *f;
    int64_t every_us;
    (void)out;
    bool found = get_pair(s, in, &g, &f);
    GET(in, every_us);
    if (s->no_nvml)
        return ST_NVML_NOT_LOADED;
    if (!found)
        return ST_NOT_CONFIGURED;
    if (!may_watch(s, g, f))
        return ST_PROFILING_NOT_SUPPORTED;
    status_t st = ST_OK;
    for (int i = 0; st == ST_OK && i < g->count; i++)
        for (int k = 0; st == ST_OK && k < f->count; k++)
            st = watch_add(g->list[i], f->list[k], every_us);
    return st;
}

status_t serve_dcgmUnwatchFields(const state *s, buffer *in, buffer *out) {
    entity_group *g;
    field_group *f;
    (void)out;
    if (!get_pair(s, in, &g, &f))
        return ST_NOT_CONFIGURED;
    for (int i = 0; i < g->count; i++)
        for (int k = 0; k < f->count; k++)
            watch_remove(g->list[i], f->list[k]);
    return ST_OK;
}

status_t serve_dcgmUpdateAllFields(const state *s, buffer *in, buffer *out) {
    (void)in, (void)out;
    watches_update(s);
    return ST_OK;
}

void put_sample(buffer *b, const sample *v) {
    PUT(b, v->field);
    PUT(b, v->type);
    PUT(b, v->status);
    PUT(b, v->ts);
    put_bytes(b, &v->value, v->type == 's' ? sizeof v->value : sizeof v->value.i64);
}

status_t serve_dcgmEntitiesGetLatestValues(const state *s, buffer *in, buffer *out) {
    static entity_t entities[MAX_ENTITIES];
    unsigned short fields[MAX_FIELDS_IN_GROUP];
    unsigned int n, count, flags;
    GET(in, n);
    GET(in, count);
    GET(in, flags);
    if (n < 1 || n > MAX_ENTITIES || count < 1 || count > MAX_FIELDS_IN_GROUP)
        return ST_BADPARAM;
    get_bytes(in, entities, n * sizeof *entities);
    get_bytes(in, fields, count * sizeof *fields);
    for (unsigned int i = 0; i < n; i++) {
        for (unsigned int k = 0; k < count; k++) {
            sample v;
            if (flags & LIVE_DATA)
                sample_live(s, entities[i], fields[k], &v);
            else
                sample_latest(s, entities[i], fields[k], &v);
            put_sample(out, &v);
        }
    }
    return ST_OK;
}

/* The answer is a list of: entity, how many samples, the samples. */
status_t serve_dcgmGetValuesSince_v2(const state *s, buffer *in, buffer *out) {
    static sample kept[MAX_HISTORY];
    entity_group *g;
    field_group *f;
    int64_t from;
    bool found = get_pair(s, in, &g, &f);
    GET(in, from);
    if (!found)
        return ST_NOT_CONFIGURED;
    for (int i = 0; i < g->count; i++) {
        for (int k = 0; k < f->count; k++) {
            int n = samples_since(s, g->list[i], f->list[k], from, kept);
            if (n == 0)
                continue;
            PUT(out, g->list[i]);
            PUT(out, n);
            for (int j = 0; j < n; j++)
                put_sample(out, &kept[j]);
        }
    }
    return ST_OK;
}
