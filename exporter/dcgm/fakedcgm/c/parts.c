/* The entities, and how they are connected. */
#include "fake.h"

#include <stdio.h>
#include <string.h>

enum { MAX_PROFILES = 18, MAX_PARTS = 8192 };

static part all[MAX_PARTS], *end;

static void add_part(unsigned kind, unsigned id, int gpu, int gi, int ci, const char *where) {
    *end = (part){ { kind, id }, gpu, gi, ci, "", DcgmEntityStatusOk };
    if (gpu >= 0)
        end->status = has("GPUs.%d.Values.detached", gpu) ? DcgmEntityStatusDetached : number_at("GPUs.%d.Lost", gpu) ? DcgmEntityStatusLost : DcgmEntityStatusOk;
    snprintf(end++->path, sizeof end->path, "%s", where);
}

/* DCGM's number of a GPU is its index. Its GPU instances and its compute instances are each numbered from the
 * multiple of its compute slices on, by NVML's index of their profile and the driver's id. A detached GPU has no
 * instances. */
static void list_gpu(int gpu) {
    unsigned gis = (unsigned)(gpu * number_at("GPUs.%d.Spec.ComputeSlices", gpu)), cis = gis;
    profile p;
    add_part(DCGM_FE_GPU, gpu, gpu, -1, -1, path("GPUs.%d", gpu));
    for (unsigned i = 0; i < MAX_PROFILES * MAX_GI && end[-1].status != DcgmEntityStatusDetached; i++) {
        const int gi = i % MAX_GI;
        if (!instance_at(gpu, gi, &p) || profile_index(gpu, &p) != i / MAX_GI)
            continue;
        add_part(DCGM_FE_GPU_I, gis++, gpu, gi, -1, path("GPUs.%d.Instances.%d", gpu, gi));
        for (int k = 0; k < MAX_CI * p.compute; k++)
            if (compute_slices(gpu, gi, k % MAX_CI) == 1 + k / MAX_CI)
                add_part(DCGM_FE_GPU_CI, cis++, gpu, gi, k % MAX_CI, path("GPUs.%d.Instances.%d", gpu, gi));
    }
}

static void list(void) {
    end = all;
    for (int gpu = 0; gpu < MAX_GPUS && has("GPUs.%d", gpu); gpu++)
        if (!has("GPUs.%d.Values.away", gpu))
            list_gpu(gpu);
    for (int i = 0; has("Parts.%d", i); i++)
        add_part(number_at("Parts.%d.Kind", i), number_at("Parts.%d.ID", i), -1, -1, -1, path("Parts.%d", i));
    end->is.entityGroupId = DCGM_FE_NONE;
}

const part *parts(void) {
    static int64_t listed;
    if (listed != machine_changed())
        list();
    listed = machine_changed();
    return all;
}

/* Cores are not listed: every core that a call names exists. */
const part *part_of(entity e) {
    static const part core = { { DCGM_FE_CPU_CORE, 0 }, -1, -1, -1, "", DcgmEntityStatusOk };
    for EACH_PART(p)
        if (p->is.entityGroupId == e.entityGroupId && p->is.entityId == e.entityId)
            return p;
    return e.entityGroupId == DCGM_FE_CPU_CORE ? &core : NULL;
}

DcgmEntityStatus_t status_of(entity e) {
    const part *p = part_of(e);
    return p ? p->status : DcgmEntityStatusUnknown;
}

/* The entities of a kind, at most DCGM's maximum. */
static int list_of(dcgm_field_entity_group_t kind, unsigned ids[DCGM_GROUP_MAX_ENTITIES_V2]) {
    int n = 0;
    for EACH_PART(p)
        if (p->is.entityGroupId == kind && n < DCGM_GROUP_MAX_ENTITIES_V2)
            ids[n++] = p->is.entityId;
    return n;
}

int profiled_fields(entity gpu, unsigned long long fields[MAX_PROFILED]) {
    const char *some = value_at("GPUs.%u.Values.profiled", gpu.entityId);
    const char *all = some ? some : "1001 1002 1003 1004 1005 1006 1007 1008 1009 1010 1011 1012";
    return status_of(gpu) == DcgmEntityStatusOk ? numbers_of(all, fields, MAX_PROFILED) : 0;
}

dcgmReturn_t dcgmGetEntityGroupEntities(dcgmHandle_t handle, dcgm_field_entity_group_t kind, dcgm_field_eid_t *ids, int *count, unsigned flags) {
    if (*count < DCGM_GROUP_MAX_ENTITIES_V2 || flags != 0)
        return DCGM_ST_BADPARAM;
    ENTER;
    *count = list_of(kind, ids);
    return DCGM_ST_OK;
}

dcgmReturn_t dcgmGetGpuStatus(dcgmHandle_t handle, unsigned gpu, DcgmEntityStatus_t *status) {
    ENTER;
    *status = status_of((entity){ DCGM_FE_GPU, gpu });
    return DCGM_ST_OK;
}

dcgmReturn_t dcgmGetGpuInstanceHierarchy(dcgmHandle_t handle, dcgmMigHierarchy_v2 *out) {
    CHECK(dcgmMigHierarchy_version2);
    ENTER;
    out->count = 0;
    entity gi = { 0 };
    for EACH_PART(p) {
        const bool of_gi = p->is.entityGroupId == DCGM_FE_GPU_I;
        gi = of_gi ? p->is : gi;
        profile whole;
        if (p->gi < 0 || !instance_at(p->gpu, p->gi, &whole) || out->count == DCGM_MAX_HIERARCHY_INFO)
            continue;
        out->entityList[out->count++] = (dcgmMigHierarchyInfo_v2){
            .entity = p->is, .parent = of_gi ? (entity){ DCGM_FE_GPU, p->gpu } : gi,
            .info = { .nvmlGpuIndex = p->gpu, .nvmlInstanceId = p->gi, .nvmlComputeInstanceId = p->ci,
                      .nvmlProfileSlices = (of_gi ? whole.compute : compute_slices(p->gpu, p->gi, p->ci)) },
        };
    }
    return DCGM_ST_OK;
}

dcgmReturn_t dcgmProfGetSupportedMetricGroups(dcgmHandle_t handle, dcgmProfGetMetricGroups_t *out) {
    CHECK(dcgmProfGetMetricGroups_version3);
    ENTER;
    unsigned long long fields[MAX_PROFILED];
    const int n = profiled_fields((entity){ DCGM_FE_GPU, out->gpuId }, fields);
    if (n == 0)
        return DCGM_ST_PROFILING_NOT_SUPPORTED;
    memset(&out->metricGroups, 0, sizeof out->metricGroups);
    out->numMetricGroups = 1;
    for (int i = 0; i < n; i++)
        out->metricGroups[0].fieldIds[out->metricGroups[0].numFieldIds++] = (unsigned short)fields[i];
    return DCGM_ST_OK;
}

dcgmReturn_t dcgmGetCpuHierarchy(dcgmHandle_t handle, dcgmCpuHierarchy_v1 *out) {
    CHECK(dcgmCpuHierarchy_version1);
    ENTER;
    *out = (dcgmCpuHierarchy_v1){ .version = dcgmCpuHierarchy_version1 };
    unsigned long long cores[2]; /* the first and the last */
    for EACH_PART(p) {
        if (p->is.entityGroupId != DCGM_FE_CPU || out->numCpus == DCGM_MAX_NUM_CPUS || numbers_of(value_at("%s.Values.cores", p->path), cores, 2) != 2)
            continue;
        out->cpus[out->numCpus].cpuId = p->is.entityId;
        for (unsigned long long core = cores[0]; core <= cores[1]; core++)
            out->cpus[out->numCpus].ownedCores.bitmask[core / 64] |= 1ull << (core % 64);
        out->numCpus++;
    }
    return out->numCpus ? DCGM_ST_OK : DCGM_ST_NOT_SUPPORTED; /* a machine without Grace CPUs */
}

/* The status of 36 links a GPU is DCGM 4.6's, newer than the headers. It is words like that of
 * 18 links: the version, the number of GPUs, then for each of 32 GPUs its id and its links'
 * states. The number of switches and the same of 12 switches with 256 links follow. */
enum { LINKS = 18, LINKS_4_6 = 36, SWITCH_LINKS = 256 };
#define LINK_WORDS(links) (2 + DCGM_MAX_NUM_DEVICES * (1 + (links)) + 1 + DCGM_MAX_NUM_SWITCHES * (1 + SWITCH_LINKS))
_Static_assert(sizeof(dcgmNvLinkStatus_v4) == 4 * LINK_WORDS(LINKS), "dcgmNvLinkStatus_v4");
static const unsigned links_version5 = 5u << 24 | 4 * LINK_WORDS(LINKS_4_6);

dcgmReturn_t dcgmGetNvLinkLinkStatus(dcgmHandle_t handle, dcgmNvLinkStatus_v4 *out) {
    ENTER;
    unsigned *words = (unsigned *)out, ids[DCGM_GROUP_MAX_ENTITIES_V2];
    const unsigned version = *words, links = version == links_version5 ? LINKS_4_6 : LINKS;
    if (version != dcgmNvLinkStatus_version4 && (version != links_version5 || !has("Lines.links36")))
        return DCGM_ST_VER_MISMATCH;
    memset(words, 0, version & 0xffffff);
    words[0] = version;
    const struct {
        unsigned kind, links, *count;
    } tables[] = { { DCGM_FE_GPU, links, words + 1 }, { DCGM_FE_SWITCH, SWITCH_LINKS, words + 2 + DCGM_MAX_NUM_DEVICES * (1 + links) } };
    for (int t = 0; t < 2; t++) {
        *tables[t].count = list_of(tables[t].kind, ids);
        for (unsigned i = 0; i < *tables[t].count; i++) {
            unsigned *row = tables[t].count + 1 + i * (1 + tables[t].links);
            *row = ids[i];
            for (unsigned k = 0; k < tables[t].links; k++) {
                const dcgm_link_t link = { .parsed = { .type = tables[t].kind, .index = (uint16_t)k, .gpuId = (uint8_t)ids[i] } };
                const part *p = part_of((entity){ DCGM_FE_LINK, link.raw });
                row[1 + k] = p == NULL ? 0 : has("%s.Values.up", p->path) ? DcgmNvLinkLinkStateUp : DcgmNvLinkLinkStateDown;
            }
        }
    }
    return DCGM_ST_OK;
}

/* Fails if any GPU is lost. */
dcgmReturn_t dcgmGetNvLinkP2PStatus(dcgmHandle_t handle, dcgmNvLinkP2PStatus_v1 *out) {
    CHECK(dcgmNvLinkP2PStatus_version1);
    ENTER;
    unsigned ids[DCGM_GROUP_MAX_ENTITIES_V2];
    *out = (dcgmNvLinkP2PStatus_v1){ dcgmNvLinkP2PStatus_version1, list_of(DCGM_FE_GPU, ids), { { 0 } } };
    for (unsigned i = 0; i < out->numGpus; i++) {
        if (status_of((entity){ DCGM_FE_GPU, ids[i] }) == DcgmEntityStatusLost)
            return DCGM_ST_GPU_IS_LOST;
        out->gpus[i].entityId = ids[i];
        for (unsigned k = 0; k < out->numGpus; k++)
            out->gpus[i].linkStatus[k] = number_at("Lines.peer.%u.%u", ids[i], ids[k]);
    }
    return DCGM_ST_OK;
}
