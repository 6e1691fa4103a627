/* Serves the calls that ask what there is. */
#include "engine.h"

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

const unsigned short *profiled_fields(const state *s, const GPU *c, int *n) {
    static const unsigned short usual[] = { 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009, 1010, 1011, 1012 };
    *n = 0;
    if (c->lost)
        return NULL;
    const field_value *sm = find_value(s, c->fields, 1001);
    if (sm && sm->what == A_UNSUPPORTED)
        return NULL;
    *n = c->profiled ? c->profiled : (int)(sizeof usual / sizeof *usual);
    return c->profiled ? c->profile : usual;
}

static void put_ids(buffer *out, const unsigned int *ids, int n) {
    PUT(out, n);
    put_bytes(out, ids, (size_t)n * sizeof *ids);
}

status_t serve_dcgmGetAllDevices(const state *s, buffer *in, buffer *out) {
    int live_only, n = 0;
    unsigned int ids[MAX_GPUS];
    GET(in, live_only);
    for (int i = 0; i < s->GPUs && !s->no_nvml; i++)
        if (!live_only || !s->GPU[i].lost)
            ids[n++] = (unsigned)s->GPU[i].index;
    put_ids(out, ids, n);
    return ST_OK;
}

status_t serve_dcgmGetEntityGroupEntities(const state *s, buffer *in, buffer *out) {
    unsigned int kind, flags;
    unsigned int ids[MAX_ENTITIES];
    int n = 0;
    GET(in, kind);
    GET(in, flags);
    for (int i = 0; i < s->GPUs && !s->no_nvml; i++) {
        const GPU *c = &s->GPU[i];
        if ((flags & 1) && c->lost)
            continue;
        if (kind == FE_GPU)
            ids[n++] = (unsigned)c->index;
        for (int k = 0; kind == FE_GPU_I && k < c->instances.count; k++)
            ids[n++] = (unsigned)instance_of(s, c, k)->entity;
        for (int k = 0; kind == FE_GPU_CI && k < c->instances.count; k++)
            for (int j = 0; j < instance_of(s, c, k)->computes; j++)
                ids[n++] = (unsigned)(8 * instance_of(s, c, k)->entity + j);
    }
    for (int i = 0; i < s->things; i++)
        if (s->thing[i].kind == kind && kind != FE_CPU_CORE)
            ids[n++] = s->thing[i].id;
    for (unsigned core = 0; kind == FE_CPU_CORE && core < MAX_ENTITIES; core++)
        if (has_core(s, core))
            ids[n++] = core;
    put_ids(out, ids, n);
    return ST_OK;
}

status_t serve_dcgmGetGpuStatus(const state *s, buffer *in, buffer *out) {
    unsigned int gpu;
    GET(in, gpu);
    const GPU *c = find_gpu(s, gpu);
    int status = c && c->lost ? ENTITY_LOST : ENTITY_OK;
    PUT(out, status);
    return c ? ST_OK : ST_BADPARAM;
}

/* Copies one text value of a GPU; a lost GPU gives blanks. */
static void attribute(const state *s, const GPU *c, unsigned short field, char *out) {
    sample v;
    sample_live(s, (entity_t){ FE_GPU, (unsigned)c->index }, field, &v);
    snprintf(out, STR_LEN, "%s", v.value.str);
}

status_t serve_dcgmGetDeviceAttributes(const state *s, buffer *in, buffer *out) {
    unsigned int gpu;
    GET(in, gpu);
    const GPU *c = find_gpu(s, gpu);
    if (s->no_nvml)
        return ST_NVML_NOT_LOADED;
    if (c == NULL)
        return ST_BADPARAM;
    attributes_v3 a = { .version = VERSION(attributes_v3, 3) };
    attribute(s, c, 1, a.identifiers.driver_version);
    attribute(s, c, 50, a.identifiers.name);
    attribute(s, c, 54, a.identifiers.uuid);
    attribute(s, c, 57, a.identifiers.pci_bus_id);
    for (int i = 1; i < 6; i++)
        a.power[i] = INT32_BLANK;
    a.memory.total = c->lost ? INT32_BLANK : (unsigned)c->memory;
    a.memory.bar1 = a.memory.used = a.memory.free = INT32_BLANK;
    a.settings.mig = c->lost ? INT32_BLANK : c->mig;
    PUT(out, a);
    return ST_OK;
}

/* compute is -1 for the GPU instance itself. */
static void put_entry(buffer *out, const GPU *c, const instance *i, int compute) {
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
    PUT(out, e);
}

status_t serve_dcgmGetGpuInstanceHierarchy(const state *s, buffer *in, buffer *out) {
    (void)in;
    engine_log("hierarchy");
    if (s->no_nvml)
        return ST_NVML_NOT_LOADED;
    for (int i = 0; i < s->GPUs; i++) {
        const GPU *c = &s->GPU[i];
        /* DCGM's struct holds 14 entries a GPU. */
        for (int k = 0; !c->lost && k < c->instances.count && k < 7; k++) {
            const instance *gi = instance_of(s, c, k);
            for (int j = -1; j < gi->computes; j++)
                put_entry(out, c, gi, j);
        }
    }
    return ST_OK;
}

status_t serve_dcgmProfGetSupportedMetricGroups(const state *s, buffer *in, buffer *out) {
    unsigned int gpu;
    GET(in, gpu);
    const GPU *c = find_gpu(s, gpu);
    if (c == NULL)
        return ST_BADPARAM;
    int n;
    const unsigned short *fields = profiled_fields(s, c, &n);
    if (n == 0)
        return ST_PROFILING_NOT_SUPPORTED;
    PUT(out, n);
    put_bytes(out, fields, (size_t)n * sizeof *fields);
    return ST_OK;
}

status_t serve_dcgmGetCpuHierarchy(const state *s, buffer *in, buffer *out) {
    (void)in;
    cpu_hierarchy_v1 h = { .version = VERSION(cpu_hierarchy_v1, 1) };
    for (int i = 0; i < s->things && h.count < 8; i++) {
        const thing *t = &s->thing[i];
        if (t->kind != FE_CPU)
            continue;
        h.cpus[h.count].cpu = t->id;
        for (int core = t->first; core <= t->last; core++)
            h.cpus[h.count].cores.bitmask[core / 64] |= 1ull << (core % 64);
        h.count++;
    }
    if (h.count == 0)
        return ST_NOT_SUPPORTED; /* a machine without Grace CPUs */
    PUT(out, h);
    return ST_OK;
}

status_t serve_dcgmGetNvLinkLinkStatus(const state *s, buffer *in, buffer *out) {
    unsigned version;
    GET(in, version);
    const int links = version == LINKS_VERSION(5, 36) ? 36 : 18;
    if (version != LINKS_VERSION(4, 18) && (version != LINKS_VERSION(5, 36) || !s->links36))
        return ST_VER_MISMATCH;
    unsigned words[LINK_WORDS(36)] = { version, (unsigned)s->GPUs };
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
    put_bytes(out, words, version & 0xffffff);
    return ST_OK;
}

static int place_of(const p2p_status_v1 *p, int gpu) {
    for (int k = 0; k < (int)p->gpus; k++)
        if (p->gpu[k].id == (unsigned)gpu)
            return k;
    return -1;
}

status_t serve_dcgmGetNvLinkP2PStatus(const state *s, buffer *in, buffer *out) {
    (void)in;
    p2p_status_v1 p = { .version = VERSION(p2p_status_v1, 1) };
    for (int i = 0; i < s->GPUs; i++)
        p.gpu[p.gpus++].id = (unsigned)s->GPU[i].index;
    for (int i = 0; i < s->peers; i++) {
        int from = place_of(&p, s->peer[i].from), to = place_of(&p, s->peer[i].to);
        if (from >= 0 && to >= 0)
            p.gpu[from].status[to] = s->peer[i].status;
    }
    PUT(out, p);
    return ST_OK;
}

status_t serve_dcgmGetDeviceTopology(const state *s, buffer *in, buffer *out) {
    unsigned int gpu;
    (void)out;
    GET(in, gpu);
    return find_gpu(s, gpu) ? ST_OK : ST_BADPARAM;
}

status_t serve_dcgmHostengineVersionInfo(const state *s, buffer *in, buffer *out) {
    (void)s, (void)in, (void)out;
    return ST_OK;
}
