/* What there is. */
#include "fake.h"

#include <stdio.h>
#include <string.h>

EXPORT status_t dcgmGetEntityGroupEntities(handle_t handle, unsigned int kind, unsigned int *list, int *count,
                                           unsigned int flags) {
    if (list == NULL || count == NULL || *count < MAX_ENTITIES || flags != 0)
        return ST_BADPARAM;
    ENTER(dcgmGetEntityGroupEntities);
    const bool of_driver = kind == FE_GPU || kind == FE_GPU_I || kind == FE_GPU_CI;
    *count = of_driver && state_number("no_nvml") ? 0 : numbers_at(list, MAX_ENTITIES, "list.%u", kind);
    return leave(ST_OK);
}

EXPORT status_t dcgmGetGpuStatus(handle_t handle, unsigned int gpu, int *status) {
    if (status == NULL)
        return ST_BADPARAM;
    ENTER(dcgmGetGpuStatus);
    const entity_t e = { FE_GPU, gpu };
    *status = number_of(e, "detached") != 0 ? ENTITY_DETACHED : is_lost(e) ? ENTITY_LOST : ENTITY_OK;
    return leave(exists(e) ? ST_OK : ST_BADPARAM);
}

/* Copies one text value of a GPU; a lost GPU gives blanks. */
static void attribute(entity_t gpu, unsigned short field, char *out) {
    sample v;
    sample_live(gpu, field, &v);
    snprintf(out, STR_LEN, "%s", v.value.str);
}

EXPORT status_t dcgmGetDeviceAttributes(handle_t handle, unsigned int gpu, attributes_v3 *out) {
    CHECK(attributes_v3, 3);
    ENTER(dcgmGetDeviceAttributes);
    const entity_t e = { FE_GPU, gpu };
    if (state_number("no_nvml") || !exists(e))
        return leave(exists(e) ? ST_NVML_NOT_LOADED : ST_BADPARAM);
    *out = (attributes_v3){ .version = VERSION(attributes_v3, 3) };
    attribute(e, 1, out->identifiers.driver_version);
    attribute(e, 50, out->identifiers.name);
    attribute(e, 54, out->identifiers.uuid);
    attribute(e, 57, out->identifiers.pci_bus_id);
    return leave(ST_OK);
}

/* compute is -1 for the GPU instance itself. */
static hierarchy_entry entry(entity_t gpu, entity_t gi, int compute) {
    const unsigned slices = (unsigned)number_of(gi, "slices"), computes = (unsigned)number_of(gi, "computes");
    hierarchy_entry e = {
        .entity = compute >= 0 ? (entity_t){ FE_GPU_CI, 8 * gi.id + (unsigned)compute } : gi,
        .parent = compute >= 0 ? gi : gpu,
        .nvml_index = gpu.id,
        .nvml_gi = (unsigned)number_of(gi, "gi"),
        .nvml_ci = (unsigned)compute,
        .slices = compute >= 0 ? slices / computes : slices,
    };
    snprintf(e.gpu_uuid, sizeof e.gpu_uuid, "%s", value_at("1.%u.uuid", gpu.id));
    return e;
}

EXPORT status_t dcgmGetGpuInstanceHierarchy(handle_t handle, hierarchy_v2 *out) {
    CHECK(hierarchy_v2, 2);
    ENTER(dcgmGetGpuInstanceHierarchy);
    fake_log("hierarchy");
    if (state_number("no_nvml"))
        return leave(ST_NVML_NOT_LOADED);
    unsigned list[MAX_ENTITIES];
    out->count = 0;
    for (int i = 0, n = numbers_at(list, MAX_ENTITIES, "list.%u", FE_GPU_I); i < n; i++) {
        const entity_t gi = { FE_GPU_I, list[i] };
        for (int k = -1; !is_lost(gi) && k < number_of(gi, "computes") && out->count < MAX_HIERARCHY; k++)
            out->list[out->count++] = entry(gpu_of(gi), gi, k);
    }
    return leave(ST_OK);
}

EXPORT status_t dcgmProfGetSupportedMetricGroups(handle_t handle, prof_groups_v3 *out) {
    CHECK(prof_groups_v3, 3);
    ENTER(dcgmProfGetSupportedMetricGroups);
    const entity_t gpu = { FE_GPU, out->gpu };
    unsigned fields[MAX_PROFILED];
    int n = profiled_fields(gpu, fields);
    if (n == 0)
        return leave(exists(gpu) ? ST_PROFILING_NOT_SUPPORTED : ST_BADPARAM);
    memset(&out->groups, 0, sizeof out->groups);
    out->count = 1;
    out->groups[0].count = (unsigned)n;
    for (int i = 0; i < n; i++)
        out->groups[0].fields[i] = (unsigned short)fields[i];
    return leave(ST_OK);
}

EXPORT status_t dcgmGetCpuHierarchy(handle_t handle, cpu_hierarchy_v1 *out) {
    CHECK(cpu_hierarchy_v1, 1);
    ENTER(dcgmGetCpuHierarchy);
    *out = (cpu_hierarchy_v1){ .version = VERSION(cpu_hierarchy_v1, 1) };
    unsigned list[8], cores[2];
    for (int i = 0, n = numbers_at(list, 8, "list.%u", FE_CPU); i < n && numbers_at(cores, 2, "%u.%u.cores", FE_CPU, list[i]) == 2; i++) {
        out->cpus[out->count].cpu = list[i];
        for (unsigned core = cores[0]; core <= cores[1]; core++)
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
    if (version != LINKS_VERSION(4, 18) && (version != LINKS_VERSION(5, 36) || !state_number("links36")))
        return leave(ST_VER_MISMATCH);
    memset(words, 0, version & 0xffffff);
    words[0] = version;
    unsigned list[MAX_ENTITIES], link[4]; /* kind of its parent, parent, index, whether it is up */
    words[1] = (unsigned)numbers_at(list, MAX_DEVICES, "list.%u", FE_GPU);
    unsigned *gpus = words + 2, *switches = gpus + MAX_DEVICES * (1 + links);
    for (unsigned i = 0; i < words[1]; i++)
        gpus[i * (1 + (unsigned)links)] = list[i];
    *switches = (unsigned)numbers_at(list, MAX_SWITCHES, "list.%u", FE_SWITCH);
    for (unsigned i = 0; i < *switches; i++)
        switches[1 + i * (1 + LINKS_PER_SWITCH)] = list[i];
    for (int i = 0, n = numbers_at(list, MAX_ENTITIES, "list.%u", FE_LINK); i < n && numbers_at(link, 4, "%u.%u.link", FE_LINK, list[i]) == 4; i++) {
        const bool at_gpu = link[0] == FE_GPU;
        const unsigned per = at_gpu ? (unsigned)links : LINKS_PER_SWITCH, parents = at_gpu ? words[1] : *switches;
        unsigned *table = at_gpu ? gpus : switches + 1;
        for (unsigned k = 0; link[2] < per && k < parents; k++)
            if (table[k * (1 + per)] == link[1])
                table[k * (1 + per) + 1 + link[2]] = link[3] ? LINK_UP : LINK_DOWN;
    }
    return leave(ST_OK);
}

EXPORT status_t dcgmGetNvLinkP2PStatus(handle_t handle, p2p_status_v1 *out) {
    CHECK(p2p_status_v1, 1);
    ENTER(dcgmGetNvLinkP2PStatus);
    unsigned list[MAX_DEVICES], status;
    *out = (p2p_status_v1){ .version = VERSION(p2p_status_v1, 1), .gpus = (unsigned)numbers_at(list, MAX_DEVICES, "list.%u", FE_GPU) };
    for (unsigned i = 0; i < out->gpus; i++) {
        out->gpu[i].id = list[i];
        for (unsigned k = 0; k < out->gpus; k++)
            out->gpu[i].status[k] = numbers_at(&status, 1, "peer.%u.%u", list[i], list[k]) ? (int)status : 0;
    }
    return leave(ST_OK);
}
