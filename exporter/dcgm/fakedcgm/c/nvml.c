/* A fake of the few calls of libnvidia-ml.so.1 that the exporter makes: where
 * on its GPU a MIG instance is, which DCGM does not report. It reads the same
 * state file. Handles are pointers into tables of this library. */
#include "abi.h"
#include "state.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { NVML_OK = 0, NVML_UNINITIALIZED = 1, NVML_INVALID = 2, NVML_NOT_FOUND = 6, NVML_LOST = 15, NVML_UNKNOWN = 999 };

/* A handle remembers ids, so that it survives a change of the state. */
typedef struct {
    int GPU, instance; /* driver index; GPU instance id or -1 */
} device;

typedef struct {
    device *device;
    unsigned int id, profile;
    struct {
        unsigned int start, size;
    } placement;
} instance_info;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int users;
static device GPUs[MAX_GPUS], instances[MAX_GPUS][MAX_INSTANCES];

static int leave(int result) {
    pthread_mutex_unlock(&lock);
    return result;
}

/* Takes the lock and gives the state; leave() gives the lock back. */
static int enter(const state **s) {
    pthread_mutex_lock(&lock);
    if (users == 0)
        return leave(NVML_UNINITIALIZED);
    *s = state_current();
    return *s ? NVML_OK : leave(NVML_UNKNOWN);
}

static const GPU *gpu_of(const state *s, const device *d) {
    for (int i = 0; d && i < s->GPUs; i++)
        if (s->GPU[i].index == d->GPU)
            return &s->GPU[i];
    return NULL;
}

static const instance *instance_of(const GPU *c, int id) {
    for (int k = 0; c && k < c->instances; k++)
        if (c->instance[k].id == id)
            return &c->instance[k];
    return NULL;
}

static int put_text(char *out, unsigned int capacity, const char *text) {
    return snprintf(out, capacity, "%s", text) < (int)capacity ? NVML_OK : NVML_INVALID;
}

EXPORT int nvmlInit_v2(void) {
    pthread_mutex_lock(&lock);
    users++;
    return leave(NVML_OK);
}

EXPORT int nvmlShutdown(void) {
    pthread_mutex_lock(&lock);
    if (users == 0)
        return leave(NVML_UNINITIALIZED);
    users--;
    return leave(NVML_OK);
}

EXPORT const char *nvmlErrorString(int code) {
    return code == NVML_OK ? "Success" : "fakedcgm NVML error";
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, device **out) {
    const state *s;
    int st = enter(&s);
    if (st != NVML_OK)
        return st;
    for (int i = 0; i < s->GPUs; i++) {
        if (strcmp(s->GPU[i].uuid, uuid) != 0)
            continue;
        if (s->GPU[i].lost)
            return leave(NVML_LOST);
        GPUs[i] = (device){ s->GPU[i].index, -1 };
        *out = &GPUs[i];
        return leave(NVML_OK);
    }
    return leave(NVML_NOT_FOUND);
}

EXPORT int nvmlDeviceGetGpuInstanceById(device *d, unsigned int id, device **out) {
    const state *s;
    int st = enter(&s);
    if (st != NVML_OK)
        return st;
    const GPU *c = gpu_of(s, d);
    const instance *i = instance_of(c, (int)id);
    if (i == NULL)
        return leave(NVML_NOT_FOUND);
    device *slot = &instances[c - s->GPU][i - c->instance];
    *slot = (device){ c->index, (int)id };
    *out = slot;
    return leave(NVML_OK);
}

EXPORT int nvmlGpuInstanceGetInfo(device *d, instance_info *out) {
    const state *s;
    int st = enter(&s);
    if (st != NVML_OK)
        return st;
    const GPU *c = gpu_of(s, d);
    const instance *i = c ? instance_of(c, d->instance) : NULL;
    if (i == NULL || i->start < 0)
        return leave(NVML_NOT_FOUND);
    *out = (instance_info){ .device = &GPUs[c - s->GPU], .id = (unsigned)i->id };
    out->placement.start = (unsigned)i->start;
    out->placement.size = (unsigned)i->size;
    return leave(NVML_OK);
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(device *d, unsigned int *out) {
    const state *s;
    int st = enter(&s);
    if (st != NVML_OK)
        return st;
    const GPU *c = gpu_of(s, d);
    *out = c && c->mig ? 7 : 0;
    return leave(c ? NVML_OK : NVML_INVALID);
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(device *d, unsigned int index, device **out) {
    const state *s;
    int st = enter(&s);
    if (st != NVML_OK)
        return st;
    const GPU *c = gpu_of(s, d);
    if (c == NULL || index >= (unsigned)c->instances)
        return leave(NVML_NOT_FOUND);
    device *slot = &instances[c - s->GPU][index];
    *slot = (device){ c->index, c->instance[index].id };
    *out = slot;
    return leave(NVML_OK);
}

EXPORT int nvmlDeviceGetGpuInstanceId(device *d, unsigned int *out) {
    const state *s;
    int st = enter(&s);
    if (st != NVML_OK)
        return st;
    if (d == NULL || d->instance < 0)
        return leave(NVML_INVALID);
    *out = (unsigned)d->instance;
    return leave(NVML_OK);
}

EXPORT int nvmlDeviceGetUUID(device *d, char *out, unsigned int capacity) {
    const state *s;
    int st = enter(&s);
    if (st != NVML_OK)
        return st;
    const GPU *c = gpu_of(s, d);
    const instance *i = c ? instance_of(c, d->instance) : NULL;
    if (c == NULL || (i == NULL && d->instance >= 0))
        return leave(NVML_NOT_FOUND);
    return leave(put_text(out, capacity, i ? i->uuid : c->uuid));
}

EXPORT int nvmlDeviceGetName(device *d, char *out, unsigned int capacity) {
    const state *s;
    int st = enter(&s);
    if (st != NVML_OK)
        return st;
    const GPU *c = gpu_of(s, d);
    const instance *i = c ? instance_of(c, d->instance) : NULL;
    if (c == NULL || (i == NULL && d->instance >= 0))
        return leave(NVML_NOT_FOUND);
    char name[2 * MAX_TEXT + 8];
    snprintf(name, sizeof name, "%s%s%s", c->product, i ? " MIG " : "", i ? i->profile : "");
    return leave(put_text(out, capacity, name));
}
