#include "fake.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static char state_path[4096];

void state_use(const char *path) {
    snprintf(state_path, sizeof state_path, "%s", path ? path : "");
}

bool state_read(void) {
    static bool failed;
    const bool known = lines_refresh(state_path);
    if (!known && !failed)
        fprintf(stderr, "fakedcgm: the state (%s) cannot be read\n", *state_path ? state_path : "FAKEDCGM_STATE is not set");
    failed = !known;
    return known;
}

long long state_number(const char *name) {
    const char *v = look(name);
    return v ? atoll(v) : 0;
}

long long number_of(entity e, const char *name) {
    const char *v = value_at("%u.%u.%s", e.entityGroupId, e.entityId, name);
    return v ? atoll(v) : 0;
}

int numbers_at(unsigned *out, int max, const char *format, ...) {
    char path[64];
    va_list args;
    va_start(args, format);
    vsnprintf(path, sizeof path, format, args);
    va_end(args);
    const char *v = look(path);
    int n = 0;
    for (char *end; v && n < max; v = end) {
        out[n] = (unsigned)strtoul(v, &end, 10);
        if (end == v)
            break;
        n++;
    }
    return n;
}

entity instance_of(entity e) {
    return e.entityGroupId == DCGM_FE_GPU_CI ? (entity){ DCGM_FE_GPU_I, e.entityId / DCGM_MAX_COMPUTE_INSTANCES_PER_GPU } : e;
}

/* Compute instances and cores have no lines. */
bool exists(entity e) {
    const entity of = instance_of(e);
    return e.entityGroupId == DCGM_FE_CPU_CORE || has("%u.%u", of.entityGroupId, of.entityId);
}

entity gpu_of(entity e) {
    e = instance_of(e);
    if (e.entityGroupId == DCGM_FE_GPU_I)
        return (entity){ DCGM_FE_GPU, (unsigned)number_of(e, "gpu") };
    return e.entityGroupId == DCGM_FE_GPU ? e : (entity){ DCGM_FE_NONE, 0 };
}

bool is_lost(entity e) { return number_of(gpu_of(e), "lost") || number_of(gpu_of(e), "detached"); }

int profiled_fields(entity gpu, unsigned fields[MAX_PROFILED]) {
    const char *active = value_at("1.%u.f.1001", gpu.entityId);
    if (is_lost(gpu) || (active && strcmp(active, "!unsupported") == 0))
        return 0;
    int n = numbers_at(fields, MAX_PROFILED, "1.%u.profiled", gpu.entityId);
    if (n == 0)
        for (unsigned f = 1001; f <= 1012; f++)
            fields[n++] = f;
    return n;
}
