/* Events, which are XIDs and changes of MIG, and GPM, the driver's profiling of Hopper and newer. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_SETS = 16, XID_EVENT = 8, MIG_EVENT = 0x100 };

/* A set receives what "gpu.0.xids" has behind the length it had when the GPU
 * was registered, and that the MIG mode or an instance is another. Once one of its GPUs is lost it says that, after what happened
 * before, and nothing else: that the others' events are lost too is a guess. */
typedef struct {
    bool used, lost;
    unsigned long long types[MAX_GPUS];
    int seen[MAX_GPUS];
    unsigned layout[MAX_GPUS]; /* as it last was */
} event_set;

static event_set sets[MAX_SETS];

typedef struct {
    handle *device;
    unsigned long long type, data;
    unsigned gi, ci;
} event_data;

/* The index-th of "13 79 31@2/0": the third is of compute instance 0 in GPU
 * instance 2. False where there is none. */
static bool xid_at(int gpu, int index, event_data *out) {
    const char *v;
    if (text_at(&v, "gpu.%d.xids", gpu) != OK)
        return false;
    for (; *v; v += strcspn(v, " "), v += strspn(v, " ")) {
        *out = (event_data){ gpu_handle(gpu), XID_EVENT, 0, ~0u, ~0u };
        if (sscanf(v, "%llu@%u/%u", &out->data, &out->gi, &out->ci) < 1)
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

EXPORT int nvmlEventSetCreate(event_set **out) {
    ENTER(enter());
    for (int i = 0; i < MAX_SETS; i++) {
        if (sets[i].used)
            continue;
        sets[i] = (event_set){ .used = true };
        *out = &sets[i];
        return leave(OK);
    }
    return leave(UNKNOWN);
}

/* Without the line "xids" a GPU is too old for events. */
EXPORT int nvmlDeviceGetSupportedEventTypes(handle *d, unsigned long long *out) {
    ENTER(enter_gpu(d));
    *out = has("gpu.%d.xids", d->gpu) ? XID_EVENT | MIG_EVENT : 0;
    return leave(OK);
}

EXPORT int nvmlDeviceRegisterEvents(handle *d, unsigned long long types, event_set *set) {
    event_data e;
    ENTER(enter_gpu(d));
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

EXPORT int nvmlEventSetWait_v2(event_set *set, event_data *out, unsigned timeout) {
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
                *out = (event_data){ gpu_handle(i), MIG_EVENT, 0, ~0u, ~0u };
                return leave(OK);
            }
        }
        for (int i = 0; i < MAX_GPUS; i++)
            set->lost = set->lost || (set->types[i] != 0 && has("gpu.%d.lost", i));
        leave(OK);
        if (set->lost)
            return LOST;
        if (waited >= timeout)
            return TIMEOUT;
        usleep(10000);
    }
}

EXPORT int nvmlEventSetFree(event_set *set) {
    ENTER(enter());
    set->used = false;
    return leave(OK);
}

/* --- GPM ----------------------------------------------------------------- */

typedef struct {
    handle *of;
} gpm_sample;

typedef struct {
    unsigned id, code;
    double value;
    const char *info[3];
} gpm_metric;

typedef struct {
    unsigned version, count;
    gpm_sample *first, *second;
    gpm_metric metrics[333];
} gpm_metrics;

EXPORT int nvmlGpmQueryDeviceSupport(handle *d, unsigned *out) {
    ENTER(enter_gpu(d));
    out[1] = has("gpu.%d.gpm", d->gpu);
    return leave(OK);
}

EXPORT int nvmlGpmSampleAlloc(gpm_sample **out) {
    *out = calloc(1, sizeof **out);
    return *out ? OK : UNKNOWN;
}

EXPORT int nvmlGpmSampleFree(gpm_sample *s) {
    free(s);
    return OK;
}

EXPORT int nvmlGpmSampleGet(handle *d, gpm_sample *s) {
    ENTER(enter_gpu(d));
    s->of = d;
    return leave(in_mig_mode(d->gpu) ? NOT_SUPPORTED : OK);
}

EXPORT int nvmlGpmMigSampleGet(handle *d, unsigned gi, gpm_sample *s) {
    ENTER(enter_gpu(d));
    if (gi >= MAX_GI || !has("gpu.%d.gi.%u.profile", d->gpu, gi))
        return leave(NOT_FOUND);
    s->of = gi_handle(d->gpu, (int)gi);
    return leave(OK);
}

EXPORT int nvmlGpmMetricsGet(gpm_metrics *m) {
    ENTER(enter_gpu(m->first ? m->first->of : NULL));
    if (m->version != 1)
        return leave(VERSION_MISMATCH);
    if (m->first->of != m->second->of)
        return leave(INVALID);
    for (unsigned i = 0; i < m->count; i++) {
        char name[32];
        const char *v;
        snprintf(name, sizeof name, "gpm.%u", m->metrics[i].id);
        m->metrics[i].code = (unsigned)value_of(m->first->of, name, &v);
        m->metrics[i].value = m->metrics[i].code == OK ? strtod(v, NULL) : 0;
    }
    return leave(OK);
}
