/* Groups of entities and of fields, with DCGM's limits, and the calls that take groups. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    bool used;
    int count;
    unsigned systems; /* health watches, of entities */
    union {
        entity list[DCGM_GROUP_MAX_ENTITIES_V2];
        unsigned short fields[DCGM_MAX_FIELD_IDS_PER_FIELD_GROUP];
    };
} group;

enum { ENTITIES, FIELDS };
static group groups[2][DCGM_MAX_NUM_GROUPS];

/* Ids begin above 1: DCGM keeps the first ones for its own default groups. */
enum { FIRST_ID = 2 };

static group *find(int of, uintptr_t id) {
    return id >= FIRST_ID && id < DCGM_MAX_NUM_GROUPS + FIRST_ID && groups[of][id - FIRST_ID].used ? &groups[of][id - FIRST_ID] : NULL;
}

/* Declares a group, and returns if it does not exist. */
#define FIND(name, of, id)            \
    group *const name = find(of, id); \
    if (name == NULL)                 \
    return of == FIELDS ? DCGM_ST_NO_DATA : DCGM_ST_NOT_CONFIGURED

void forget(void) {
    for (int i = 0; i < DCGM_MAX_NUM_GROUPS; i++)
        groups[ENTITIES][i].used = groups[FIELDS][i].used = false;
    watches_clear();
}

/* Makes an empty group, in *made. */
static dcgmReturn_t create(int of, uintptr_t *out, group **made) {
    *made = NULL;
    for (int i = DCGM_MAX_NUM_GROUPS - 1; i >= 0; i--)
        if (!groups[of][i].used)
            *made = &groups[of][i];
    if (*made == NULL)
        return DCGM_ST_MAX_LIMIT;
    memset(*made, 0, sizeof **made);
    (*made)->used = true;
    *out = (uintptr_t)(*made - groups[of] + FIRST_ID);
    return DCGM_ST_OK;
}

/* Only empty groups can be made: go-dcgm makes no others. */
dcgmReturn_t dcgmGroupCreate(dcgmHandle_t handle, dcgmGroupType_t type, const char *, uintptr_t *out) {
    group *made;
    ENTER;
    return type == DCGM_GROUP_EMPTY ? create(ENTITIES, out, &made) : DCGM_ST_BADPARAM;
}

dcgmReturn_t dcgmGroupDestroy(dcgmHandle_t handle, uintptr_t id) {
    ENTER;
    FIND(g, ENTITIES, id);
    g->used = false;
    return DCGM_ST_OK;
}

dcgmReturn_t dcgmGroupAddEntity(dcgmHandle_t handle, uintptr_t id, dcgm_field_entity_group_t kind, dcgm_field_eid_t number) {
    ENTER;
    FIND(g, ENTITIES, id);
    const entity e = { kind, number };
    bool may = status_of(e) == DcgmEntityStatusOk;
    if (status_of(e) == DcgmEntityStatusLost)
        return DCGM_ST_GPU_IS_LOST;
    for (int i = 0; i < g->count; i++)
        may = may && (g->list[i].entityGroupId != kind || g->list[i].entityId != number);
    if (!may || g->count == DCGM_GROUP_MAX_ENTITIES_V2)
        return may ? DCGM_ST_MAX_LIMIT : DCGM_ST_BADPARAM;
    g->list[g->count++] = e;
    return DCGM_ST_OK;
}

dcgmReturn_t dcgmFieldGroupCreate(dcgmHandle_t handle, int count, const unsigned short *fields, const char *, uintptr_t *out) {
    if (count < 1 || count >= DCGM_MAX_FIELD_IDS_PER_FIELD_GROUP)
        return DCGM_ST_BADPARAM;
    ENTER;
    for (int i = 0; i < count; i++)
        if (DcgmFieldGetById(fields[i]) == NULL)
            return DCGM_ST_BADPARAM;
    group *f;
    if ((st = create(FIELDS, out, &f)) == DCGM_ST_OK) {
        f->count = count;
        memcpy(f->fields, fields, (size_t)count * sizeof *fields);
    }
    return st;
}

dcgmReturn_t dcgmFieldGroupDestroy(dcgmHandle_t handle, uintptr_t id) {
    ENTER;
    FIND(f, FIELDS, id);
    f->used = false;
    return DCGM_ST_OK;
}

/* DCGM refuses a whole list if one GPU cannot profile one of its fields or one of its links'. */
static bool may_watch(const group *g, const group *f) {
    for (int i = 0; i < g->count * f->count; i++) {
        unsigned long long can[MAX_PROFILED];
        entity e = g->list[i / f->count];
        const unsigned short field = f->fields[i % f->count];
        if (e.entityGroupId == DCGM_FE_LINK)
            e = (entity){ e.entityId & 0xff, e.entityId >> 24 };
        bool may = e.entityGroupId != DCGM_FE_GPU || !((field >= 1001 && field <= 1096) || field == 1532 || field == 1533);
        for (int n = may ? 0 : profiled_fields(e, can); n > 0 && !may; n--)
            may = can[n - 1] == field;
        if (!may)
            return false;
    }
    return true;
}

dcgmReturn_t dcgmWatchFields(dcgmHandle_t handle, uintptr_t entities, uintptr_t fields, long long every_us, double keep_age,
                                int keep_samples) {
    if (every_us < 1 || keep_age < 0 || keep_samples < 0)
        return DCGM_ST_BADPARAM;
    ENTER;
    FIND(g, ENTITIES, entities);
    FIND(f, FIELDS, fields);
    if (!may_watch(g, f))
        return DCGM_ST_PROFILING_NOT_SUPPORTED;
    for (int i = 0; i < g->count * f->count; i++)
        watch_add(g->list[i / f->count], f->fields[i % f->count], every_us);
    return DCGM_ST_OK;
}

dcgmReturn_t dcgmUnwatchFields(dcgmHandle_t handle, uintptr_t entities, uintptr_t fields) {
    ENTER;
    FIND(g, ENTITIES, entities);
    FIND(f, FIELDS, fields);
    for (int i = 0; i < g->count * f->count; i++)
        watch_remove(g->list[i / f->count], f->fields[i % f->count]);
    return DCGM_ST_OK;
}

/* Each watch has its first sample already. */
dcgmReturn_t dcgmUpdateAllFields(dcgmHandle_t handle, int) {
    ENTER;
    return DCGM_ST_OK;
}

dcgmReturn_t dcgmEntitiesGetLatestValues(dcgmHandle_t handle, entity *entities, unsigned int n, unsigned short *fields,
                                         unsigned int count, unsigned int flags, dcgmFieldValue_v2 *out) {
    if (n < 1 || n > DCGM_GROUP_MAX_ENTITIES_V2 || count < 1 || count > DCGM_MAX_FIELD_IDS_PER_FIELD_GROUP || flags > DCGM_FV_FLAG_LIVE_DATA)
        return DCGM_ST_BADPARAM;
    ENTER;
    for (unsigned int i = 0; i < n * count; i++)
        (flags ? sample_live : sample_latest)(entities[i / count], fields[i % count], &out[i]);
    return DCGM_ST_OK;
}

dcgmReturn_t dcgmGetValuesSince_v2(dcgmHandle_t handle, uintptr_t entities, uintptr_t fields, long long since,
                                      long long *next, dcgmFieldValueEntityEnumeration_f callback, void *user) {
    static dcgmFieldValue_v1 values[MAX_HISTORY];
    ENTER;
    FIND(g, ENTITIES, entities);
    FIND(f, FIELDS, fields);
    *next = since;
    for (int i = 0; i < g->count * f->count; i++) {
        const entity e = g->list[i / f->count];
        if (!is_watched(e, f->fields[i % f->count]))
            return DCGM_ST_NOT_WATCHED;
        const int n = f->fields[i % f->count] == XID_ERRORS ? xids_since(e, since, values) : 0;
        for (int j = 0; j < n; j++)
            *next = values[j].ts >= *next ? values[j].ts + 1 : *next;
        if (n > 0 && callback(e.entityGroupId, e.entityId, values, n, user) != 0)
            return DCGM_ST_GENERIC_ERROR;
    }
    return DCGM_ST_OK;
}

dcgmReturn_t dcgmHealthSet(dcgmHandle_t handle, uintptr_t entities, dcgmHealthSystems_t systems) {
    ENTER;
    FIND(g, ENTITIES, entities);
    g->systems = systems;
    return DCGM_ST_OK;
}

dcgmReturn_t dcgmHealthCheck(dcgmHandle_t handle, uintptr_t entities, dcgmHealthResponse_t *out) {
    CHECK(dcgmHealthResponse_version5);
    ENTER;
    FIND(g, ENTITIES, entities);
    out->overallHealth = DCGM_HEALTH_RESULT_PASS;
    out->incidentCount = 0;
    for (int i = 0; has("Lines.incident.%d", i); i++) {
        unsigned gpu = 0, system = 0, result = 0, code = 0;
        sscanf(value_at("Lines.incident.%d", i), "%u %i %u %u", &gpu, (int *)&system, &result, &code);
        for (int k = 0; k < g->count && (g->systems & system); k++) {
            if (g->list[k].entityGroupId != DCGM_FE_GPU || g->list[k].entityId != gpu || status_of(g->list[k]) != DcgmEntityStatusOk)
                continue;
            dcgmIncidentInfo_t *o = &out->incidents[out->incidentCount++];
            *o = (dcgmIncidentInfo_t){ .system = system, .health = result, .error.code = code, .entityInfo = g->list[k] };
            snprintf(o->error.msg, sizeof o->error.msg, "code %u", code);
            fake_log("incident %u\n", gpu);
            out->overallHealth = result > out->overallHealth ? result : out->overallHealth;
        }
    }
    return DCGM_ST_OK;
}
