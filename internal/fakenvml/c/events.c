/* Events, which are XIDs and changes of MIG, and GPM, the driver's profiling of Hopper and newer. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { XID_EVENT = nvmlEventTypeXidCriticalError, MIG_EVENT = nvmlEventMigConfigChange };

/* A set receives the XIDs of a GPU that follow its registration, and changes of its MIG mode or
 * instances. Once one of its GPUs is lost, the set returns the earlier events and then only that error,
 * as NVIDIA's own mock does (k8s-test-infra#746). Whether a real driver loses the other GPUs' events
 * too is not known. */
struct nvmlEventSet_st {
    bool lost;
    unsigned long long types[MAX_GPUS];
    int seen[MAX_GPUS];
    unsigned layout[MAX_GPUS]; /* as it last was */
};

/* The index-th XID of a GPU. "2/0" is the GPU instance and the compute instance that it is attributed
 * to. False if there is none. */
static bool xid_at(int gpu, int index, nvmlEventData_t *out) {
    const char *on = value_at("GPUs.%d.XIDs.%d.On", gpu, index);
    *out = (nvmlEventData_t){ { handle_of(gpu, -1, -1) }, XID_EVENT, (unsigned long long)number_at("GPUs.%d.XIDs.%d.Code", gpu, index), ~0u, ~0u };
    if (on)
        sscanf(on, "%u/%u", &out->gpuInstanceId, &out->computeInstanceId);
    return on != NULL;
}

/* A hash of the MIG mode of a GPU and of the MIG devices on it. */
static unsigned layout_of(int gpu) {
    unsigned hash = in_mig_mode(gpu);
    for (int i = 0; i < MAX_MIG_DEVICES; i++)
        for (const char *c = value_at("%s.UUID", handle_of(gpu, i / MAX_CI, i % MAX_CI)->at); c && *c; c++)
            hash = hash * 31 + (unsigned char)*c;
    return hash;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *out) {
    ENTER;
    out->handle = calloc(1, sizeof *out->handle);
    return NVML_SUCCESS;
}

/* Without a list of XIDs a GPU is too old for events. */
nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t of, unsigned long long *out)
    GIVE(has("GPUs.%d.XIDs", d->gpu) ? XID_EVENT | MIG_EVENT : 0)

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t of, unsigned long long types, nvmlEventSet_t into) {
    nvmlEventData_t e;
    struct nvmlEventSet_st *set = into.handle;
    ENTER_DEVICE(of);
    if ((types & ~(unsigned long long)(XID_EVENT | MIG_EVENT)) != 0 || !has("GPUs.%d.XIDs", d->gpu))
        return NVML_ERROR_NOT_SUPPORTED;
    set->types[d->gpu] |= types;
    set->layout[d->gpu] = layout_of(d->gpu);
    if (types & XID_EVENT)
        for (set->seen[d->gpu] = 0; xid_at(d->gpu, set->seen[d->gpu], &e);)
            set->seen[d->gpu]++;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t from, nvmlEventData_t *out, unsigned timeout) {
    struct nvmlEventSet_st *set = from.handle;
    for (unsigned waited = 0;; waited += 10, usleep(10000)) {
        ENTER;
        for (int i = 0; i < MAX_GPUS && !set->lost; i++) {
            if ((set->types[i] & XID_EVENT) && xid_at(i, set->seen[i], out)) {
                set->seen[i]++;
                return NVML_SUCCESS;
            }
            const unsigned layout = layout_of(i);
            if ((set->types[i] & MIG_EVENT) && layout != set->layout[i]) {
                set->layout[i] = layout;
                *out = (nvmlEventData_t){ { handle_of(i, -1, -1) }, MIG_EVENT, 0, ~0u, ~0u };
                return NVML_SUCCESS;
            }
        }
        for (int i = 0; i < MAX_GPUS; i++)
            set->lost = set->lost || (set->types[i] != 0 && number_at("GPUs.%d.Lost", i));
        if (set->lost || waited >= timeout)
            return set->lost ? NVML_ERROR_GPU_IS_LOST : NVML_ERROR_TIMEOUT;
    }
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
    ENTER;
    free(set.handle);
    return NVML_SUCCESS;
}

/* --- GPM ----------------------------------------------------------------- */

/* A sample is the handle that it was taken of. */
nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t of, nvmlGpmSupport_t *out)
    GIVE(((nvmlGpmSupport_t){ out->version, number_at("GPUs.%d.GPM", d->gpu) }))

nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *out) {
    out->handle = calloc(1, sizeof *out->handle);
    return out->handle ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t s) {
    free(s.handle);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t of, nvmlGpmSample_t s) {
    ENTER_DEVICE(of);
    *s.handle = *d;
    return in_mig_mode(d->gpu) ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t of, unsigned gi, nvmlGpmSample_t s) {
    ENTER_DEVICE(of);
    const handle *instance = gi < MAX_GI ? handle_of(d->gpu, (int)gi, -1) : NULL;
    if (instance == NULL || !has("%s", instance->at))
        return NVML_ERROR_NOT_FOUND;
    *s.handle = *instance;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *m) {
    ENTER_DEVICE(m->sample1);
    if (m->version != NVML_GPM_METRICS_GET_VERSION)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (memcmp(d, m->sample2.handle, sizeof *d) != 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; i < m->numMetrics; i++) {
        const char *v;
        m->metrics[i].nvmlReturn = (nvmlReturn_t)value_of(d, path("gpm.%u", m->metrics[i].metricId), &v);
        m->metrics[i].value = m->metrics[i].nvmlReturn == NVML_SUCCESS ? strtod(v, NULL) : 0;
    }
    return NVML_SUCCESS;
}
