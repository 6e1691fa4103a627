/* What happens around each call; handles and values. */
#include "fake.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int users;

/* The open device files, the driver's /dev/nvidiaN. Every GPU has one from the initialisation on,
 * and a second one once its handle was requested. They are open until the library is closed. 0:
 * not open. */
static int files[MAX_GPUS][2];

void open_file(int gpu, int second) {
    char name[32];
    snprintf(name, sizeof name, second ? "nvidia%d:handle" : "nvidia%d", gpu);
    if (files[gpu][second] <= 0)
        files[gpu][second] = memfd_create(name, MFD_CLOEXEC);
}

nvmlReturn_t nvmlInit_v2(void) {
    LOCKED;
    const int code = machine_enter(__func__);
    users += code == NVML_SUCCESS;
    for (int gpu = 0; code == NVML_SUCCESS && gpu < count_gpus(); gpu++)
        open_file(gpu, 0);
    return code == NO_MACHINE ? NVML_ERROR_DRIVER_NOT_LOADED : code;
}

nvmlReturn_t nvmlInitWithFlags(unsigned) { return nvmlInit_v2(); }

nvmlReturn_t nvmlShutdown(void) {
    LOCKED;
    if (users == 0)
        return NVML_ERROR_UNINITIALIZED;
    users--;
    for (int *fd = files[0]; users == 0 && fd < files[MAX_GPUS]; fd++) {
        if (*fd > 0)
            close(*fd);
        *fd = 0;
    }
    return NVML_SUCCESS;
}

/* NVML itself has a text for each code. */
const char *nvmlErrorString(nvmlReturn_t code) {
    static _Thread_local char text[32];
    snprintf(text, sizeof text, "NVML error %d", code);
    return text;
}

int enter(const char *function) {
    const int code = machine_enter(function);
    return users == 0 ? NVML_ERROR_UNINITIALIZED : code == NO_MACHINE ? NVML_ERROR_UNKNOWN : code;
}

int enter_device(const char *function, const handle *h) {
    const int code = enter(function);
    if (code != NVML_SUCCESS)
        return code;
    if (h && number_at("GPUs.%d.Lost", h->gpu))
        return NVML_ERROR_GPU_IS_LOST;
    return h && has("%s", h->at) ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

handle *handle_of(int gpu, int gi, int ci) {
    static handle all[MAX_GPUS][1 + MAX_GI][1 + MAX_CI];
    handle *h = &all[gpu][1 + gi][1 + ci];
    *h = (handle){ gpu, gi, ci, "" };
    int n = snprintf(h->at, sizeof h->at, "GPUs.%d", gpu);
    if (gi >= 0)
        n += snprintf(h->at + n, sizeof h->at - n, ".Instances.%d", gi);
    if (ci >= 0)
        snprintf(h->at + n, sizeof h->at - n, ".Computes.%d", ci);
    return h;
}

handle *mig_device(int gpu, int i) {
    handle *h = handle_of(gpu, i / MAX_CI, i % MAX_CI);
    return has("%s", h->at) ? h : NULL;
}

int count_gpus(void) {
    int n = 0;
    while (n < MAX_GPUS && has("GPUs.%d", n))
        n++;
    return n;
}

bool in_mig_mode(int gpu) { return number_at("GPUs.%d.MIG", gpu); }

int value_of(const handle *h, const char *name, const char **value) {
    *value = value_at("%s.Values.%s", handle_of(h->gpu, h->gi, -1)->at, name);
    return *value == NULL ? NVML_ERROR_NOT_SUPPORTED : **value == '!' ? atoi(*value + 1) : NVML_SUCCESS;
}

int numbers(const handle *h, const char *name, unsigned long long *out, int n) {
    const char *v;
    const int code = value_of(h, name, &v);
    memset(out, 0, (size_t)n * sizeof *out);
    if (code == NVML_SUCCESS)
        numbers_of(v, out, n);
    return code;
}

int print(char *out, unsigned capacity, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(out, capacity, format, args);
    va_end(args);
    return n < (int)capacity ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}
