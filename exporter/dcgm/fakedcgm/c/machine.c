/* What there is. */
#include "fake.h"

#include <stdio.h>
#include <string.h>

const GPU *find_gpu(const state *s, unsigned int gpu) {
    for (int i = 0; i < s->GPUs; i++)
        if ((unsigned)s->GPU[i].index == gpu)
            return &s->GPU[i];
    return NULL;
}

const instance *instance_of(const state *s, const GPU *c, int k) {
    return &s->instance[c->instances.first + k];
}

const instance *find_instance(const state *s, unsigned int entity, const GPU **parent) {
    for (int i = 0; i < s->GPUs; i++) {
        const GPU *c = &s->GPU[i];
        for (int k = 0; k < c->instances.count; k++) {
            const instance *found = instance_of(s, c, k);
            if ((unsigned)found->entity == entity) {
                *parent = c;
                return found;
            }
        }
    }
    return NULL;
}

/* The compute instances of a GPU instance have the numbers from 8 times its own on. */
const instance *find_compute(const state *s, unsigned int entity, const GPU **parent) {
    const instance *i = find_instance(s, entity / 8, parent);
    return i && entity % 8 < (unsigned)i->computes ? i : NULL;
}

const thing *find_thing(const state *s, entity_t e) {
    for (int i = 0; i < s->things; i++)
        if (s->thing[i].kind == e.kind && s->thing[i].id == e.id)
            return &s->thing[i];
    return NULL;
}

static bool has_core(const state *s, unsigned int core) {
    for (int i = 0; i < s->things; i++) {
        const thing *t = &s->thing[i];
        if (t->kind == FE_CPU && core >= (unsigned)t->first && core <= (unsigned)t->last)
            return true;
    }
    return false;
}

bool entity_exists(const state *s, entity_t e) {
    const GPU *parent;
    switch (e.kind) {
    case FE_GPU: return find_gpu(s, e.id) != NULL;
    case FE_GPU_I: return find_instance(s, e.id, &parent) != NULL;
    case FE_GPU_CI: return find_compute(s, e.id, &parent) != NULL;
    case FE_CPU_CORE: return has_core(s, e.id);
    default: return find_thing(s, e) != NULL;
    }
}

const uint16_t *profiled_fields(const state *s, const GPU *c, int *n) {
    static const uint16_t usual[] = { 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009, 1010, 1011, 1012 };
    *n = 0;
    if (c->lost)
        return NULL;
    const field_value *sm = find_value(s, c->fields, 1001);
    if (sm && sm->what == A_UNSUPPORTED)
        return NULL;
    *n = c->profiled ? c->profiled : (int)(sizeof usual / sizeof *usual);
    return c->profiled ? c->profile : usual;
}

EXPORT status_t dcgmGetEntityGroupEntities(handle_t handle, unsigned int kind, unsigned int *list, int *count,
                                           unsigned int flags) {
    if (list == NULL || count == NULL || *count < MAX_ENTITIES || flags != 0)
        return ST_BADPARAM;
    ENTER(dcgmGetEntityGroupEntities);
    int n = 0;
    for (int i = 0; i < s->GPUs && !s->no_nvml; i++) {
        const GPU *c = &s->GPU[i];
        if (kind == FE_GPU)
            list[n++] = (unsigned)c->index;
        for (int k = 0; k < c->instances.count; k++) {
            const instance *g = instance_of(s, c, k);
            if (kind == FE_GPU_I)
                list[n++] = (unsigned)g->entity;
            for (int j = 0; kind == FE_GPU_CI && j < g->computes; j++)
                list[n++] = (unsigned)(8 * g->entity + j);
        }
    }
    for (int i = 0; i < s->things; i++)
        if (s->thing[i].kind == kind && kind != FE_CPU_CORE)
            list[n++] = s->thing[i].id;
    for (unsigned core = 0; kind == FE_CPU_CORE && core < MAX_ENTITIES; core++)
        if (has_core(s, core))
            list[n++] = core;
    *count = n;
    return leave(ST_OK);
}

EXPORT status_t dcgmGetGpuStatus(handle_t handle, unsigned int gpu, int *status) {
    if (status == NULL)
        return ST_BADPARAM;
    ENTER(dcgmGetGpuStatus);
    const GPU *c = find_gpu(s, gpu);
    *status = c && c->lost ? ENTITY_LOST : ENTITY_OK;
    return leave(c ? ST_OK : ST_BADPARAM);
}

/* Copies one text value of a GPU; a lost GPU gives blanks. */
static void attribute(const state *s, const GPU *c, unsigned short field, char *out) {
    sample v;
    sample_live(s, (entity_t){ FE_GPU, (unsigned)c->index }, field, &v);
    snprintf(out, STR_LEN, "%s", v.value.str);
}

EXPORT status_t dcgmGetDeviceAttributes(handle_t handle, unsigned int gpu, attributes_v3 *out) {
    if (out == NULL)
        return ST_BADPARAM;
    if (out->version != VERSION(attributes_v3, 3))
        return ST_VER_MISMATCH;
    ENTER(dcgmGetDeviceAttributes);
    const GPU *c = find_gpu(s, gpu);
    if (s->no_nvml || c == NULL)
        return leave(s->no_nvml ? ST_NVML_NOT_LOADED : ST_BADPARAM);
    *out = (attributes_v3){ .version = VERSION(attributes_v3, 3) };
    attribute(s, c, 1, out->identifiers.driver_version);
    attribute(s, c, 50, out->identifiers.name);
    attribute(s, c, 54, out->identifiers.uuid);
    attribute(s, c, 57, out->identifiers.pci_bus_id);
    for (int i = 1; i < 6; i++)
        out->power[i] = INT32_BLANK;
    out->memory.total = c->lost ? INT32_BLANK : (unsigned)c->memory;
    out->memory.bar1 = out->memory.used = out->memory.free = INT32_BLANK;
    out->settings.mig = c->lost ? INT32_BLANK : c->mig;
    return leave(ST_OK);
}

/* compute is -1 for the GPU instance itself. */
static hierarchy_entry entry(const GPU *c, const instance *i, int compute) {
    entity_t gi = { FE_GPU_I, (unsigned)i->entity };
    hierarchy_entry e = {
        .entity = compute >= 0 ? (entity_t){ FE_GPU_CI, 8 * gi.id + (unsigned)compute } : gi,
        .parent = compute >= 0 ? gi : (entity_t){ FE_GPU, (unsigned)c->index },
        .nvml_index = (unsigned)c->index,
        .nvml_gi = (unsigned)i->id,
        .nvml_ci = (unsigned)compute,
        .slices = (unsigned)(compute >= 0 ? i->slices / i->computes : i->slices),
    };
    snprintf(e.gpu_uuid, sizeof e.gpu_uuid, "%s", c->uuid);
    return e;
}

EXPORT status_t dcgmGetGpuInstanceHierarchy(handle_t handle, hierarchy_v2 *out) {
    if (out == NULL)
        return ST_BADPARAM;
    if (out->version != VERSION(hierarchy_v2, 2))
        return ST_VER_MISMATCH;
    ENTER(dcgmGetGpuInstanceHierarchy);
    fake_log("hierarchy");
    if (s->no_nvml)
        return leave(ST_NVML_NOT_LOADED);
    out->count = 0;
    for (int i = 0; i < s->GPUs; i++) {
        const GPU *c = &s->GPU[i];
        for (int k = 0; !c->lost && k < c->instances.count; k++) {
            const instance *gi = instance_of(s, c, k);
            for (int j = -1; j < gi->computes && out->count < MAX_HIERARCHY; j++)
                out->list[out->count++] = entry(c, gi, j);
        }
    }
    return leave(ST_OK);
}

EXPORT status_t dcgmProfGetSupportedMetricGroups(handle_t handle, prof_groups_v3 *out) {
    if (out == NULL)
        return ST_BADPARAM;
    if (out->version != VERSION(prof_groups_v3, 3))
        return ST_VER_MISMATCH;
    ENTER(dcgmProfGetSupportedMetricGroups);
    const GPU *c = find_gpu(s, out->gpu);
    int n = 0;
    const uint16_t *fields = c ? profiled_fields(s, c, &n) : NULL;
    if (n == 0)
        return leave(c ? ST_PROFILING_NOT_SUPPORTED : ST_BADPARAM);
    memset(&out->groups, 0, sizeof out->groups);
    out->count = 1;
    out->groups[0].count = (unsigned)n;
    memcpy(out->groups[0].fields, fields, (size_t)n * sizeof *fields);
    return leave(ST_OK);
}

EXPORT status_t dcgmGetCpuHierarchy(handle_t handle, cpu_hierarchy_v1 *out) {
    if (out == NULL)
        return ST_BADPARAM;
    if (out->version != VERSION(cpu_hierarchy_v1, 1))
        return ST_VER_MISMATCH;
    ENTER(dcgmGetCpuHierarchy);
    *out = (cpu_hierarchy_v1){ .version = VERSION(cpu_hierarchy_v1, 1) };
    for (int i = 0; i < s->things && out->count < 8; i++) {
        const thing *t = &s->thing[i];
        if (t->kind != FE_CPU)
            continue;
        out->cpus[out->count].cpu = t->id;
        for (int core = t->first; core <= t->last; core++)
            out->cpus[out->count].cores.bitmask[core / 64] |= 1ull << (core % 64);
        out->count++;
    }
    return leave(out->count ? ST_OK : ST_NOT_SUPPORTED); /* a machine without Grace CPUs */
}

EXPORT status_t dcgmGetNvLinkLinkStatus(handle_t handle, unsigned int *words) {
    if (words == NULL)
        return ST_BADPARAM;
    ENTER(dcgmGetNvLinkLinkStatus);
    const unsigned version = *words;
    const int links = version == LINKS_VERSION(5, 36) ? 36 : 18;
    if (version != LINKS_VERSION(4, 18) && (version != LINKS_VERSION(5, 36) || !s->links36))
        return leave(ST_VER_MISMATCH);
    memset(words, 0, version & 0xffffff);
    words[0] = version;
    words[1] = (unsigned)s->GPUs;
    unsigned *gpus = words + 2, *switches = gpus + MAX_DEVICES * (1 + links);
    for (int i = 0; i < s->GPUs; i++)
        gpus[i * (1 + links)] = (unsigned)s->GPU[i].index;
    for (int i = 0; i < s->things && *switches < MAX_SWITCHES; i++)
        if (s->thing[i].kind == FE_SWITCH)
            switches[1 + (*switches)++ * (1 + LINKS_PER_SWITCH)] = s->thing[i].id;
    for (int i = 0; i < s->things; i++) {
        const thing *t = &s->thing[i];
        const bool at_gpu = t->parent_kind == FE_GPU;
        const int per = at_gpu ? links : LINKS_PER_SWITCH, n = at_gpu ? s->GPUs : (int)*switches;
        unsigned *list = at_gpu ? gpus : switches + 1;
        for (int k = 0; t->kind == FE_LINK && t->index < per && k < n; k++)
            if (list[k * (1 + per)] == (unsigned)t->parent)
                list[k * (1 + per) + 1 + t->index] = t->up ? LINK_UP : LINK_DOWN;
    }
    return leave(ST_OK);
}

EXPORT status_t dcgmGetNvLinkP2PStatus(handle_t handle, p2p_status_v1 *out) {
    if (out == NULL)
        return ST_BADPARAM;
    if (out->version != VERSION(p2p_status_v1, 1))
        return ST_VER_MISMATCH;
    ENTER(dcgmGetNvLinkP2PStatus);
    *out = (p2p_status_v1){ .version = VERSION(p2p_status_v1, 1), .gpus = (unsigned)s->GPUs };
    for (int i = 0; i < s->GPUs; i++) {
        out->gpu[i].id = (unsigned)s->GPU[i].index;
        for (int k = 0; k < s->GPUs; k++)
            for (int p = 0; p < s->peers; p++)
                if (s->peer[p].from == s->GPU[i].index && s->peer[p].to == s->GPU[k].index)
                    out->gpu[i].status[k] = s->peer[p].status;
    }
    return leave(ST_OK);
}
