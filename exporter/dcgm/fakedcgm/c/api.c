/* DCGM's functions that concern the connection, the machine and groups. */
#include "engine.h"

#include <stdio.h>
#include <string.h>

EXPORT status_t dcgmInit(void) {
    return engine_init();
}

EXPORT status_t dcgmShutdown(void) {
    return engine_shutdown();
}

EXPORT status_t dcgmStartEmbedded(int mode, handle_t *out) {
    if (out == NULL || (mode != 1 && mode != 2))
        return ST_BADPARAM;
    return engine_connect(true, out);
}

EXPORT status_t dcgmStopEmbedded(handle_t handle) {
    return engine_disconnect(handle);
}

EXPORT status_t dcgmConnect_v2(const char *address, connect_v2 *params, handle_t *out) {
    if (address == NULL || *address == '\0' || params == NULL || out == NULL)
        return ST_BADPARAM;
    if (params->version != VERSION(connect_v2, 2))
        return ST_VER_MISMATCH;
    return engine_connect(false, out);
}

EXPORT status_t dcgmDisconnect(handle_t handle) {
    return engine_disconnect(handle);
}

EXPORT const char *errorString(status_t st) {
    switch (st) {
    case ST_OK: return "Success";
    case ST_BADPARAM: return "Bad parameter passed to function";
    case ST_GENERIC_ERROR: return "Generic unspecified error";
    case ST_MEMORY: return "Out of memory error";
    case ST_NOT_CONFIGURED: return "Setting not configured";
    case ST_NOT_SUPPORTED: return "Feature not supported";
    case ST_INIT_ERROR: return "DCGM initialization error";
    case ST_UNINITIALIZED: return "Object is in an undefined state";
    case ST_VER_MISMATCH: return "API version mismatch";
    case ST_UNKNOWN_FIELD: return "Unknown field identifier";
    case ST_NO_DATA: return "No data is available";
    case ST_NOT_WATCHED: return "Field is not being watched";
    case ST_CONNECTION_NOT_VALID: return "Host engine connection invalid/disconnected";
    case ST_MAX_LIMIT: return "Limit reached for the object";
    case ST_DUPLICATE_KEY: return "Duplicate key passed to function";
    case ST_PROFILING_NOT_SUPPORTED: return "Profiling is not supported for this group of GPUs or GPU";
    default: return "Unknown error";
    }
}

EXPORT int DcgmFieldsInit(void) {
    return 0;
}

EXPORT int DcgmFieldsTerm(void) {
    return 0;
}

EXPORT const field_meta *DcgmFieldGetById(unsigned short id) {
    return field_by_id(id);
}

static status_t version_info(version_info_v2 *out) {
    if (out == NULL)
        return ST_BADPARAM;
    if (out->version != VERSION(version_info_v2, 2))
        return ST_VER_MISMATCH;
    snprintf(out->text, sizeof out->text, "version:4.5.0;arch:x86_64;buildtype:fakedcgm");
    return ST_OK;
}

EXPORT status_t dcgmVersionInfo(version_info_v2 *out) {
    return version_info(out);
}

EXPORT status_t dcgmHostengineVersionInfo(handle_t handle, version_info_v2 *out) {
    const state *s;
    status_t st = engine_enter(handle, &s);
    return st == ST_OK ? engine_leave(version_info(out)) : st;
}

static status_t list_cards(handle_t handle, bool live_only, unsigned int *list, int *count) {
    if (list == NULL || count == NULL)
        return ST_BADPARAM;
    const state *s;
    status_t st = engine_enter(handle, &s);
    if (st != ST_OK)
        return st;
    *count = 0;
    for (int i = 0; i < s->cards; i++)
        if (!live_only || !s->card[i].lost)
            list[(*count)++] = (unsigned)s->card[i].index;
    return engine_leave(ST_OK);
}

EXPORT status_t dcgmGetAllDevices(handle_t handle, unsigned int *list, int *count) {
    return list_cards(handle, false, list, count);
}

EXPORT status_t dcgmGetAllSupportedDevices(handle_t handle, unsigned int *list, int *count) {
    return list_cards(handle, true, list, count);
}

EXPORT status_t dcgmGetEntityGroupEntities(handle_t handle, unsigned int kind, unsigned int *list, int *count,
                                           unsigned int flags) {
    if (list == NULL || count == NULL || *count < 0)
        return ST_BADPARAM;
    const state *s;
    status_t st = engine_enter(handle, &s);
    if (st != ST_OK)
        return st;
    const int room = *count;
    *count = 0;
    for (int i = 0; i < s->cards; i++) {
        const card *c = &s->card[i];
        if ((flags & 1) && c->lost)
            continue;
        if (kind == FE_GPU && *count < room)
            list[(*count)++] = (unsigned)c->index;
        for (int k = 0; (kind == FE_GPU_I || kind == FE_GPU_CI) && k < c->instances && *count < room; k++)
            list[(*count)++] = (unsigned)c->instance[k].entity;
    }
    return engine_leave(ST_OK);
}

EXPORT status_t dcgmGetGpuStatus(handle_t handle, unsigned int gpu, int *status) {
    if (status == NULL)
        return ST_BADPARAM;
    const state *s;
    status_t st = engine_enter(handle, &s);
    if (st != ST_OK)
        return st;
    const card *c = find_card(s, gpu);
    if (c)
        *status = c->lost ? ENTITY_LOST : ENTITY_OK;
    return engine_leave(c ? ST_OK : ST_BADPARAM);
}

/* Copies one text value of a card; a lost card gives blanks. */
static void attribute(const state *s, const card *c, unsigned short field, char *out) {
    sample v;
    sample_live(s, (entity_t){ FE_GPU, (unsigned)c->index }, field, &v);
    snprintf(out, STR_LEN, "%s", v.value.str);
}

EXPORT status_t dcgmGetDeviceAttributes(handle_t handle, unsigned int gpu, attributes_v3 *out) {
    if (out == NULL)
        return ST_BADPARAM;
    if (out->version != VERSION(attributes_v3, 3))
        return ST_VER_MISMATCH;
    const state *s;
    status_t st = engine_enter(handle, &s);
    if (st != ST_OK)
        return st;
    const card *c = find_card(s, gpu);
    if (c == NULL)
        return engine_leave(ST_BADPARAM);
    memset(out, 0, sizeof *out);
    out->version = VERSION(attributes_v3, 3);
    attribute(s, c, 1, out->identifiers.driver_version);
    attribute(s, c, 50, out->identifiers.name);
    attribute(s, c, 54, out->identifiers.uuid);
    attribute(s, c, 57, out->identifiers.pci_bus_id);
    for (int i = 1; i < 6; i++)
        out->power[i] = INT32_BLANK;
    out->memory.total = c->lost ? INT32_BLANK : (unsigned)c->memory;
    out->memory.bar1 = out->memory.used = out->memory.free = INT32_BLANK;
    out->settings.mig = c->lost ? INT32_BLANK : c->mig;
    return engine_leave(ST_OK);
}

static void add_entry(hierarchy_v2 *out, const card *c, const instance *i, bool compute) {
    hierarchy_entry *e = &out->list[out->count++];
    entity_t gi = { FE_GPU_I, (unsigned)i->entity };
    e->entity = compute ? (entity_t){ FE_GPU_CI, gi.id } : gi;
    e->parent = compute ? gi : (entity_t){ FE_GPU, (unsigned)c->index };
    snprintf(e->gpu_uuid, sizeof e->gpu_uuid, "%s", c->uuid);
    e->nvml_index = (unsigned)c->index;
    e->nvml_gi = (unsigned)i->id;
    e->nvml_ci = compute ? 0 : UINT32_MAX;
    e->nvml_profile = 0;
    e->slices = (unsigned)i->slices;
}

EXPORT status_t dcgmGetGpuInstanceHierarchy(handle_t handle, hierarchy_v2 *out) {
    if (out == NULL)
        return ST_BADPARAM;
    if (out->version != VERSION(hierarchy_v2, 2))
        return ST_VER_MISMATCH;
    const state *s;
    status_t st = engine_enter(handle, &s);
    if (st != ST_OK)
        return st;
    out->count = 0;
    for (int i = 0; i < s->cards; i++) {
        const card *c = &s->card[i];
        /* 14 entries a card is what DCGM's struct has room for. */
        for (int k = 0; !c->lost && k < c->instances && k < 7; k++) {
            add_entry(out, c, &c->instance[k], false);
            add_entry(out, c, &c->instance[k], true);
        }
    }
    return engine_leave(ST_OK);
}

/* A card can be profiled unless its state says that field 1001 is unsupported. */
static bool can_profile(const card *c) {
    for (int k = 0; k < c->fields.count; k++)
        if (c->fields.list[k].id == 1001 && c->fields.list[k].unsupported)
            return false;
    return !c->lost;
}

EXPORT status_t dcgmProfGetSupportedMetricGroups(handle_t handle, prof_groups_v3 *out) {
    if (out == NULL)
        return ST_BADPARAM;
    if (out->version != VERSION(prof_groups_v3, 3))
        return ST_VER_MISMATCH;
    const state *s;
    status_t st = engine_enter(handle, &s);
    if (st != ST_OK)
        return st;
    const card *c = find_card(s, out->gpu);
    if (c == NULL)
        return engine_leave(ST_BADPARAM);
    if (!can_profile(c))
        return engine_leave(ST_PROFILING_NOT_SUPPORTED);
    memset(&out->groups, 0, sizeof out->groups);
    out->count = 1;
    out->groups[0].count = 12;
    for (unsigned short k = 0; k < 12; k++)
        out->groups[0].fields[k] = (unsigned short)(1001 + k);
    return engine_leave(ST_OK);
}
