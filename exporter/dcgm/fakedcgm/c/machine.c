/* What there is. */
#include "fake.h"

#include <stdio.h>
#include <string.h>

/* The entities of a kind, of which there is space for DCGM's most. */
static int list_of(dcgm_field_entity_group_t kind, unsigned list[DCGM_GROUP_MAX_ENTITIES_V2]) {
    if (kind != DCGM_FE_GPU_CI)
        return numbers_at(list, DCGM_GROUP_MAX_ENTITIES_V2, "list.%u", kind);
    unsigned of[DCGM_MAX_INSTANCES];
    int n = 0;
    for (int i = 0, m = numbers_at(of, DCGM_MAX_INSTANCES, "list.%u", DCGM_FE_GPU_I); i < m; i++)
        for (int k = 0; k < number_of((entity){ DCGM_FE_GPU_I, of[i] }, "computes"); k++)
            list[n++] = DCGM_MAX_COMPUTE_INSTANCES_PER_GPU * of[i] + (unsigned)k;
    return n;
}

dcgmReturn_t dcgmGetEntityGroupEntities(dcgmHandle_t handle, dcgm_field_entity_group_t kind, dcgm_field_eid_t *list, int *count, unsigned flags) {
    if (list == NULL || count == NULL || *count < DCGM_GROUP_MAX_ENTITIES_V2 || flags != 0)
        return DCGM_ST_BADPARAM;
    ENTER;
    const bool of_driver = kind == DCGM_FE_GPU || kind == DCGM_FE_GPU_I || kind == DCGM_FE_GPU_CI;
    *count = of_driver && state_number("no_nvml") ? 0 : list_of(kind, list);
    return leave(DCGM_ST_OK);
}

dcgmReturn_t dcgmGetGpuStatus(dcgmHandle_t handle, unsigned gpu, DcgmEntityStatus_t *status) {
    if (status == NULL)
        return DCGM_ST_BADPARAM;
    ENTER;
    const entity e = { DCGM_FE_GPU, gpu };
    *status = number_of(e, "detached") ? DcgmEntityStatusDetached : is_lost(e) ? DcgmEntityStatusLost : DcgmEntityStatusOk;
    return leave(exists(e) ? DCGM_ST_OK : DCGM_ST_BADPARAM);
}

/* Copies one text value of a GPU; a lost GPU gives blanks. */
static void attribute(entity gpu, unsigned short field, char *out) {
    sample v;
    sample_live(gpu, field, &v);
    snprintf(out, DCGM_MAX_STR_LENGTH, "%s", v.value.str);
}

dcgmReturn_t dcgmGetDeviceAttributes(dcgmHandle_t handle, unsigned gpu, dcgmDeviceAttributes_t *out) {
    CHECK(dcgmDeviceAttributes_version3);
    ENTER;
    const entity e = { DCGM_FE_GPU, gpu };
    if (state_number("no_nvml") || !exists(e))
        return leave(exists(e) ? DCGM_ST_NVML_NOT_LOADED : DCGM_ST_BADPARAM);
    *out = (dcgmDeviceAttributes_t){ .version = dcgmDeviceAttributes_version3 };
    attribute(e, DCGM_FI_DRIVER_VERSION, out->identifiers.driverVersion);
    attribute(e, DCGM_FI_DEV_NAME, out->identifiers.deviceName);
    attribute(e, DCGM_FI_DEV_UUID, out->identifiers.uuid);
    attribute(e, DCGM_FI_DEV_PCI_BUSID, out->identifiers.pciBusId);
    return leave(DCGM_ST_OK);
}

/* compute is -1 for the GPU instance itself. */
static dcgmMigHierarchyInfo_v2 entry(entity gpu, entity gi, int compute) {
    const unsigned slices = (unsigned)number_of(gi, "slices"), computes = (unsigned)number_of(gi, "computes");
    const entity ci = { DCGM_FE_GPU_CI, DCGM_MAX_COMPUTE_INSTANCES_PER_GPU * gi.entityId + (unsigned)compute };
    return (dcgmMigHierarchyInfo_v2){
        .entity = compute >= 0 ? ci : gi,
        .parent = compute >= 0 ? gi : gpu,
        .info = { .nvmlGpuIndex = gpu.entityId,
                  .nvmlInstanceId = (unsigned)number_of(gi, "gi"),
                  .nvmlComputeInstanceId = (unsigned)compute,
                  .nvmlProfileSlices = compute >= 0 ? slices / computes : slices },
    };
}

dcgmReturn_t dcgmGetGpuInstanceHierarchy(dcgmHandle_t handle, dcgmMigHierarchy_v2 *out) {
    CHECK(dcgmMigHierarchy_version2);
    ENTER;
    fake_log("hierarchy");
    if (state_number("no_nvml"))
        return leave(DCGM_ST_NVML_NOT_LOADED);
    unsigned list[DCGM_GROUP_MAX_ENTITIES_V2];
    out->count = 0;
    for (int i = 0, n = list_of(DCGM_FE_GPU_I, list); i < n; i++) {
        const entity gi = { DCGM_FE_GPU_I, list[i] };
        for (int k = -1; !is_lost(gi) && k < number_of(gi, "computes") && out->count < DCGM_MAX_HIERARCHY_INFO; k++)
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
        return leave(exists(gpu) ? DCGM_ST_PROFILING_NOT_SUPPORTED : DCGM_ST_BADPARAM);
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
    if (version != dcgmNvLinkStatus_version4 && (version != links_version5 || !state_number("links36")))
        return leave(DCGM_ST_VER_MISMATCH);
    memset(words, 0, version & 0xffffff);
    words[0] = version;
    unsigned list[DCGM_GROUP_MAX_ENTITIES_V2];
    words[1] = (unsigned)numbers_at(list, DCGM_MAX_NUM_DEVICES, "list.%u", DCGM_FE_GPU);
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
    unsigned list[DCGM_MAX_NUM_DEVICES], status;
    *out = (dcgmNvLinkP2PStatus_v1){ dcgmNvLinkP2PStatus_version1, (unsigned)numbers_at(list, DCGM_MAX_NUM_DEVICES, "list.%u", DCGM_FE_GPU), { { 0 } } };
    for (unsigned i = 0; i < out->numGpus; i++) {
        out->gpus[i].entityId = list[i];
        for (unsigned k = 0; k < out->numGpus; k++)
            out->gpus[i].linkStatus[k] = numbers_at(&status, 1, "peer.%u.%u", list[i], list[k]) ? status : 0;
    }
    return leave(DCGM_ST_OK);
}
