#define _GNU_SOURCE
#include "placement.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef void *device; /* nvmlDevice_t, nvmlGpuInstance_t */

typedef struct {
    device GPU;
    unsigned id, profile, start, size;
} instance_info; /* nvmlGpuInstanceInfo_t */

typedef struct {
    int (*init)(void);
    int (*shutdown)(void);
    int (*by_uuid)(const char *, device *);
    int (*instance_by_id)(device, unsigned, device *);
    int (*instance_info)(device, instance_info *);
    int (*mig_count)(device, unsigned *);
    int (*mig_by_index)(device, unsigned, device *);
    int (*instance_id)(device, unsigned *);
    int (*uuid)(device, char *, unsigned);
    int (*name)(device, char *, unsigned);
} nvml;

static int find_all(void *lib, nvml *api) {
    const struct {
        void *slot;
        const char *name;
    } all[] = {
        { &api->init, "nvmlInit_v2" },
        { &api->shutdown, "nvmlShutdown" },
        { &api->by_uuid, "nvmlDeviceGetHandleByUUID" },
        { &api->instance_by_id, "nvmlDeviceGetGpuInstanceById" },
        { &api->instance_info, "nvmlGpuInstanceGetInfo" },
        { &api->mig_count, "nvmlDeviceGetMaxMigDeviceCount" },
        { &api->mig_by_index, "nvmlDeviceGetMigDeviceHandleByIndex" },
        { &api->instance_id, "nvmlDeviceGetGpuInstanceId" },
        { &api->uuid, "nvmlDeviceGetUUID" },
        { &api->name, "nvmlDeviceGetName" },
    };
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        void *symbol = dlsym(lib, all[i].name);
        if (symbol == NULL)
            return -1;
        memcpy(all[i].slot, &symbol, sizeof symbol);
    }
    return 0;
}

/* The MIG devices of a GPU: their UUIDs, and their names, which end in
 * " MIG 3g.40gb". A compute instance that does not fill its GPU instance has
 * "1c.3g.40gb"; the GPU instance's profile begins after the first dot. */
static void read_devices(const nvml *api, device GPU, placement *list, int n) {
    unsigned count = 0;
    api->mig_count(GPU, &count);
    for (unsigned i = 0; i < count; i++) {
        device mig;
        unsigned id;
        char name[128] = "";
        if (api->mig_by_index(GPU, i, &mig) != 0 || api->instance_id(mig, &id) != 0)
            continue;
        for (int k = 0; k < n; k++) {
            placement *p = &list[k];
            if (p->instance_id != id || p->uuid[0] != '\0')
                continue;
            if (api->uuid(mig, p->uuid, sizeof p->uuid) != 0)
                p->uuid[0] = '\0';
            const char *profile = api->name(mig, name, sizeof name) == 0 ? strstr(name, " MIG ") : NULL;
            if (profile == NULL)
                continue;
            profile += strlen(" MIG ");
            unsigned slices;
            char kind;
            if (sscanf(profile, "%u%c.", &slices, &kind) == 2 && kind == 'c')
                profile = strchr(profile, '.') + 1;
            snprintf(p->profile, sizeof p->profile, "%s", profile);
        }
    }
}

int placement_read(const char *gpu_uuid, placement *list, int n) {
    for (int k = 0; k < n; k++) {
        list[k].start = -1;
        list[k].size = 0;
        list[k].uuid[0] = list[k].profile[0] = '\0';
    }
    void *lib = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (lib == NULL)
        return -1;
    nvml api;
    int st = find_all(lib, &api);
    if (st == 0)
        st = api.init() == 0 ? 0 : -1;
    if (st == 0) {
        device GPU;
        st = api.by_uuid(gpu_uuid, &GPU) == 0 ? 0 : -1;
        for (int k = 0; st == 0 && k < n; k++) {
            device instance;
            instance_info info;
            if (api.instance_by_id(GPU, list[k].instance_id, &instance) == 0
                && api.instance_info(instance, &info) == 0) {
                list[k].start = (int)info.start;
                list[k].size = (int)info.size;
            }
        }
        if (st == 0)
            read_devices(&api, GPU, list, n);
        api.shutdown();
    }
    dlclose(lib);
    return st;
}
