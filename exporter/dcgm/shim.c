#define _GNU_SOURCE
#include "shim.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#define VERSION(type, n) ((uint32_t)(sizeof(type) | ((uint32_t)(n) << 24)))

_Static_assert(sizeof(shim_value) == 4128, "dcgmFieldValue_v2");
_Static_assert(offsetof(shim_value, value) == 32, "dcgmFieldValue_v2.value");
_Static_assert(sizeof(shim_attributes) == 5220, "dcgmDeviceAttributes_v3");
_Static_assert(offsetof(shim_attributes, identifiers_version) == 3120, "dcgmDeviceAttributes_v3.identifiers");
_Static_assert(offsetof(shim_attributes, settings_version) == 5204, "dcgmDeviceAttributes_v3.settings");

/* dcgmFieldValue_v1 */
typedef struct {
    uint32_t version;
    uint16_t field, type;
    int32_t status;
    int64_t ts;
    union {
        int64_t i64;
        char blob[4096];
    } value;
} value_v1;
_Static_assert(sizeof(value_v1) == 4120, "dcgmFieldValue_v1");

/* The library is never closed: a host engine that was started in this process
 * may still have threads in it. */
static void *library;

const char *shim_open(const char *path) {
    if (library)
        return NULL;
    /* Global and lazy as go-dcgm does it. Its own dlopen then finds the library
     * loaded already, by its soname. */
    library = dlopen(path, RTLD_LAZY | RTLD_GLOBAL);
    return library ? NULL : dlerror();
}

int shim_has(const char *symbol) {
    return library && dlsym(library, symbol) != NULL;
}

int shim_latest(uintptr_t handle, shim_entity *entities, unsigned n, uint16_t *fields, unsigned fields_n,
                shim_value *out) {
    int (*call)(uintptr_t, shim_entity *, unsigned, uint16_t *, unsigned, unsigned, shim_value *);
    *(void **)&call = library ? dlsym(library, "dcgmEntitiesGetLatestValues") : NULL;
    return call ? call(handle, entities, n, fields, fields_n, 0, out) : SHIM_NO_SYMBOL;
}

int shim_device(uintptr_t handle, unsigned gpu, shim_attributes *out) {
    int (*call)(uintptr_t, unsigned, shim_attributes *);
    *(void **)&call = library ? dlsym(library, "dcgmGetDeviceAttributes") : NULL;
    memset(out, 0, sizeof *out);
    out->version = VERSION(shim_attributes, 3);
    return call ? call(handle, gpu, out) : SHIM_NO_SYMBOL;
}

typedef struct {
    shim_event *out;
    int n, room;
} events;

static int collect(uint32_t kind, uint32_t id, value_v1 *values, int n, void *user) {
    events *e = user;
    for (int i = 0; i < n && e->n < e->room; i++)
        if (kind == 1 && values[i].status == 0)
            e->out[e->n++] = (shim_event){ .gpu = id, .ts = values[i].ts, .code = values[i].value.i64 };
    return 0;
}

int shim_events(uintptr_t handle, uintptr_t group, uintptr_t fields, int64_t since, shim_event *out, int room, int *n) {
    typedef int (*callback)(uint32_t, uint32_t, value_v1 *, int, void *);
    int (*call)(uintptr_t, uintptr_t, uintptr_t, long long, long long *, callback, void *);
    *(void **)&call = library ? dlsym(library, "dcgmGetValuesSince_v2") : NULL;
    events e = { .out = out, .room = room };
    long long next;
    int st = call ? call(handle, group, fields, since, &next, collect, &e) : SHIM_NO_SYMBOL;
    *n = e.n;
    return st;
}

const char *shim_error(int code) {
    const char *(*call)(int);
    *(void **)&call = library ? dlsym(library, "errorString") : NULL;
    const char *text = call ? call(code) : NULL;
    return text ? text : "unknown error";
}
