/* Groups of entities and of fields, with DCGM's limits, and what is done with them. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    bool used;
    char name[STR_LEN];
    int count;
    unsigned systems; /* health watches, of entities */
    union {
        entity_t list[MAX_ENTITIES];
        unsigned short fields[MAX_FIELDS_IN_GROUP];
    };
} group;

enum { ENTITIES, FIELDS };
static group groups[2][MAX_GROUPS];

/* Ids begin above 1: DCGM keeps the first ones for its own default groups. */
enum { FIRST_ID = 2 };

static group *find(int of, uintptr_t id) {
    return id >= FIRST_ID && id < MAX_GROUPS + FIRST_ID && groups[of][id - FIRST_ID].used ? &groups[of][id - FIRST_ID] : NULL;
}

void forget(void) {
    for (int i = 0; i < MAX_GROUPS; i++)
        groups[ENTITIES][i].used = groups[FIELDS][i].used = false;
    watches_clear();
}

/* Makes an empty one, in *made. */
static status_t create(int of, const char *name, uintptr_t *out, group **made) {
    *made = NULL;
    for (int i = MAX_GROUPS - 1; i >= 0; i--) {
        group *g = &groups[of][i];
        if (g->used && of == FIELDS && strcmp(g->name, name) == 0)
            return ST_DUPLICATE_KEY;
        if (!g->used)
            *made = g;
    }
    if (*made == NULL)
        return ST_MAX_LIMIT;
    memset(*made, 0, sizeof **made);
    (*made)->used = true;
    snprintf((*made)->name, STR_LEN, "%s", name);
    *out = (uintptr_t)(*made - groups[of] + FIRST_ID);
    return ST_OK;
}

static status_t destroy(int of, uintptr_t id) {
    group *g = find(of, id);
    if (g)
        g->used = false;
    return g ? ST_OK : ST_NOT_CONFIGURED;
}

/* Makes empty groups only, as go-dcgm does. */
EXPORT status_t dcgmGroupCreate(handle_t handle, int type, const char *name, uintptr_t *out) {
    group *made;
    if (name == NULL || out == NULL || type != 1)
        return ST_BADPARAM;
    ENTER(dcgmGroupCreate);
    return leave(create(ENTITIES, name, out, &made));
}

EXPORT status_t dcgmGroupDestroy(handle_t handle, uintptr_t id) {
    ENTER(dcgmGroupDestroy);
    return leave(destroy(ENTITIES, id));
}

EXPORT status_t dcgmGroupAddEntity(handle_t handle, uintptr_t id, unsigned int kind, unsigned int entity) {
    ENTER(dcgmGroupAddEntity);
    group *g = find(ENTITIES, id);
    entity_t e = { kind, entity };
    if (g == NULL)
        return leave(ST_NOT_CONFIGURED);
    if (!exists(e))
        return leave(ST_BADPARAM);
    for (int i = 0; i < g->count; i++)
        if (g->list[i].kind == kind && g->list[i].id == entity)
            return leave(ST_BADPARAM);
    if (g->count == MAX_ENTITIES)
        return leave(ST_MAX_LIMIT);
    g->list[g->count++] = e;
    return leave(ST_OK);
}

EXPORT status_t dcgmFieldGroupCreate(handle_t handle, int count, const unsigned short *fields, const char *name,
                                     uintptr_t *out) {
    if (count < 1 || count > MAX_FIELDS_IN_GROUP || fields == NULL || name == NULL || out == NULL)
        return ST_BADPARAM;
    ENTER(dcgmFieldGroupCreate);
    for (int i = 0; i < count; i++)
        if (field_by_id(fields[i]) == NULL)
            return leave(ST_UNKNOWN_FIELD);
    group *f;
    if ((st = create(FIELDS, name, out, &f)) == ST_OK) {
        f->count = count;
        memcpy(f->fields, fields, (size_t)count * sizeof *fields);
    }
    return leave(st);
}

EXPORT status_t dcgmFieldGroupDestroy(handle_t handle, uintptr_t id) {
    ENTER(dcgmFieldGroupDestroy);
    return leave(destroy(FIELDS, id));
}

/* A list is refused as a whole when one GPU cannot profile one field of it. */
static bool may_watch(const group *g, const group *f) {
    for (int i = 0; i < g->count; i++) {
        unsigned can[MAX_PROFILED];
        const bool of_gpu = g->list[i].kind == FE_GPU;
        const int n = of_gpu ? profiled_fields(g->list[i], can) : 0;
        for (int k = 0; of_gpu && k < f->count; k++) {
            bool refused = f->fields[k] >= 1001 && f->fields[k] <= 1083;
            for (int j = 0; j < n; j++)
                refused = refused && can[j] != f->fields[k];
            if (refused)
                return false;
        }
    }
    return true;
}

EXPORT status_t dcgmWatchFields(handle_t handle, uintptr_t entities, uintptr_t fields, long long every_us, double keep_age,
                                int keep_samples) {
    if (every_us < 1 || keep_age < 0 || keep_samples < 0)
        return ST_BADPARAM;
    ENTER(dcgmWatchFields);
    const group *g = find(ENTITIES, entities);
    const group *f = find(FIELDS, fields);
    if (state_number("no_nvml") || g == NULL || f == NULL)
        return leave(state_number("no_nvml") ? ST_NVML_NOT_LOADED : ST_NOT_CONFIGURED);
    if (!may_watch(g, f))
        return leave(ST_PROFILING_NOT_SUPPORTED);
    st = ST_OK;
    for (int i = 0; i < g->count; i++)
        for (int k = 0; st == ST_OK && k < f->count; k++)
            st = watch_add(g->list[i], f->fields[k], every_us);
    return leave(st);
}

EXPORT status_t dcgmUnwatchFields(handle_t handle, uintptr_t entities, uintptr_t fields) {
    ENTER(dcgmUnwatchFields);
    const group *g = find(ENTITIES, entities);
    const group *f = find(FIELDS, fields);
    for (int i = 0; g && f && i < g->count; i++)
        for (int k = 0; k < f->count; k++)
            watch_remove(g->list[i], f->fields[k]);
    return leave(g && f ? ST_OK : ST_NOT_CONFIGURED);
}

EXPORT status_t dcgmUpdateAllFields(handle_t handle, int wait) {
    ENTER(dcgmUpdateAllFields);
    (void)wait;
    watches_update();
    return leave(ST_OK);
}

static void copy_value(payload_t *out, const sample *v) {
    memcpy(out, &v->value, v->type == 's' ? sizeof v->value : sizeof v->value.i64);
}

EXPORT status_t dcgmEntitiesGetLatestValues(handle_t handle, entity_t *entities, unsigned int n, unsigned short *fields,
                                            unsigned int count, unsigned int flags, value_v2 *out) {
    if (entities == NULL || fields == NULL || out == NULL || n < 1 || n > MAX_ENTITIES || count < 1
        || count > MAX_FIELDS_IN_GROUP || flags != 0)
        return ST_BADPARAM;
    ENTER(dcgmEntitiesGetLatestValues);
    for (unsigned int i = 0; i < n * count; i++) {
        const entity_t e = entities[i / count];
        sample v;
        sample_latest(e, fields[i % count], &v);
        value_v2 *o = &out[i]; /* of which most is not written */
        o->version = VERSION(value_v2, 2);
        o->kind = e.kind;
        o->id = e.id;
        o->field = v.field;
        o->type = v.type;
        o->status = v.status;
        o->unused = 0;
        o->ts = v.ts;
        copy_value(&o->value, &v);
    }
    return leave(ST_OK);
}

EXPORT status_t dcgmGetValuesSince_v2(handle_t handle, uintptr_t entities, uintptr_t fields, long long since,
                                      long long *next, enum_v2 callback, void *user) {
    static sample kept[MAX_HISTORY];
    static value_v1 values[MAX_HISTORY];
    if (next == NULL || callback == NULL)
        return ST_BADPARAM;
    ENTER(dcgmGetValuesSince_v2);
    const group *g = find(ENTITIES, entities);
    const group *f = find(FIELDS, fields);
    if (g == NULL || f == NULL)
        return leave(ST_NOT_CONFIGURED);
    *next = since;
    for (int i = 0; i < g->count * f->count; i++) {
        const entity_t e = g->list[i / f->count];
        int n = samples_since(e, f->fields[i % f->count], since, kept);
        for (int j = 0; j < n; j++) {
            const sample *v = &kept[j];
            values[j] = (value_v1){ VERSION(value_v1, 1), v->field, v->type, v->status, v->ts, { 0 } };
            copy_value(&values[j].value, v);
            *next = v->ts >= *next ? v->ts + 1 : *next;
        }
        if (n > 0 && callback(e.kind, e.id, values, n, user) != 0)
            return leave(ST_GENERIC_ERROR);
    }
    return leave(ST_OK);
}

EXPORT status_t dcgmHealthSet(handle_t handle, uintptr_t entities, unsigned int systems) {
    ENTER(dcgmHealthSet);
    group *g = find(ENTITIES, entities);
    if (g)
        g->systems = systems;
    return leave(g ? ST_OK : ST_NOT_CONFIGURED);
}

EXPORT status_t dcgmHealthCheck(handle_t handle, uintptr_t entities, health_v5 *out) {
    CHECK(health_v5, 5);
    ENTER(dcgmHealthCheck);
    const group *g = find(ENTITIES, entities);
    if (g == NULL)
        return leave(ST_NOT_CONFIGURED);
    out->overall = 0;
    out->count = 0;
    unsigned h[4]; /* GPU, system, result, code */
    for (int i = 0; numbers_at(h, 4, "incident.%d", i) == 4; i++)
        for (int k = 0; k < g->count && (g->systems & h[1]); k++) {
            if (g->list[k].kind != FE_GPU || g->list[k].id != h[0])
                continue;
            incident_t *o = &out->list[out->count++];
            *o = (incident_t){ .system = h[1], .result = (int)h[2], .error.code = h[3], .entity = g->list[k] };
            snprintf(o->error.text, sizeof o->error.text, "code %u", h[3]);
            out->overall = o->result > out->overall ? o->result : out->overall;
        }
    return leave(ST_OK);
}
