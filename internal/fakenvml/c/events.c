/* Events, which are XIDs and changes of MIG, and GPM, the driver's profiling of Hopper and newer. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_SETS = 16, XID_EVENT = nvmlEventTypeXidCriticalError, MIG_EVENT = nvmlEventMigConfigChange };

/* A set receives what "gpu.0.xids" has behind the length it had when the GPU
 * was registered, and that the MIG mode or an instance is another. Once one of its GPUs is lost it says that, after what happened
 * before, and nothing else: that the others' events are lost too is a guess. */
struct nvmlEventSet_st {
    bool used, lost;
    unsigned long long types[MAX_GPUS];
    int seen[MAX_GPUS];
    unsigned layout[MAX_GPUS]; /* as it last was */
};

static struct nvmlEventSet_st sets[MAX_SETS];

/* The index-th of "13 79 31@2/0": the third is of compute instance 0 in GPU
 * instance 2. False where there is none. */
static bool xid_at(int gpu, int index, nvmlEventData_t *out) {
    const char *v;
    if (text_at(&v, "gpu.%d.xids", gpu) != OK)
        return false;
    for (; *v; v += strcspn(v, " "), v += strspn(v, " ")) {
        *out = (nvmlEventData_t){ { gpu_handle(gpu) }, XID_EVENT, 0, ~0u, ~0u };
        if (sscanf(v, "%llu@%u/%u", &out->eventData, &out->gpuInstanceId, &out->computeInstanceId) < 1)
            return false;
        if (index-- == 0)
            return true;
    }
    return false;
}

/* A hash of the MIG mode of a GPU and of the MIG devices on it. */
static unsigned layout_of(int gpu) {
    char mode[32], instances[32];
    size_t count;
    const line *all = lines_all(&count);
    unsigned hash = 0;
    snprintf(mode, sizeof mode, "gpu.%d.mig", gpu);
    snprintf(instances, sizeof instances, "gpu.%d.gi.", gpu);
    for (size_t i = 0; i < count; i++)
        if (strcmp(all[i].path, mode) == 0 || (strncmp(all[i].path, instances, strlen(instances)) == 0 && strstr(all[i].path, ".uuid")))
            for (const char *c = all[i].value; *c; c++)
                hash = hash * 31 + (unsigned char)*c;
    return hash;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *out) {
    ENTER(enter());
    for (int i = 0; i < MAX_SETS; i++) {
        if (sets[i].used)
            continue;
        sets[i] = (struct nvmlEventSet_st){ .used = true };
        out->handle = &sets[i];
        return leave(OK);
    }
    return leave(UNKNOWN);
}

/* Without the line "xids" a GPU is too old for events. */
nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t of, unsigned long long *out) {
    ENTER_GPU(of);
    *out = has("gpu.%d.xids", d->gpu) ? XID_EVENT | MIG_EVENT : 0;
    return leave(OK);
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t of, unsigned long long types, nvmlEventSet_t into) {
    nvmlEventData_t e;
    struct nvmlEventSet_st *set = into.handle;
    ENTER_GPU(of);
    if ((types & ~(unsigned long long)(XID_EVENT | MIG_EVENT)) != 0 || !has("gpu.%d.xids", d->gpu))
        return leave(NOT_SUPPORTED);
    set->types[d->gpu] |= types;
    set->layout[d->gpu] = layout_of(d->gpu);
    if (!(types & XID_EVENT))
        return leave(OK);
    for (set->seen[d->gpu] = 0; xid_at(d->gpu, set->seen[d->gpu], &e); set->seen[d->gpu]++) {
    }
    return leave(OK);
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t from, nvmlEventData_t *out, unsigned timeout) {
    struct nvmlEventSet_st *set = from.handle;
    for (unsigned waited = 0;; waited += 10) {
        int code = enter();
        if (code != OK)
            return code;
        for (int i = 0; i < MAX_GPUS; i++) {
            if (set->lost || set->types[i] == 0)
                continue;
            if ((set->types[i] & XID_EVENT) && xid_at(i, set->seen[i], out)) {
                set->seen[i]++;
                return leave(OK);
            }
            const unsigned layout = layout_of(i);
            if ((set->types[i] & MIG_EVENT) && layout != set->layout[i]) {
                set->layout[i] = layout;
                *out = (nvmlEventData_t){ { gpu_handle(i) }, MIG_EVENT, 0, ~0u, ~0u };
                return leave(OK);
            }
        }
        for (int i = 0; i < MAX_GPUS; i++)
            set->lost = set->lost || (set->types[i] != 0 && has("gpu.%d.lost", i));
        leave(OK);
        if (set->lost)
            return NVML_ERROR_GPU_IS_LOST;
        if (waited >= timeout)
            return NVML_ERROR_TIMEOUT;
        usleep(10000);
    }
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
    ENTER(enter());
    set.handle->used = false;
    return leave(OK);
}

/* --- GPM ----------------------------------------------------------------- */

struct nvmlGpmSample_st {
    handle *of;
};

nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t of, nvmlGpmSupport_t *out) {
    ENTER_GPU(of);
    out->isSupportedDevice = has("gpu.%d.gpm", d->gpu);
    return leave(OK);
}

nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *out) {
    out->handle = calloc(1, sizeof *out->handle);
    return out->handle ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t s) {
    free(s.handle);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t of, nvmlGpmSample_t s) {
    ENTER_GPU(of);
    s.handle->of = d;
    return leave(in_mig_mode(d->gpu) ? NOT_SUPPORTED : OK);
}

nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t of, unsigned gi, nvmlGpmSample_t s) {
    ENTER_GPU(of);
    if (gi >= MAX_GI || !has("gpu.%d.gi.%u.profile", d->gpu, gi))
        return leave(NOT_FOUND);
    s.handle->of = gi_handle(d->gpu, (int)gi);
    return leave(OK);
}

nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *m) {
    const handle *of = m->sample1.handle ? m->sample1.handle->of : NULL;
    ENTER(enter_gpu(of));
    if (m->version != NVML_GPM_METRICS_GET_VERSION)
        return leave(VERSION_MISMATCH);
    if (of != m->sample2.handle->of)
        return leave(INVALID);
    for (unsigned i = 0; i < m->numMetrics; i++) {
        char name[32];
        const char *v;
        snprintf(name, sizeof name, "gpm.%u", m->metrics[i].metricId);
        m->metrics[i].nvmlReturn = value_of(of, name, &v);
        m->metrics[i].value = m->metrics[i].nvmlReturn == NVML_SUCCESS ? strtod(v, NULL) : 0;
    }
    return leave(OK);
}
