/* What there is. */
#include "fake.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A GPU of DCGM is the one with that index in the state; the k-th GPU instance on it, by the
 * driver's ids, and the k-th compute instance in that are numbered as DCGM does. */
enum { PER_GPU = DCGM_MAX_INSTANCES_PER_GPU, PER_INSTANCE = DCGM_MAX_COMPUTE_INSTANCES_PER_GPU };

entity instance_of(entity e) {
    return e.entityGroupId == DCGM_FE_GPU_CI ? (entity){ DCGM_FE_GPU_I, e.entityId / PER_INSTANCE } : e;
}

entity gpu_of(entity e) {
    e = instance_of(e);
    if (e.entityGroupId == DCGM_FE_GPU_I)
        return (entity){ DCGM_FE_GPU, e.entityId / PER_GPU };
    return e.entityGroupId == DCGM_FE_GPU ? e : (entity){ DCGM_FE_NONE, 0 };
}

/* The driver's id of a GPU instance, -1 where there is none. */
static int gi_of(entity instance) {
    unsigned before = instance.entityId % PER_GPU;
    for (int gi = 0; gi < MAX_GI; gi++)
        if (has("gpu.%u.gi.%d.profile", gpu_of(instance).entityId, gi) && before-- == 0)
            return gi;
    return -1;
}

static unsigned computes_of(entity instance) {
    unsigned n = 0;
    while (has("gpu.%u.gi.%d.ci.%u.uuid", gpu_of(instance).entityId, gi_of(instance), n))
        n++;
    return n;
}

/* The entities of a kind, of which there is space for DCGM's most. */
static int list_of(dcgm_field_entity_group_t kind, unsigned list[DCGM_GROUP_MAX_ENTITIES_V2]) {
    unsigned of[DCGM_GROUP_MAX_ENTITIES_V2], gpus = 0;
    int n = 0;
    switch (kind) {
    case DCGM_FE_GPU:
        numbers_at(&gpus, 1, "count");
        for (unsigned gpu = 0; gpu < gpus; gpu++)
            if (!has("gpu.%u.away", gpu))
                list[n++] = gpu;
        return n;
    case DCGM_FE_GPU_I:
        for (int i = 0, m = list_of(DCGM_FE_GPU, of); i < m; i++)
            for (entity e = { kind, PER_GPU * of[i] }; gpu_of(e).entityId == of[i] && gi_of(e) >= 0; e.entityId++)
                list[n++] = e.entityId;
        return n;
    case DCGM_FE_GPU_CI:
        for (int i = 0, m = list_of(DCGM_FE_GPU_I, of); i < m; i++)
            for (unsigned k = 0; k < computes_of((entity){ DCGM_FE_GPU_I, of[i] }); k++)
                list[n++] = PER_INSTANCE * of[i] + k;
        return n;
    default:
        return numbers_at(list, DCGM_GROUP_MAX_ENTITIES_V2, "list.%u", kind);
    }
}

static bool is_listed(entity e) {
    unsigned list[DCGM_GROUP_MAX_ENTITIES_V2];
    bool found = e.entityGroupId == DCGM_FE_CPU_CORE; /* which have no list */
    for (int i = 0, n = list_of(e.entityGroupId, list); i < n; i++)
        found = found || list[i] == e.entityId;
    return found;
}

const char *path_of(entity e) {
    static char path[48];
    const entity instance = instance_of(e), gpu = gpu_of(e);
    unsigned gpus = 0;
    if (gpu.entityGroupId != DCGM_FE_GPU) {
        snprintf(path, sizeof path, "%u.%u", e.entityGroupId, e.entityId);
        return is_listed(e) ? path : NULL;
    }
    numbers_at(&gpus, 1, "count");
    if (gpu.entityId >= gpus || has("gpu.%u.away", gpu.entityId))
        return NULL;
    if (e.entityGroupId == DCGM_FE_GPU) {
        snprintf(path, sizeof path, "gpu.%u", gpu.entityId);
        return path;
    }
    const int gi = gi_of(instance);
    if (gi < 0 || (e.entityGroupId == DCGM_FE_GPU_CI && e.entityId % PER_INSTANCE >= computes_of(instance)))
        return NULL;
    snprintf(path, sizeof path, "gpu.%u.gi.%d", gpu.entityId, gi);
    return path;
}

long long number_of(entity e, const char *name) {
    const char *path = path_of(e), *v = path ? value_at("%s.%s", path, name) : NULL;
    return v ? atoll(v) : 0;
}

int numbers_of(const char *v, unsigned *out, int max) {
    int n = 0;
    for (char *end; v && n < max; v = end) {
        out[n] = (unsigned)strtoul(v, &end, 10);
        if (end == v)
            break;
        n++;
    }
    return n;
}

bool is_lost(entity e) { return number_of(gpu_of(e), "lost") || number_of(gpu_of(e), "detached"); }

const char *identity(entity e, unsigned short field) {
    static const struct {
        unsigned short field;
        const char *name;
    } of_gpu[] = { { DCGM_FI_DEV_NAME, "name" }, { DCGM_FI_DEV_UUID, "uuid" }, { DCGM_FI_DEV_PCI_BUSID, "pci" },
                   { DCGM_FI_DEV_MINOR_NUMBER, "minor" }, { DCGM_FI_DEV_MIG_MODE, "mig" }, { DCGM_FI_DEV_MIG_MAX_SLICES, "slices" },
                   { DCGM_FI_DEV_FB_TOTAL, "mib" } };
    static profile p;
    static char index[16];
    int start;
    if (e.entityGroupId == DCGM_FE_GPU_I && field == DCGM_FI_DEV_NAME)
        return instance_at((int)gpu_of(e).entityId, gi_of(e), &p, &start) ? p.name : NULL;
    if (e.entityGroupId == DCGM_FE_GPU_I)
        return field == DCGM_FI_DEV_UUID ? value_at("%s.ci.0.uuid", path_of(e)) : NULL;
    if (field == DCGM_FI_DRIVER_VERSION)
        return look("driver");
    if (field == DCGM_FI_DEV_NVML_INDEX) {
        snprintf(index, sizeof index, "%u", e.entityId);
        return index;
    }
    for (size_t i = 0; i < sizeof of_gpu / sizeof *of_gpu && e.entityGroupId == DCGM_FE_GPU; i++)
        if (of_gpu[i].field == field)
            return value_at("%s.%s", path_of(e), of_gpu[i].name);
    return NULL;
}

int profiled_fields(entity gpu, unsigned fields[MAX_PROFILED]) {
    const char *active = value_at("gpu.%u.f.1001", gpu.entityId);
    if (path_of(gpu) == NULL || is_lost(gpu) || (active && strcmp(active, "!unsupported") == 0))
        return 0;
    int n = numbers_at(fields, MAX_PROFILED, "gpu.%u.profiled", gpu.entityId);
    if (n == 0)
        for (unsigned f = 1001; f <= 1012; f++)
            fields[n++] = f;
    return n;
}

dcgmReturn_t dcgmGetEntityGroupEntities(dcgmHandle_t handle, dcgm_field_entity_group_t kind, dcgm_field_eid_t *list, int *count, unsigned flags) {
    if (list == NULL || count == NULL || *count < DCGM_GROUP_MAX_ENTITIES_V2 || flags != 0)
        return DCGM_ST_BADPARAM;
    ENTER;
    const bool of_driver = kind == DCGM_FE_GPU || kind == DCGM_FE_GPU_I || kind == DCGM_FE_GPU_CI;
    *count = of_driver && has("no_nvml") ? 0 : list_of(kind, list);
    return leave(DCGM_ST_OK);
}

dcgmReturn_t dcgmGetGpuStatus(dcgmHandle_t handle, unsigned gpu, DcgmEntityStatus_t *status) {
    if (status == NULL)
        return DCGM_ST_BADPARAM;
    ENTER;
    const entity e = { DCGM_FE_GPU, gpu };
    *status = number_of(e, "detached") ? DcgmEntityStatusDetached : is_lost(e) ? DcgmEntityStatusLost : DcgmEntityStatusOk;
    return leave(path_of(e) ? DCGM_ST_OK : DCGM_ST_BADPARAM);
}

/* compute is -1 for the GPU instance itself. */
static dcgmMigHierarchyInfo_v2 entry(entity gpu, entity gi, int compute) {
    profile p = { 0 };
    int start;
    const int id = gi_of(gi);
    instance_at((int)gpu.entityId, id, &p, &start);
    const unsigned slices = (unsigned)p.slices, computes = computes_of(gi);
    const entity ci = { DCGM_FE_GPU_CI, PER_INSTANCE * gi.entityId + (unsigned)compute };
    return (dcgmMigHierarchyInfo_v2){
        .entity = compute >= 0 ? ci : gi,
        .parent = compute >= 0 ? gi : gpu,
        .info = { .nvmlGpuIndex = gpu.entityId,
                  .nvmlInstanceId = (unsigned)id,
                  .nvmlComputeInstanceId = (unsigned)compute,
                  .nvmlProfileSlices = compute >= 0 ? slices / computes : slices },
    };
}

dcgmReturn_t dcgmGetGpuInstanceHierarchy(dcgmHandle_t handle, dcgmMigHierarchy_v2 *out) {
    CHECK(dcgmMigHierarchy_version2);
    ENTER;
    fake_log("hierarchy");
    if (has("no_nvml"))
        return leave(DCGM_ST_NVML_NOT_LOADED);
    unsigned list[DCGM_GROUP_MAX_ENTITIES_V2];
    out->count = 0;
    for (int i = 0, n = list_of(DCGM_FE_GPU_I, list); i < n; i++) {
        const entity gi = { DCGM_FE_GPU_I, list[i] };
        for (int k = -1; !is_lost(gi) && k < (int)computes_of(gi) && out->count < DCGM_MAX_HIERARCHY_INFO; k++)
            out->entityList[out->count++] = entry(gpu_of(gi), gi, k);
    }
    return leave(DCGM_ST_OK);
}

dcgmReturn_t dcgmProfGetSupportedMetricGroups(dcgmHandle_t handle, dcgmProfGetMetricGroups_t *out) {
    CHECK(dcgmProfGetMetricGroups_version3);
    ENTER;
    const entity gpu = { DCGM_FE_GPU, out->gpuId };
    unsigned fields[MAX_PROFILED];
    int n = profiled_fields(gpu, fields);
    if (n == 0)
        return leave(path_of(gpu) ? DCGM_ST_PROFILING_NOT_SUPPORTED : DCGM_ST_BADPARAM);
    memset(&out->metricGroups, 0, sizeof out->metricGroups);
    out->numMetricGroups = 1;
    out->metricGroups[0].numFieldIds = (unsigned)n;
    for (int i = 0; i < n; i++)
        out->metricGroups[0].fieldIds[i] = (unsigned short)fields[i];
    return leave(DCGM_ST_OK);
}

dcgmReturn_t dcgmGetCpuHierarchy(dcgmHandle_t handle, dcgmCpuHierarchy_v1 *out) {
    CHECK(dcgmCpuHierarchy_version1);
    ENTER;
    *out = (dcgmCpuHierarchy_v1){ .version = dcgmCpuHierarchy_version1 };
    unsigned list[DCGM_MAX_NUM_CPUS], cores[2]; /* the first and the last */
    for (int i = 0, n = numbers_at(list, DCGM_MAX_NUM_CPUS, "list.%u", DCGM_FE_CPU); i < n && numbers_at(cores, 2, "%u.%u.cores", DCGM_FE_CPU, list[i]) == 2; i++) {
        out->cpus[out->numCpus].cpuId = list[i];
        for (unsigned core = cores[0]; core <= cores[1]; core++)
            out->cpus[out->numCpus].ownedCores.bitmask[core / 64] |= 1ull << (core % 64);
        out->numCpus++;
    }
    return leave(out->numCpus ? DCGM_ST_OK : DCGM_ST_NOT_SUPPORTED); /* a machine without Grace CPUs */
}

/* The status of 36 links a GPU is DCGM 4.6's, newer than the headers: words like the one of 18,
 * which are a version, the number of GPUs, for each of 32 its id and its links' states, the
 * number of switches, and the same of 12 with 256 links. */
enum { LINKS = 18, LINKS_4_6 = 36, SWITCH_LINKS = 256 };
#define LINK_WORDS(links) (2 + DCGM_MAX_NUM_DEVICES * (1 + (links)) + 1 + DCGM_MAX_NUM_SWITCHES * (1 + SWITCH_LINKS))
_Static_assert(sizeof(dcgmNvLinkStatus_v4) == 4 * LINK_WORDS(LINKS), "dcgmNvLinkStatus_v4");
static const unsigned links_version5 = 5u << 24 | 4 * LINK_WORDS(LINKS_4_6);

dcgmReturn_t dcgmGetNvLinkLinkStatus(dcgmHandle_t handle, dcgmNvLinkStatus_v4 *out) {
    if (out == NULL)
        return DCGM_ST_BADPARAM;
    ENTER;
    unsigned *words = (unsigned *)out;
    const unsigned version = *words, links = version == links_version5 ? LINKS_4_6 : LINKS;
    if (version != dcgmNvLinkStatus_version4 && (version != links_version5 || !has("links36")))
        return leave(DCGM_ST_VER_MISMATCH);
    memset(words, 0, version & 0xffffff);
    words[0] = version;
    unsigned list[DCGM_GROUP_MAX_ENTITIES_V2];
    words[1] = (unsigned)list_of(DCGM_FE_GPU, list);
    unsigned *gpus = words + 2, *switches = gpus + DCGM_MAX_NUM_DEVICES * (1 + links);
    for (unsigned i = 0; i < words[1]; i++)
        gpus[i * (1 + links)] = list[i];
    *switches = (unsigned)numbers_at(list, DCGM_MAX_NUM_SWITCHES, "list.%u", DCGM_FE_SWITCH);
    for (unsigned i = 0; i < *switches; i++)
        switches[1 + i * (1 + SWITCH_LINKS)] = list[i];
    for (int i = 0, n = list_of(DCGM_FE_LINK, list); i < n; i++) {
        const dcgm_link_t link = { .raw = list[i] };
        const bool at_gpu = link.parsed.type == DCGM_FE_GPU;
        const unsigned per = at_gpu ? links : SWITCH_LINKS, parents = at_gpu ? words[1] : *switches;
        unsigned *table = at_gpu ? gpus : switches + 1;
        for (unsigned k = 0; link.parsed.index < per && k < parents; k++)
            if (table[k * (1 + per)] == link.parsed.gpuId)
                table[k * (1 + per) + 1 + link.parsed.index] =
                    number_of((entity){ DCGM_FE_LINK, list[i] }, "up") ? DcgmNvLinkLinkStateUp : DcgmNvLinkLinkStateDown;
    }
    return leave(DCGM_ST_OK);
}

dcgmReturn_t dcgmGetNvLinkP2PStatus(dcgmHandle_t handle, dcgmNvLinkP2PStatus_v1 *out) {
    CHECK(dcgmNvLinkP2PStatus_version1);
    ENTER;
    unsigned list[DCGM_GROUP_MAX_ENTITIES_V2], status;
    *out = (dcgmNvLinkP2PStatus_v1){ dcgmNvLinkP2PStatus_version1, (unsigned)list_of(DCGM_FE_GPU, list), { { 0 } } };
    for (unsigned i = 0; i < out->numGpus; i++) {
        out->gpus[i].entityId = list[i];
        for (unsigned k = 0; k < out->numGpus; k++)
            out->gpus[i].linkStatus[k] = numbers_at(&status, 1, "peer.%u.%u", list[i], list[k]) ? status : 0;
    }
    return leave(DCGM_ST_OK);
}
