/* DCGM's functions that concern groups, watches and values. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

enum { XID_ERRORS = 230, LIVE_DATA = 1 };

EXPORT status_t dcgmGroupCreate(handle_t handle, int type, const char *name, uintptr_t *out) {
    if (name == NULL || out == NULL || type < 0 || type > 5)
        return ST_BADPARAM;
    const state *s;
    status_t st = engine_enter(handle, &s);
    if (st != ST_OK)
        return st;
    st = group_new(name, out);
    if (st == ST_OK && type == 0) {
        entity_group *g = group_find(*out, s), *all = group_find(GROUP_ALL_GPUS, s);
        memcpy(g->list, all->list, sizeof g->list);
        g->count = all->count;
    }
    return engine_leave(st);
}

EXPORT status_t dcgmGroupDestroy(handle_t handle, uintptr_t id) {
    const state *s;
    status_t st = engine_enter(handle, &s);
    if (st != ST_OK)
        return st;
    entity_group *g = id == GROUP_ALL_GPUS ? NULL : group_find(id, s);
    if (g)
        g->used = false;
    return engine_leave(g ? ST_OK : ST_NOT_CONFIGURED);
}

EXPORT status_t dcgmGroupAddEntity(handle_t handle, uintptr_t id, unsigned int kind, unsigned int entity) {
    const state *s;
    status_t st = engine_enter(handle, &s);
    if (st != ST_OK)
        return st;
    entity_group *g = id == GROUP_ALL_GPUS ? NULL : group_find(id, s);
    entity_t e = { kind, entity };
    if (g == NULL)
        return engine_leave(ST_NOT_CONFIGURED);
    if (!entity_exists(s, e))
        return engine_leave(ST_BADPARAM);
    for (int i = 0; i < g->count; i++)
        if (g->list[i].kind == kind && g->list[i].id == entity)
            return engine_leave(ST_BADPARAM);
    if (g->count == MAX_ENTITIES)
        return engine_leave(ST_MAX_LIMIT);
    g->list[g->count++] = e;
    return engine_leave(ST_OK);
}

EXPORT status_t dcgmGroupAddDevice(handle_t handle, uintptr_t id, unsigned int gpu) {
    return dcgmGroupAddEntity(handle, id, FE_GPU, gpu);
}

EXPORT status_t dcgmGroupGetInfo(handle_t handle, uintptr_t id, group_info_v3 *out) {
    if (out == NULL)
        return ST_BADPARAM;
    if (out->version != VERSION(group_info_v3, 3))
        return ST_VER_MISMATCH;
    const state *s;
    status_t st = engine_enter(handle, &s);
    if (st != ST_OK)
        return st;
    entity_group *g = group_find(id, s);
    if (g == NULL)
        return engine_leave(ST_NOT_CONFIGURED);
    out->count = (unsigned)g->count;
    memcpy(out->name, g->name, sizeof out->name);
    memcpy(out->list, g->list, sizeof out->list);
    return engine_leave(ST_OK);
}

EXPORT status_t dcgmFieldGroupCreate(handle_t handle, int count, const unsigned short *fields, const char *name,
                                     uintptr_t *out) {
    if (count < 1 || count > MAX_FIELDS_IN_GROUP || fields == NULL || name == NULL || out == NULL)
        return ST_BADPARAM;
    const state *s;
    status_t st = engine_enter(handle, &s);
    if (st != ST_OK)
        return st;
    for (int i = 0; i < count; i++)
        if (field_by_id(fields[i]) == NULL)
            return engine_leave(ST_UNKNOWN_FIELD);
    st = field_group_new(name, out);
    if (st == ST_OK) {
        field_group *f = field_group_find(*out);
        f->count = count;
        memcpy(f->list, fields, (size_t)count * sizeof *fields);
    }
    return engine_leave(st);
}

EXPORT status_t dcgmFieldGroupDestroy(handle_t handle, uintptr_t id) {
    const state *s;
    status_t st = engine_enter(handle, &s);
    if (st != ST_OK)
        return st;
    field_group *f = field_group_find(id);
    if (f)
        f->used = false;
    return engine_leave(f ? ST_OK : ST_NOT_CONFIGURED);
}

static bool is_profiling(unsigned short field) {
    return field >= 1001 && field <= 1083;
}

/* Profiling fields are refused as a whole when one card cannot be profiled. */
static bool may_watch(const state *s, const entity_group *g, const field_group *f) {
    bool profiling = false;
    for (int i = 0; i < f->count; i++)
        profiling = profiling || is_profiling(f->list[i]);
    for (int i = 0; profiling && i < g->count; i++) {
        sample v;
        if (g->list[i].kind != FE_GPU)
            continue;
        sample_live(s, g->list[i], 1001, &v);
        if (v.type == 'd' && v.value.dbl == FP64_BLANK + 2)
            return false;
    }
    return true;
}

EXPORT status_t dcgmWatchFields(handle_t handle, uintptr_t group, uintptr_t fields, long long every_us, double keep_age,
                                int keep_samples) {
    if (every_us < 1 || keep_age < 0 || keep_samples < 0)
        return ST_BADPARAM;
    const state *s;
    status_t st = engine_enter(handle, &s);
    if (st != ST_OK)
        return st;
    entity_group *g = group_find(group, s);
    field_group *f = field_group_find(fields);
    if (g == NULL || f == NULL)
        return engine_leave(ST_NOT_CONFIGURED);
    if (!may_watch(s, g, f))
        return engine_leave(ST_PROFILING_NOT_SUPPORTED);
    for (int i = 0; st == ST_OK && i < g->count; i++)
        for (int k = 0; st == ST_OK && k < f->count; k++)
            st = watch_add(g->list[i], f->list[k], every_us);
    return engine_leave(st);
}

EXPORT status_t dcgmUnwatchFields(handle_t handle, uintptr_t group, uintptr_t fields) {
    const state *s;
    status_t st = engine_enter(handle, &s);
    if (st != ST_OK)
        return st;
    entity_group *g = group_find(group, s);
    field_group *f = field_group_find(fields);
    if (g == NULL || f == NULL)
        return engine_leave(ST_NOT_CONFIGURED);
    for (int i = 0; i < g->count; i++)
        for (int k = 0; k < f->count; k++)
            watch_remove(g->list[i], f->list[k]);
    return engine_leave(ST_OK);
}

EXPORT status_t dcgmUpdateAllFields(handle_t handle, int wait) {
    (void)wait;
    const state *s;
    status_t st = engine_enter(handle, &s);
    if (st != ST_OK)
        return st;
    watches_update(s);
    return engine_leave(ST_OK);
}

static void fill_value(value_v1 *out, const sample *v) {
    out->version = VERSION(value_v1, 1);
    out->field = v->field;
    out->type = v->type;
    out->status = v->status;
    out->ts = v->ts;
    memcpy(&out->value, &v->value, sizeof v->value);
}

EXPORT status_t dcgmEntityGetLatestValues(handle_t handle, unsigned int kind, int id, unsigned short *fields,
                                          unsigned int count, value_v1 *out) {
    if (fields == NULL || out == NULL || count < 1 || count > MAX_FIELDS_IN_GROUP)
        return ST_BADPARAM;
    const state *s;
    status_t st = engine_enter(handle, &s);
    if (st != ST_OK)
        return st;
    for (unsigned int k = 0; k < count; k++) {
        sample v;
        sample_latest(s, (entity_t){ kind, (unsigned)id }, fields[k], &v);
        fill_value(&out[k], &v);
    }
    return engine_leave(ST_OK);
}

EXPORT status_t dcgmGetLatestValuesForFields(handle_t handle, int gpu, unsigned short *fields, unsigned int count,
                                             value_v1 *out) {
    return dcgmEntityGetLatestValues(handle, FE_GPU, gpu, fields, count, out);
}

EXPORT status_t dcgmEntitiesGetLatestValues(handle_t handle, entity_t *entities, unsigned int n, unsigned short *fields,
                                            unsigned int count, unsigned int flags, value_v2 *out) {
    if (entities == NULL || fields == NULL || out == NULL || n < 1 || n > MAX_ENTITIES || count < 1
        || count > MAX_FIELDS_IN_GROUP)
        return ST_BADPARAM;
    const state *s;
    status_t st = engine_enter(handle, &s);
    if (st != ST_OK)
        return st;
    for (unsigned int i = 0; i < n; i++) {
        for (unsigned int k = 0; k < count; k++, out++) {
            sample v;
            if (flags & LIVE_DATA)
                sample_live(s, entities[i], fields[k], &v);
            else
                sample_latest(s, entities[i], fields[k], &v);
            out->version = VERSION(value_v2, 2);
            out->kind = entities[i].kind;
            out->id = entities[i].id;
            out->field = v.field;
            out->type = v.type;
            out->status = v.status;
            out->unused = 0;
            out->ts = v.ts;
            memcpy(&out->value, &v.value, sizeof v.value);
        }
    }
    return engine_leave(ST_OK);
}

/* Collects what a since-call gives for one entity and field: each XID event as
 * a value, of other fields the last sample. Gives the number of values. */
static int since(const state *s, entity_t e, unsigned short field, long long from, value_v1 *out) {
    if (!watch_exists(e, field))
        return 0;
    int n = 0;
    sample v;
    sample_latest(s, e, field, &v);
    const card *c = e.kind == FE_GPU && field == XID_ERRORS ? find_card(s, e.id) : NULL;
    for (int k = 0; c && k < c->xids; k++) {
        if (c->xid[k].at < from)
            continue;
        v.ts = c->xid[k].at;
        v.value.i64 = c->xid[k].code;
        fill_value(&out[n++], &v);
    }
    if (c == NULL && v.status == ST_OK && v.ts >= from)
        fill_value(&out[n++], &v);
    return n;
}

EXPORT status_t dcgmGetValuesSince_v2(handle_t handle, uintptr_t group, uintptr_t fields, long long from,
                                      long long *next, enum_v2 callback, void *user) {
    if (next == NULL || callback == NULL)
        return ST_BADPARAM;
    const state *s;
    status_t st = engine_enter(handle, &s);
    if (st != ST_OK)
        return st;
    entity_group *g = group_find(group, s);
    field_group *f = field_group_find(fields);
    value_v1 *values = calloc(MAX_XIDS, sizeof *values);
    if (g == NULL || f == NULL || values == NULL)
        st = values ? ST_NOT_CONFIGURED : ST_MEMORY;
    int64_t newest = from - 1;
    for (int i = 0; st == ST_OK && i < g->count; i++) {
        for (int k = 0; st == ST_OK && k < f->count; k++) {
            int n = since(s, g->list[i], f->list[k], from, values);
            for (int j = 0; j < n; j++)
                newest = values[j].ts > newest ? values[j].ts : newest;
            if (n && callback(g->list[i].kind, g->list[i].id, values, n, user) != 0)
                st = ST_GENERIC_ERROR;
        }
    }
    free(values);
    if (st == ST_OK)
        *next = newest + 1;
    return engine_leave(st);
}
