/* MIG: the mode, GPU instances, compute instances and MIG devices, which are
 * compute instances seen as devices. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How a change of the mode takes effect: at once, when all GPUs are idle (the
 * driver then resets them), or at a reboot. */
enum { AT_ONCE = 0, WITH_RESET = 1, WITH_REBOOT = 2 };

/* --- profiles ------------------------------------------------------------ */

/* Multiprocessors of a compute slice of A100. */
enum { SLICE_SMS = 14 };

/* What both versions have. */
#define PROFILE_INFO(p)                                                                                              \
    .id = (unsigned)p.id, .sliceCount = (unsigned)p.slices, .instanceCount = (unsigned)p.most,                       \
    .multiprocessorCount = (unsigned)p.slices * SLICE_SMS, .copyEngineCount = (unsigned)p.slices,                    \
    .decoderCount = (unsigned)p.media, .memorySizeMB = (unsigned long long)p.memory

/* Profiles and placements are known outside MIG mode too. */
nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t of, unsigned index, nvmlGpuInstanceProfileInfo_t *out) {
    profile p;
    ENTER_GPU(of);
    if (!profile_by_index(d->gpu, (int)index, &p))
        return leave(index < MAX_PROFILES ? NOT_SUPPORTED : INVALID);
    *out = (nvmlGpuInstanceProfileInfo_t){ PROFILE_INFO(p) };
    return leave(OK);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t of, unsigned index, nvmlGpuInstanceProfileInfo_v2_t *out) {
    profile p;
    ENTER_GPU(of);
    if (out->version != nvmlGpuInstanceProfileInfo_v2 || index >= MAX_PROFILES)
        return leave(INVALID);
    if (!profile_by_index(d->gpu, (int)index, &p))
        return leave(NOT_SUPPORTED);
    *out = (nvmlGpuInstanceProfileInfo_v2_t){ .version = out->version, PROFILE_INFO(p) };
    snprintf(out->name, sizeof out->name, "MIG %s", p.name);
    return leave(OK);
}

nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t of, unsigned id, nvmlGpuInstancePlacement_t *out, unsigned *count) {
    profile p;
    ENTER_GPU(of);
    if (!profile_by_id(d->gpu, (int)id, &p))
        return leave(INVALID);
    for (int i = 0; out != NULL && i < p.nstarts && i < (int)*count; i++)
        out[i] = (nvmlGpuInstancePlacement_t){ (unsigned)p.starts[i], (unsigned)p.size };
    *count = (unsigned)p.nstarts;
    return leave(OK);
}

/* --- the mode ------------------------------------------------------------ */

static int modes(int gpu, int *current, int *pending) {
    const char *v;
    int code = text_at(&v, "gpu.%d.mig", gpu);
    if (code == OK && sscanf(v, "%d %d", current, pending) != 2)
        code = UNKNOWN;
    return code;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t of, unsigned *current, unsigned *pending) {
    int is = 0, next = 0;
    ENTER_GPU(of);
    code = d->gi >= 0 ? INVALID : modes(d->gpu, &is, &next);
    *current = (unsigned)is;
    *pending = (unsigned)next;
    return leave(code);
}

static bool has_process(const handle *h) {
    const char *v;
    return value_of(h, "pid", &v) == OK || (value_of(h, "compute", &v) == OK && *v != '\0');
}

static bool busy(int gpu) {
    bool is = has_process(gpu_handle(gpu));
    for (int gi = 0; gi < MAX_GI; gi++)
        is = is || has_process(gi_handle(gpu, gi));
    return is;
}

static bool has_instances(int gpu) {
    bool is = false;
    for (int gi = 0; gi < MAX_GI; gi++)
        is = is || has("gpu.%d.gi.%d.profile", gpu, gi);
    return is;
}

nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t of, unsigned mode, nvmlReturn_t *activation) {
    int current, pending;
    unsigned long long how = AT_ONCE;
    char path[32];
    ENTER_CHANGE(of, "mode");
    if ((code = modes(d->gpu, &current, &pending)) != OK || mode > 1)
        return leave(code != OK ? code : INVALID);
    if (mode == 0 && has_instances(d->gpu))
        return leave(IN_USE);
    number(d, "mode_change", &how);
    bool in_use = busy(d->gpu);
    for (int i = 0; i < count_gpus() && how == WITH_RESET; i++)
        in_use = in_use || busy(i);
    *activation = NVML_SUCCESS;
    pending = (int)mode;
    if (current != pending && how == WITH_REBOOT)
        *activation = NVML_ERROR_RESET_REQUIRED;
    else if (current != pending && in_use)
        *activation = NVML_ERROR_IN_USE;
    else
        current = pending;
    if (*activation != NVML_SUCCESS && how == AT_ONCE)
        pending = current;
    snprintf(path, sizeof path, "gpu.%d.mig", d->gpu);
    return change(path, "%s %d %d\n", path, current, pending);
}

/* --- GPU instances ------------------------------------------------------- */

nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t of, unsigned id, nvmlGpuInstance_t *out, unsigned *count) {
    profile p;
    int start;
    ENTER_GPU(of);
    if (!in_mig_mode(d->gpu))
        return leave(NOT_SUPPORTED);
    *count = 0;
    for (int gi = 0; gi < MAX_GI; gi++)
        if (instance_at(d->gpu, gi, &p, &start) && p.id == (int)id)
            out[(*count)++].handle = gi_handle(d->gpu, gi);
    return leave(OK);
}

/* The line "instances" can refuse it: "!4" is no permission. */
nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t of, unsigned id, nvmlGpuInstance_t *out) {
    const char *v;
    ENTER_GPU(of);
    code = text_at(&v, "gpu.%d.instances", d->gpu);
    if (code != OK && v != NULL)
        return leave(code);
    if (!in_mig_mode(d->gpu))
        return leave(NOT_SUPPORTED);
    if (id >= MAX_GI || !has("gpu.%d.gi.%u.profile", d->gpu, id))
        return leave(NOT_FOUND);
    out->handle = gi_handle(d->gpu, (int)id);
    return leave(OK);
}

nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t of, nvmlGpuInstanceInfo_t *out) {
    profile p;
    int start = 0;
    ENTER_GPU(of);
    if (!instance_at(d->gpu, d->gi, &p, &start))
        return leave(INVALID);
    *out = (nvmlGpuInstanceInfo_t){ { gpu_handle(d->gpu) }, (unsigned)d->gi, (unsigned)p.id, { (unsigned)start, (unsigned)p.size } };
    return leave(OK);
}

/* Returns OK if one more instance fits a GPU at a start. */
static int fits(int gpu, const profile *p, int start) {
    bool may = false;
    for (int i = 0; i < p->nstarts; i++)
        may = may || p->starts[i] == start;
    if (!may)
        return INVALID;
    unsigned long long most[2] = { 0 };
    int slices = p->slices, media = p->media, same = 1, at;
    profile q;
    numbers(gpu_handle(gpu), "slices", most, 2);
    for (int gi = 0; gi < MAX_GI; gi++) {
        if (!instance_at(gpu, gi, &q, &at))
            continue;
        if (start < at + q.size && at < start + p->size)
            return INSUFFICIENT;
        slices += q.slices;
        media += q.media;
        same += q.id == p->id;
    }
    return slices > (int)most[0] || media > (int)most[1] || same > p->most ? INSUFFICIENT : OK;
}

/* The driver's ids count the places of each size: 0 is the whole GPU, 1 and 2
 * are its halves, 3 to 6 its quarters, and so on. */
static int free_id(int gpu, const profile *p) {
    int slices = 1, first = 0;
    profile q;
    for (int i = 0; i < MAX_PROFILES; i++)
        if (profile_by_index(gpu, i, &q) && q.size > slices)
            slices = q.size;
    for (int size = p->size; size * 2 <= slices; size *= 2)
        first = 2 * first + 1;
    for (int k = 0; k < MAX_GI; k++)
        if (!has("gpu.%d.gi.%d.profile", gpu, (first + k) % MAX_GI))
            return (first + k) % MAX_GI;
    return -1;
}

/* Makes an instance at a start or, with -1, at the first place that is free. */
static int create(nvmlDevice_t of, unsigned id, int start, nvmlGpuInstance_t *out) {
    profile p;
    ENTER_CHANGE(of, "create");
    if (!in_mig_mode(d->gpu) || !profile_by_id(d->gpu, (int)id, &p))
        return leave(in_mig_mode(d->gpu) ? INVALID : NOT_SUPPORTED);
    code = start < 0 ? INSUFFICIENT : fits(d->gpu, &p, start);
    for (int i = 0; start < 0 && i < p.nstarts; i++)
        if ((code = fits(d->gpu, &p, p.starts[i])) == OK)
            start = p.starts[i];
    int gi = free_id(d->gpu, &p);
    if (code != OK || gi < 0)
        return leave(code != OK ? code : INSUFFICIENT);
    out->handle = gi_handle(d->gpu, gi);
    return change("\n", "gpu.%d.gi.%d.profile %d %d\n", d->gpu, gi, p.id, start);
}

nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t of, unsigned id, nvmlGpuInstance_t *out) { return create(of, id, -1, out); }
nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t of, unsigned id, const nvmlGpuInstancePlacement_t *place, nvmlGpuInstance_t *out) {
    return create(of, id, (int)place->start, out);
}

nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t of) {
    char path[32];
    ENTER_CHANGE(of, "destroy");
    bool used = has_process(d);
    for (int ci = 0; ci < MAX_CI; ci++)
        used = used || has("gpu.%d.gi.%d.ci.%d.uuid", d->gpu, d->gi, ci);
    if (used)
        return leave(IN_USE);
    snprintf(path, sizeof path, "gpu.%d.gi.%d", d->gpu, d->gi);
    return change(path, "%s", "");
}

/* --- compute instances --------------------------------------------------- */

enum { CI_PROFILES = 9 };

/* By NVML's number of the profile, which is also its id; 0 is none of ours. */
static const int ci_slices[CI_PROFILES] = { 1, 2, 3, 4, 7, 8, 6, 0, 0 };

/* A compute instance has all slices of its GPU instance, or about half of them
 * or fewer. */
static bool ci_fits(int profile, int slices) {
    int n = profile < CI_PROFILES ? ci_slices[profile] : 0;
    return n > 0 && (n == slices || 2 * n <= slices + 1) && n <= slices;
}

static bool ci_at(const handle *h, int ci, int *profile, int *start) {
    const char *v;
    return text_at(&v, "gpu.%d.gi.%d.ci.%d.profile", h->gpu, h->gi, ci) == OK && sscanf(v, "%d %d", profile, start) == 2;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t of, unsigned index, unsigned engine, nvmlComputeInstanceProfileInfo_t *out) {
    profile p;
    int start;
    ENTER_GPU(of);
    if (index >= CI_PROFILES || engine != 0 || !instance_at(d->gpu, d->gi, &p, &start))
        return leave(INVALID);
    if (!ci_fits((int)index, p.slices))
        return leave(NOT_SUPPORTED);
    int n = ci_slices[index];
    *out = (nvmlComputeInstanceProfileInfo_t){ index, (unsigned)n, (unsigned)(p.slices / n), (unsigned)(n * SLICE_SMS), (unsigned)p.slices, (unsigned)p.media, 0, 0, 0 };
    return leave(OK);
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t of, unsigned id, nvmlComputeInstance_t *out, unsigned *count) {
    int profile, start;
    ENTER_GPU(of);
    *count = 0;
    for (int ci = 0; ci < MAX_CI; ci++)
        if (ci_at(d, ci, &profile, &start) && profile == (int)id)
            out[(*count)++].handle = ci_handle(d->gpu, d->gi, ci);
    return leave(OK);
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t of, unsigned id, nvmlComputeInstance_t *out) {
    ENTER_GPU(of);
    if (id >= MAX_CI || !has("gpu.%d.gi.%d.ci.%u.uuid", d->gpu, d->gi, id))
        return leave(NOT_FOUND);
    out->handle = ci_handle(d->gpu, d->gi, (int)id);
    return leave(OK);
}

/* A new UUID of each MIG device: FNV-1a of where and when it was made. */
static void new_uuid(char out[48], const handle *h, int ci) {
    char seed[160];
    const char *gpu, *changes;
    if (text_at(&gpu, "gpu.%d.uuid", h->gpu) != OK)
        gpu = "";
    if (text_at(&changes, "changes") != OK)
        changes = "";
    snprintf(seed, sizeof seed, "%s/%d/%d/%s", gpu, h->gi, ci, changes);
    unsigned long long hash[2] = { 0xcbf29ce484222325ull, 0x84222325cbf29ce4ull };
    for (const char *p = seed; *p; p++)
        for (int i = 0; i < 2; i++)
            hash[i] = (hash[i] ^ (unsigned char)*p) * 0x100000001b3ull;
    snprintf(out, 48, "MIG-%08x-%04x-5%03x-a%03x-%012llx", (unsigned)(hash[0] >> 32), (unsigned)(hash[0] >> 16 & 0xffff),
             (unsigned)(hash[0] & 0xfff), (unsigned)(hash[1] >> 52), hash[1] & 0xffffffffffffull);
}

nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t of, unsigned id, nvmlComputeInstance_t *out) {
    profile p;
    int start, other, at = 0, ci = 0;
    unsigned taken = 0;
    ENTER_CHANGE(of, "create-compute");
    if (!instance_at(d->gpu, d->gi, &p, &start) || !ci_fits((int)id, p.slices))
        return leave(NOT_SUPPORTED);
    for (int i = 0; i < MAX_CI; i++)
        if (ci_at(d, i, &other, &at))
            taken |= ((1u << ci_slices[other]) - 1) << at;
    unsigned mask = (1u << ci_slices[id]) - 1;
    for (at = 0; at + ci_slices[id] <= p.slices && (taken & mask << at) != 0; at++) {
    }
    while (ci < MAX_CI && has("gpu.%d.gi.%d.ci.%d.uuid", d->gpu, d->gi, ci))
        ci++;
    if (at + ci_slices[id] > p.slices || ci == MAX_CI)
        return leave(INSUFFICIENT);
    char uuid[48], path[48];
    new_uuid(uuid, d, ci);
    snprintf(path, sizeof path, "gpu.%d.gi.%d.ci.%d", d->gpu, d->gi, ci);
    out->handle = ci_handle(d->gpu, d->gi, ci);
    return change("\n", "%s.uuid %s\n%s.profile %u %d\n", path, uuid, path, id, at);
}

nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t of) {
    char path[48];
    ENTER_CHANGE(of, "destroy-compute");
    if (has_process(gi_handle(d->gpu, d->gi)))
        return leave(IN_USE);
    snprintf(path, sizeof path, "gpu.%d.gi.%d.ci.%d", d->gpu, d->gi, d->ci);
    return change(path, "%s", "");
}

/* Version 1, which DCGM calls, knows no placement. */
static int compute_info_of(handle *h, void *out, size_t size) {
    int profile, start;
    ENTER(enter_gpu(h));
    if (!ci_at(h, h->ci, &profile, &start))
        return leave(INVALID);
    nvmlComputeInstanceInfo_t info = { { gpu_handle(h->gpu) }, { gi_handle(h->gpu, h->gi) }, (unsigned)h->ci, (unsigned)profile,
                          { (unsigned)start, (unsigned)ci_slices[profile] } };
    memcpy(out, &info, size);
    return leave(OK);
}

nvmlReturn_t nvmlComputeInstanceGetInfo(nvmlComputeInstance_t of, nvmlComputeInstanceInfo_t *out) { return compute_info_of(of.handle, out, offsetof(nvmlComputeInstanceInfo_t, placement)); }
nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t of, nvmlComputeInstanceInfo_t *out) { return compute_info_of(of.handle, out, sizeof *out); }

/* --- MIG devices --------------------------------------------------------- */

/* As many as there are compute slices; none outside MIG mode. */
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t of, unsigned *out) {
    unsigned long long n = 0;
    ENTER_GPU(of);
    if (in_mig_mode(d->gpu))
        number(d, "slices", &n);
    *out = (unsigned)n;
    return leave(OK);
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t of, unsigned index, nvmlDevice_t *out) {
    ENTER_GPU(of);
    if (d->gi >= 0)
        return leave(INVALID);
    for (int gi = 0; gi < MAX_GI; gi++)
        for (int ci = 0; ci < MAX_CI; ci++)
            if (has("gpu.%d.gi.%d.ci.%d.uuid", d->gpu, gi, ci) && index-- == 0) {
                out->handle = mig_handle(d->gpu, gi, ci);
                return leave(OK);
            }
    return leave(NOT_FOUND);
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t of, unsigned *out) {
    ENTER_GPU(of);
    *out = d->ci >= 0;
    return leave(OK);
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t of, nvmlDevice_t *out) {
    ENTER_GPU(of);
    out->handle = gpu_handle(d->gpu);
    return leave(d->ci >= 0 ? OK : INVALID);
}

static int own_id(handle *d, int id, unsigned *out) {
    ENTER(enter_gpu(d));
    *out = (unsigned)id;
    return leave(d->ci >= 0 ? OK : INVALID);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t of, unsigned *out) { return own_id(of.handle, of.handle ? of.handle->gi : 0, out); }
nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t of, unsigned *out) { return own_id(of.handle, of.handle ? of.handle->ci : 0, out); }

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t of, nvmlDeviceAttributes_t *out) {
    profile p;
    int start, at, kind;
    ENTER_GPU(of);
    if (d->ci < 0 || !instance_at(d->gpu, d->gi, &p, &start) || !ci_at(d, d->ci, &kind, &at))
        return leave(d->ci < 0 ? NOT_SUPPORTED : INVALID);
    *out = (nvmlDeviceAttributes_t){ .multiprocessorCount = (unsigned)(ci_slices[kind] * SLICE_SMS), .sharedCopyEngineCount = (unsigned)p.slices, .sharedDecoderCount = (unsigned)p.media,
                         .gpuInstanceSliceCount = (unsigned)p.slices, .computeInstanceSliceCount = (unsigned)ci_slices[kind], .memorySizeMB = (unsigned long long)p.memory };
    return leave(OK);
}

/* A MIG device is named "GPU MIG 3g.40gb" or, with some of the slices, "GPU MIG
 * 1c.3g.40gb". */
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t of, char *out, unsigned capacity) {
    const char *v;
    profile p;
    int start, at, kind;
    char name[192];
    ENTER_GPU(of);
    if ((code = text_at(&v, "gpu.%d.name", d->gpu)) != OK)
        return leave(code);
    if (d->ci < 0)
        return leave(copy(out, capacity, v));
    if (!instance_at(d->gpu, d->gi, &p, &start) || !ci_at(d, d->ci, &kind, &at))
        return leave(INVALID);
    if (ci_slices[kind] == p.slices)
        snprintf(name, sizeof name, "%s MIG %s", v, p.name);
    else
        snprintf(name, sizeof name, "%s MIG %dc.%s", v, ci_slices[kind], p.name);
    return leave(copy(out, capacity, name));
}
