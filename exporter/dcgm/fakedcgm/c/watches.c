/* The library's functions that concern groups, watches and values. */
#include "connection.h"
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static status_t call_plain(handle_t handle, int call, buffer *in) {
    buffer answer = { 0 };
    status_t st = call_engine(handle, call, in, &answer);
    buffer_free(&answer);
    return st;
}

static status_t call_for_id(handle_t handle, int call, buffer *in, uintptr_t *out) {
    buffer answer = { 0 };
    status_t st = call_engine(handle, call, in, &answer);
    if (st == ST_OK)
        GET(&answer, *out);
    if (st == ST_OK && answer.bad)
        st = ST_GENERIC_ERROR;
    buffer_free(&answer);
    return st;
}

static void put_name(buffer *in, const char *name) {
    char text[STR_LEN] = "";
    snprintf(text, sizeof text, "%s", name);
    put_bytes(in, text, sizeof text);
}

EXPORT status_t dcgmGroupCreate(handle_t handle, int type, const char *name, uintptr_t *out) {
    buffer in = { 0 };
    if (name == NULL || out == NULL || type < 0 || type > 5)
        return ST_BADPARAM;
    PUT(&in, type);
    put_name(&in, name);
    return call_for_id(handle, CALL_dcgmGroupCreate, &in, out);
}

EXPORT status_t dcgmGroupDestroy(handle_t handle, uintptr_t id) {
    buffer in = { 0 };
    PUT(&in, id);
    return call_plain(handle, CALL_dcgmGroupDestroy, &in);
}

EXPORT status_t dcgmGroupAddEntity(handle_t handle, uintptr_t id, unsigned int kind, unsigned int entity) {
    buffer in = { 0 };
    entity_t e = { kind, entity };
    PUT(&in, id);
    PUT(&in, e);
    return call_plain(handle, CALL_dcgmGroupAddEntity, &in);
}

EXPORT status_t dcgmGroupAddDevice(handle_t handle, uintptr_t id, unsigned int gpu) {
    return dcgmGroupAddEntity(handle, id, FE_GPU, gpu);
}

EXPORT status_t dcgmGroupGetInfo(handle_t handle, uintptr_t id, group_info_v3 *out) {
    buffer in = { 0 }, answer = { 0 };
    if (out == NULL)
        return ST_BADPARAM;
    if (out->version != VERSION(group_info_v3, 3))
        return ST_VER_MISMATCH;
    PUT(&in, id);
    status_t st = call_engine(handle, CALL_dcgmGroupGetInfo, &in, &answer);
    if (st == ST_OK) {
        get_bytes(&answer, out->name, STR_LEN);
        GET(&answer, out->count);
        if (out->count > MAX_ENTITIES)
            st = ST_GENERIC_ERROR;
        else
            get_bytes(&answer, out->list, out->count * sizeof *out->list);
    }
    buffer_free(&answer);
    return st;
}

EXPORT status_t dcgmFieldGroupCreate(handle_t handle, int count, const unsigned short *fields, const char *name,
                                     uintptr_t *out) {
    buffer in = { 0 };
    if (count < 1 || count > MAX_FIELDS_IN_GROUP || fields == NULL || name == NULL || out == NULL)
        return ST_BADPARAM;
    put_name(&in, name);
    PUT(&in, count);
    put_bytes(&in, fields, (size_t)count * sizeof *fields);
    return call_for_id(handle, CALL_dcgmFieldGroupCreate, &in, out);
}

EXPORT status_t dcgmFieldGroupDestroy(handle_t handle, uintptr_t id) {
    buffer in = { 0 };
    PUT(&in, id);
    return call_plain(handle, CALL_dcgmFieldGroupDestroy, &in);
}

EXPORT status_t dcgmWatchFields(handle_t handle, uintptr_t group, uintptr_t fields, long long every_us, double keep_age,
                                int keep_samples) {
    buffer in = { 0 };
    int64_t every = every_us;
    if (every_us < 1 || keep_age < 0 || keep_samples < 0)
        return ST_BADPARAM;
    PUT(&in, group);
    PUT(&in, fields);
    PUT(&in, every);
    return call_plain(handle, CALL_dcgmWatchFields, &in);
}

EXPORT status_t dcgmUnwatchFields(handle_t handle, uintptr_t group, uintptr_t fields) {
    buffer in = { 0 };
    PUT(&in, group);
    PUT(&in, fields);
    return call_plain(handle, CALL_dcgmUnwatchFields, &in);
}

EXPORT status_t dcgmUpdateAllFields(handle_t handle, int wait) {
    buffer in = { 0 };
    (void)wait;
    return call_plain(handle, CALL_dcgmUpdateAllFields, &in);
}

static bool get_sample(buffer *b, sample *v) {
    GET(b, v->field);
    GET(b, v->type);
    GET(b, v->status);
    GET(b, v->ts);
    get_bytes(b, &v->value, v->type == 's' ? sizeof v->value : sizeof v->value.i64);
    return !b->bad;
}

static void copy_value(payload_t *out, const sample *v) {
    memcpy(out, &v->value, v->type == 's' ? sizeof v->value : sizeof v->value.i64);
}

static void fill_v1(value_v1 *out, const sample *v) {
    out->version = VERSION(value_v1, 1);
    out->field = v->field;
    out->type = v->type;
    out->status = v->status;
    out->ts = v->ts;
    copy_value(&out->value, v);
}

static void fill_v2(value_v2 *out, entity_t e, const sample *v) {
    out->version = VERSION(value_v2, 2);
    out->kind = e.kind;
    out->id = e.id;
    out->field = v->field;
    out->type = v->type;
    out->status = v->status;
    out->unused = 0;
    out->ts = v->ts;
    copy_value(&out->value, v);
}

/* Asks for values; the answer holds n * count samples. */
static status_t call_latest(handle_t handle, const entity_t *entities, unsigned int n, const unsigned short *fields,
                            unsigned int count, unsigned int flags, buffer *answer) {
    buffer in = { 0 };
    PUT(&in, n);
    PUT(&in, count);
    PUT(&in, flags);
    put_bytes(&in, entities, n * sizeof *entities);
    put_bytes(&in, fields, count * sizeof *fields);
    return call_engine(handle, CALL_dcgmEntitiesGetLatestValues, &in, answer);
}

EXPORT status_t dcgmEntityGetLatestValues(handle_t handle, unsigned int kind, int id, unsigned short *fields,
                                          unsigned int count, value_v1 *out) {
    buffer answer = { 0 };
    entity_t e = { kind, (unsigned)id };
    if (fields == NULL || out == NULL || count < 1 || count > MAX_FIELDS_IN_GROUP)
        return ST_BADPARAM;
    status_t st = call_latest(handle, &e, 1, fields, count, 0, &answer);
    for (unsigned int k = 0; st == ST_OK && k < count; k++) {
        sample v;
        if (get_sample(&answer, &v))
            fill_v1(&out[k], &v);
        else
            st = ST_GENERIC_ERROR;
    }
    buffer_free(&answer);
    return st;
}

EXPORT status_t dcgmGetLatestValuesForFields(handle_t handle, int gpu, unsigned short *fields, unsigned int count,
                                             value_v1 *out) {
    return dcgmEntityGetLatestValues(handle, FE_GPU, gpu, fields, count, out);
}

EXPORT status_t dcgmEntitiesGetLatestValues(handle_t handle, entity_t *entities, unsigned int n, unsigned short *fields,
                                            unsigned int count, unsigned int flags, value_v2 *out) {
    buffer answer = { 0 };
    if (entities == NULL || fields == NULL || out == NULL || n < 1 || n > MAX_ENTITIES || count < 1
        || count > MAX_FIELDS_IN_GROUP)
        return ST_BADPARAM;
    status_t st = call_latest(handle, entities, n, fields, count, flags, &answer);
    for (unsigned int i = 0; st == ST_OK && i < n * count; i++) {
        sample v;
        if (get_sample(&answer, &v))
            fill_v2(&out[i], entities[i / count], &v);
        else
            st = ST_GENERIC_ERROR;
    }
    buffer_free(&answer);
    return st;
}

EXPORT status_t dcgmGetValuesSince_v2(handle_t handle, uintptr_t group, uintptr_t fields, long long since,
                                      long long *next, enum_v2 callback, void *user) {
    buffer in = { 0 }, answer = { 0 };
    if (next == NULL || callback == NULL)
        return ST_BADPARAM;
    int64_t from = since, newest = since - 1;
    PUT(&in, group);
    PUT(&in, fields);
    PUT(&in, from);
    status_t st = call_engine(handle, CALL_dcgmGetValuesSince_v2, &in, &answer);
    value_v1 *values = st == ST_OK ? calloc(MAX_HISTORY, sizeof *values) : NULL;
    if (st == ST_OK && values == NULL)
        st = ST_MEMORY;
    while (st == ST_OK && answer.at < answer.length) {
        entity_t e;
        int n;
        sample v;
        GET(&answer, e);
        GET(&answer, n);
        if (n < 1 || n > MAX_HISTORY)
            answer.bad = true;
        for (int i = 0; !answer.bad && i < n; i++) {
            get_sample(&answer, &v);
            fill_v1(&values[i], &v);
            newest = v.ts > newest ? v.ts : newest;
        }
        if (answer.bad || callback(e.kind, e.id, values, n, user) != 0)
            st = ST_GENERIC_ERROR;
    }
    free(values);
    buffer_free(&answer);
    if (st == ST_OK)
        *next = newest + 1;
    return st;
}
