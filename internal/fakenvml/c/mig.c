/* MIG: the mode, GPU instances, compute instances and MIG devices, which are compute instances seen as
 * devices. */
#include "fake.h"

#include <stdio.h>
#include <string.h>

/* --- profiles ------------------------------------------------------------ */

/* Multiprocessors of a compute slice of A100. */
enum { SLICE_SMS = 14 };

long long mib_of(int gpu, const profile *p) {
    const long long slices = number_at("GPUs.%d.Spec.MemorySlices", gpu);
    return number_at("GPUs.%d.MemoryMiB", gpu) * p->memory / (slices ? slices : 1);
}

/* The driver's own number of a profile, as nvidia-smi mig -lgip prints it, by NVML's index. The first row is
 * for products with four compute slices (A30, RTX PRO 6000), the second for those with seven (A100 to
 * GB300). */
static unsigned id_of(int gpu, const profile *p) {
    static const unsigned char ids[2][NVML_GPU_INSTANCE_PROFILE_COUNT] = {
        { 14, 5, 0, 0, [7] = 21, 6, [10] = 47, 35, 32, 67, 66, 65, 64 },
        { 19, 14, 9, 5, 0, [7] = 20, [9] = 15 },
    };
    return ids[number_at("GPUs.%d.Spec.ComputeSlices", gpu) == 7][profile_index(gpu, p)];
}

/* The profile with a number, of either kind. */
static bool profile_by(unsigned (*number)(int, const profile *), int gpu, unsigned is, profile *out) {
    for (int k = 0; profile_at(gpu, k, out); k++)
        if (number(gpu, out) == is)
            return true;
    return false;
}

/* Profiles and placements are known outside MIG mode too. */
nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t of, unsigned index, nvmlGpuInstanceProfileInfo_v2_t *out) {
    profile p;
    ENTER_DEVICE(of);
    if (out->version != nvmlGpuInstanceProfileInfo_v2 || index >= NVML_GPU_INSTANCE_PROFILE_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!profile_by(profile_index, d->gpu, index, &p))
        return NVML_ERROR_NOT_SUPPORTED;
    const unsigned slices = p.compute;
    *out = (nvmlGpuInstanceProfileInfo_v2_t){
        .version = out->version, .id = id_of(d->gpu, &p), .sliceCount = slices, .instanceCount = p.max, .multiprocessorCount = slices * SLICE_SMS,
        .copyEngineCount = slices, .decoderCount = p.media, .memorySizeMB = mib_of(d->gpu, &p),
    };
    return print(out->name, sizeof out->name, "MIG %s", p.name);
}

/* Version 1 has neither the version nor the name. */
nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t of, unsigned index, nvmlGpuInstanceProfileInfo_t *out) {
    nvmlGpuInstanceProfileInfo_v2_t v2 = { .version = nvmlGpuInstanceProfileInfo_v2 };
    const nvmlReturn_t code = nvmlDeviceGetGpuInstanceProfileInfoV(of, index, &v2);
    if (code == NVML_SUCCESS)
        *out = (nvmlGpuInstanceProfileInfo_t){ .id = v2.id, .sliceCount = v2.sliceCount, .instanceCount = v2.instanceCount,
            .multiprocessorCount = v2.multiprocessorCount, .copyEngineCount = v2.copyEngineCount, .decoderCount = v2.decoderCount, .memorySizeMB = v2.memorySizeMB };
    return code;
}

static bool start_at(int gpu, const profile *p, int i, int *start) {
    *start = (int)number_at("GPUs.%d.Spec.Profiles.%d.Starts.%d", gpu, p->k, i);
    return has("GPUs.%d.Spec.Profiles.%d.Starts.%d", gpu, p->k, i);
}

nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t of, unsigned id, nvmlGpuInstancePlacement_t *out, unsigned *count) {
    profile p;
    const unsigned capacity = *count;
    ENTER_DEVICE(of);
    if (!profile_by(id_of, d->gpu, id, &p))
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = 0;
    for (int start; start_at(d->gpu, &p, (int)*count, &start); (*count)++)
        if (out != NULL && *count < capacity)
            out[*count] = (nvmlGpuInstancePlacement_t){ start, p.memory };
    return NVML_SUCCESS;
}

/* --- the mode ------------------------------------------------------------ */

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t of, unsigned *current, unsigned *pending) {
    profile p;
    ENTER_DEVICE(of);
    *current = in_mig_mode(d->gpu);
    *pending = number_at("GPUs.%d.Pending", d->gpu);
    return d->gi >= 0 ? NVML_ERROR_INVALID_ARGUMENT : profile_at(d->gpu, 0, &p) ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

static bool has_process(const handle *h) {
    const char *v;
    return value_of(h, "compute", &v) == NVML_SUCCESS && *v != '\0';
}

/* Whether a GPU or an instance on it has a process. */
static bool busy(int gpu) {
    bool is = false;
    for (int gi = -1; gi < MAX_GI; gi++)
        is = is || has_process(handle_of(gpu, gi, -1));
    return is;
}

/* A change of the mode takes effect at once, as on Hopper and newer. */
nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t of, unsigned mode, nvmlReturn_t *activation) {
    profile p;
    ENTER_DEVICE(of);
    if (mode > 1 || !profile_at(d->gpu, 0, &p))
        return mode > 1 ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_SUPPORTED;
    for (int gi = 0; gi < MAX_GI && mode == 0; gi++)
        if (has("GPUs.%d.Instances.%d", d->gpu, gi))
            return NVML_ERROR_IN_USE;
    bool current = in_mig_mode(d->gpu);
    *activation = current != (mode == 1) && busy(d->gpu) ? NVML_ERROR_IN_USE : NVML_SUCCESS;
    if (*activation == NVML_SUCCESS)
        current = mode == 1;
    set(path("GPUs.%d.MIG", d->gpu), current ? "true" : "false");
    set(path("GPUs.%d.Pending", d->gpu), current ? "true" : "false");
    return commit() ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

/* --- GPU instances ------------------------------------------------------- */

static int start_of(int gpu, int gi) { return (int)number_at("GPUs.%d.Instances.%d.Placement.Start", gpu, gi); }

nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t of, unsigned id, nvmlGpuInstance_t *out, unsigned *count) {
    profile p;
    ENTER_DEVICE(of);
    if (!in_mig_mode(d->gpu))
        return NVML_ERROR_NOT_SUPPORTED;
    *count = 0;
    for (int gi = 0; gi < MAX_GI; gi++)
        if (instance_at(d->gpu, gi, &p) && id_of(d->gpu, &p) == id)
            out[(*count)++].handle = handle_of(d->gpu, gi, -1);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t of, unsigned id, nvmlGpuInstance_t *out) {
    ENTER_DEVICE(of);
    if (!in_mig_mode(d->gpu))
        return NVML_ERROR_NOT_SUPPORTED;
    out->handle = id < MAX_GI ? handle_of(d->gpu, (int)id, -1) : NULL;
    return out->handle && has("%s", out->handle->at) ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t of, nvmlGpuInstanceInfo_t *out) {
    profile p;
    ENTER_DEVICE(of);
    instance_at(d->gpu, d->gi, &p);
    *out = (nvmlGpuInstanceInfo_t){ { handle_of(d->gpu, -1, -1) }, d->gi, id_of(d->gpu, &p), { start_of(d->gpu, d->gi), p.memory } };
    return NVML_SUCCESS;
}

/* Returns NVML_SUCCESS if one more instance fits on a GPU at a start. */
static int fits(int gpu, const profile *p, int start) {
    int slices = p->compute, media = p->media, same = 1, at;
    bool may = false;
    profile q;
    for (int i = 0; start_at(gpu, p, i, &at); i++)
        may = may || at == start;
    if (!may)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (int gi = 0; gi < MAX_GI; gi++) {
        if (!instance_at(gpu, gi, &q))
            continue;
        at = start_of(gpu, gi);
        if (start < at + q.memory && at < start + p->memory)
            return NVML_ERROR_INSUFFICIENT_RESOURCES;
        slices += q.compute;
        media += q.media;
        same += q.k == p->k;
    }
    const bool full = slices > number_at("GPUs.%d.Spec.ComputeSlices", gpu) || media > number_at("GPUs.%d.Spec.MediaEngines", gpu) || same > p->max;
    return full ? NVML_ERROR_INSUFFICIENT_RESOURCES : NVML_SUCCESS;
}

/* The driver's ids of instances count the places of each size: 0 is the whole GPU, 1 and 2 are its halves, 3 to 6
 * its quarters, and so on. If an instance of the state has that id already, the next free one is taken. */
static int free_id(int gpu, const profile *p, int start) {
    int first = 0;
    for (long long size = p->memory, all = number_at("GPUs.%d.Spec.MemorySlices", gpu); size * 2 <= all; size *= 2)
        first = 2 * first + 1;
    first += start / p->memory;
    for (int k = 0; k < MAX_GI; k++)
        if (!has("GPUs.%d.Instances.%d", gpu, (first + k) % MAX_GI))
            return (first + k) % MAX_GI;
    return -1;
}

/* Where the driver places an instance by itself: at the free start that makes the fewest other free places,
 * of any profile, unusable; the first of several. -1 if no place is free. */
static int choose(int gpu, const profile *p) {
    int best = -1, least = 0;
    for (int i = 0, start; start_at(gpu, p, i, &start); i++) {
        int lost = 0;
        profile q;
        if (fits(gpu, p, start) != NVML_SUCCESS)
            continue;
        for (int k = 0; profile_at(gpu, k, &q); k++)
            for (int j = 0, at; start_at(gpu, &q, j, &at); j++)
                lost += at < start + p->memory && start < at + q.memory && fits(gpu, &q, at) == NVML_SUCCESS;
        if (best < 0 || lost < least) {
            best = start;
            least = lost;
        }
    }
    return best;
}

/* Makes an instance at a start; -1 lets the driver choose. */
static int create(const char *function, nvmlDevice_t of, unsigned id, int start, nvmlGpuInstance_t *out) {
    profile p;
    ENTER_AS(function, of);
    if (!in_mig_mode(d->gpu) || !profile_by(id_of, d->gpu, id, &p))
        return in_mig_mode(d->gpu) ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_SUPPORTED;
    if (start < 0 && (start = choose(d->gpu, &p)) < 0)
        return NVML_ERROR_INSUFFICIENT_RESOURCES;
    const int gi = free_id(d->gpu, &p, start);
    if ((code = fits(d->gpu, &p, start)) != NVML_SUCCESS || gi < 0)
        return code != NVML_SUCCESS ? code : NVML_ERROR_INSUFFICIENT_RESOURCES;
    out->handle = handle_of(d->gpu, gi, -1);
    add(path("%s.Instances", d->at), "{\"ID\":%d,\"Placement\":{\"Profile\":{\"Compute\":%d,\"Memory\":%d,\"Attrs\":%d},\"Start\":%d},\"Computes\":null}",
        gi, p.compute, p.memory, p.attrs, start);
    return commit() ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t of, unsigned id, nvmlGpuInstance_t *out) { return create(__func__, of, id, -1, out); }
nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t of, unsigned id, const nvmlGpuInstancePlacement_t *place, nvmlGpuInstance_t *out) {
    return create(__func__, of, id, (int)place->start, out);
}

nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t of) {
    ENTER_DEVICE(of);
    bool used = has_process(d);
    for (int ci = 0; ci < MAX_CI; ci++)
        used = used || mig_device(d->gpu, d->gi * MAX_CI + ci);
    if (used)
        return NVML_ERROR_IN_USE;
    drop(d->at);
    return commit() ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

/* --- compute instances --------------------------------------------------- */

/* Slices by NVML's number of the profile, which is also its id. 0: not supported here. */
static const int ci_slices[NVML_COMPUTE_INSTANCE_PROFILE_COUNT] = { 1, 2, 3, 4, 7, 8, 6 };

static unsigned ci_profile(int slices) {
    unsigned profile = 0;
    while (ci_slices[profile] != slices && profile < NVML_COMPUTE_INSTANCE_PROFILE_COUNT - 1)
        profile++;
    return profile;
}

static int ci_start(const handle *d, int ci) { return (int)number_at("GPUs.%d.Instances.%d.Computes.%d.Start", d->gpu, d->gi, ci); }

/* A compute instance has all slices of its GPU instance, or at most about half of them. */
static bool ci_fits(unsigned profile, int slices) {
    const int n = profile < NVML_COMPUTE_INSTANCE_PROFILE_COUNT ? ci_slices[profile] : 0;
    return n > 0 && (n == slices || 2 * n <= slices + 1) && n <= slices;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t of, unsigned index, unsigned engine, nvmlComputeInstanceProfileInfo_t *out) {
    profile p;
    ENTER_DEVICE(of);
    instance_at(d->gpu, d->gi, &p);
    if (index >= NVML_COMPUTE_INSTANCE_PROFILE_COUNT || engine != 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!ci_fits(index, p.compute))
        return NVML_ERROR_NOT_SUPPORTED;
    const int n = ci_slices[index];
    *out = (nvmlComputeInstanceProfileInfo_t){ index, n, (p.compute / n), (n * SLICE_SMS), p.compute, p.media, 0, 0, 0 };
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t of, unsigned id, nvmlComputeInstance_t *out, unsigned *count) {
    ENTER_DEVICE(of);
    *count = 0;
    for (int ci = 0, slices; ci < MAX_CI; ci++)
        if ((slices = compute_slices(d->gpu, d->gi, ci)) > 0 && ci_profile(slices) == id)
            out[(*count)++].handle = handle_of(d->gpu, d->gi, ci);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t of, unsigned id, nvmlComputeInstance_t *out) {
    ENTER_DEVICE(of);
    out->handle = id < MAX_CI ? mig_device(d->gpu, d->gi * MAX_CI + (int)id) : NULL;
    return out->handle ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t of, unsigned id, nvmlComputeInstance_t *out) {
    profile p;
    ENTER_DEVICE(of);
    instance_at(d->gpu, d->gi, &p);
    if (!ci_fits(id, p.compute))
        return NVML_ERROR_NOT_SUPPORTED;
    unsigned taken = 0, mask = (1u << ci_slices[id]) - 1;
    int free = -1, at = 0;
    for (int ci = MAX_CI - 1; ci >= 0; ci--) {
        const int slices = compute_slices(d->gpu, d->gi, ci);
        taken |= ((1u << slices) - 1) << ci_start(d, ci);
        free = slices ? free : ci;
    }
    while (at + ci_slices[id] <= p.compute && (taken & mask << at) != 0)
        at++;
    if (at + ci_slices[id] > p.compute || free < 0)
        return NVML_ERROR_INSUFFICIENT_RESOURCES;
    out->handle = handle_of(d->gpu, d->gi, free);
    /* The UUID is made of the place and of the number of the machine's changes so far. */
    add(path("%s.Computes", d->at), "{\"ID\":%d,\"UUID\":\"MIG-%08x-%04x-5%03x-a000-%012llx\",\"Start\":%d,\"Slices\":%d}",
        free, d->gpu, d->gi, free, number_at("Changes"), at, ci_slices[id] == p.compute ? 0 : ci_slices[id]);
    return commit() ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t of) {
    ENTER_DEVICE(of);
    if (has_process(d))
        return NVML_ERROR_IN_USE;
    drop(d->at);
    return commit() ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t of, nvmlComputeInstanceInfo_t *out) {
    ENTER_DEVICE(of);
    const int slices = compute_slices(d->gpu, d->gi, d->ci);
    *out = (nvmlComputeInstanceInfo_t){ { handle_of(d->gpu, -1, -1) }, { handle_of(d->gpu, d->gi, -1) }, d->ci, ci_profile(slices),
                                        { ci_start(d, d->ci), slices } };
    return NVML_SUCCESS;
}

/* Version 1, which DCGM calls, knows no placement. */
nvmlReturn_t nvmlComputeInstanceGetInfo(nvmlComputeInstance_t of, nvmlComputeInstanceInfo_t *out) {
    nvmlComputeInstanceInfo_t v2;
    const nvmlReturn_t code = nvmlComputeInstanceGetInfo_v2(of, &v2);
    if (code == NVML_SUCCESS)
        memcpy(out, &v2, offsetof(nvmlComputeInstanceInfo_t, placement));
    return code;
}

/* --- MIG devices --------------------------------------------------------- */

/* The number of compute slices; 0 outside MIG mode. */
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t of, unsigned *out) GIVE(in_mig_mode(d->gpu) ? number_at("GPUs.%d.Spec.ComputeSlices", d->gpu) : 0)
nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t of, unsigned *out) GIVE(d->ci >= 0)
nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t of, unsigned *out) GIVE_IF(d->ci >= 0, d->gi)
nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t of, unsigned *out) GIVE_IF(d->ci >= 0, d->ci)
nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t of, nvmlDevice_t *out)
    GIVE_IF(d->ci >= 0, ((nvmlDevice_t){ handle_of(d->gpu, -1, -1) }))

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t of, unsigned index, nvmlDevice_t *out) {
    ENTER_DEVICE(of);
    if (d->gi >= 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; i < MAX_MIG_DEVICES; i++)
        if ((out->handle = mig_device(d->gpu, i)) != NULL && index-- == 0)
            return NVML_SUCCESS;
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t of, nvmlDeviceAttributes_t *out) {
    profile p;
    ENTER_DEVICE(of);
    if (d->ci < 0)
        return NVML_ERROR_NOT_SUPPORTED;
    instance_at(d->gpu, d->gi, &p);
    const unsigned slices = compute_slices(d->gpu, d->gi, d->ci), of_gi = p.compute;
    *out = (nvmlDeviceAttributes_t){ .multiprocessorCount = slices * SLICE_SMS, .sharedCopyEngineCount = of_gi, .sharedDecoderCount = p.media,
                                     .gpuInstanceSliceCount = of_gi, .computeInstanceSliceCount = slices, .memorySizeMB = mib_of(d->gpu, &p) };
    return NVML_SUCCESS;
}

/* A MIG device is named "GPU MIG 3g.40gb" or, with some of the slices, "GPU MIG 1c.3g.40gb". */
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t of, char *out, unsigned capacity) {
    profile p;
    ENTER_DEVICE(of);
    const char *gpu = value_at("GPUs.%d.Name", d->gpu);
    const int slices = compute_slices(d->gpu, d->gi, d->ci);
    if (!instance_at(d->gpu, d->gi, &p))
        return print(out, capacity, "%s", gpu);
    return slices == p.compute ? print(out, capacity, "%s MIG %s", gpu, p.name) : print(out, capacity, "%s MIG %dc.%s", gpu, slices, p.name);
}
