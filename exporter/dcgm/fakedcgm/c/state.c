/* The machine: a file of lines by write.go. An entity has the path "KIND.ID", as DCGM
 * numbers them, and what is known of it lies below; its fields are "KIND.ID.f.FIELD". */
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

long long number_of(entity_t e, const char *name) {
    const char *v = value_at("%u.%u.%s", e.kind, e.id, name);
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

bool exists(entity_t e) { return has("%u.%u", e.kind, e.id); }

entity_t gpu_of(entity_t e) {
    if (e.kind == FE_GPU_I || e.kind == FE_GPU_CI)
        return (entity_t){ FE_GPU, (unsigned)number_of(e, "gpu") };
    return e.kind == FE_GPU ? e : (entity_t){ FE_NONE, 0 };
}

bool is_lost(entity_t e) { return number_of(gpu_of(e), "lost") != 0; }

int profiled_fields(entity_t gpu, unsigned fields[MAX_PROFILED]) {
    const char *active = value_at("%u.%u.f.1001", gpu.kind, gpu.id);
    if (is_lost(gpu) || (active && strcmp(active, "!unsupported") == 0))
        return 0;
    return numbers_at(fields, MAX_PROFILED, "%u.%u.profiled", gpu.kind, gpu.id);
}
