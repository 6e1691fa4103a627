/* The system, what a GPU or a MIG device is, and what is measured on it. A value
 * that the state does not have is NOT_SUPPORTED. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

EXPORT int nvmlInit_v2(void) { return open_library(); }
EXPORT int nvmlInitWithFlags(unsigned flags) { (void)flags; return open_library(); }
EXPORT int nvmlShutdown(void) { return close_library(); }

EXPORT const char *nvmlErrorString(int code) {
    switch (code) {
    case OK: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NOT_FOUND: return "Not Found";
    case TOO_SMALL: return "Insufficient Size";
    case NO_DRIVER: return "Driver Not Loaded";
    case TIMEOUT: return "Timeout";
    case LOST: return "GPU is lost";
    case IN_USE: return "In use by another client";
    case INSUFFICIENT: return "Insufficient Resources";
    }
    return "Unknown Error";
}

static int system_text(const char *path, const char *prefix, char *out, unsigned capacity) {
    char text[128];
    const char *v;
    int code = enter();
    if (code != OK || (code = text_at(&v, "%s", path)) != OK)
        return code == UNINITIALIZED ? code : leave(code);
    snprintf(text, sizeof text, "%s%s", prefix, v);
    return leave(copy(out, capacity, text));
}

EXPORT int nvmlSystemGetDriverVersion(char *out, unsigned capacity) { return system_text("driver", "", out, capacity); }
EXPORT int nvmlSystemGetNVMLVersion(char *out, unsigned capacity) { return system_text("driver", "13.", out, capacity); }

EXPORT int nvmlSystemGetCudaDriverVersion(int *out) {
    char text[16];
    int code = system_text("cuda", "", text, sizeof text);
    *out = code == OK ? atoi(text) : 0;
    return code;
}
EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *out) { return nvmlSystemGetCudaDriverVersion(out); }

/* --- finding devices ----------------------------------------------------- */

EXPORT int nvmlDeviceGetCount_v2(unsigned *out) {
    ENTER(enter());
    *out = (unsigned)count_gpus();
    return leave(OK);
}

static int found(int gpu, handle **out) {
    attach(gpu);
    *out = gpu_handle(gpu);
    return leave(has("gpu.%d.lost", gpu) ? LOST : OK);
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, handle **out) {
    ENTER(enter());
    return index < (unsigned)count_gpus() ? found((int)index, out) : leave(INVALID);
}

static bool pci_of(const char *text, unsigned id[4]) {
    return sscanf(text, "%x:%x:%x.%x", &id[0], &id[1], &id[2], &id[3]) == 4;
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, handle **out) {
    unsigned want[4], is[4];
    const char *v;
    ENTER(enter());
    if (!pci_of(bus, want))
        return leave(INVALID);
    for (int i = 0; i < count_gpus(); i++)
        if (text_at(&v, "gpu.%d.pci", i) == OK && pci_of(v, is) && memcmp(is, want, sizeof is) == 0)
            return found(i, out);
    return leave(NOT_FOUND);
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, handle **out) {
    const char *v;
    ENTER(enter());
    for (int i = 0; i < count_gpus(); i++) {
        if (text_at(&v, "gpu.%d.uuid", i) == OK && strcmp(v, uuid) == 0)
            return found(i, out);
        for (int gi = 0; gi < MAX_GI; gi++)
            for (int ci = 0; ci < MAX_CI; ci++)
                if (text_at(&v, "gpu.%d.gi.%d.ci.%d.uuid", i, gi, ci) == OK && strcmp(v, uuid) == 0) {
                    *out = mig_handle(i, gi, ci);
                    return leave(OK);
                }
    }
    return leave(NOT_FOUND);
}

/* --- identity ------------------------------------------------------------ */

#define NUMBER(function, type, name)            \
    EXPORT int function(handle *d, type *out) { \
        unsigned long long n = 0;               \
        int code = enter_gpu(d);                \
        if (code != OK)                         \
            return code;                        \
        code = number(d, name, &n);             \
        *out = (type)n;                         \
        return leave(code);                     \
    }

/* Calls that this machine's GPUs do not answer. */
#define UNSUPPORTED(function)                   \
    EXPORT int function(handle *d) {            \
        int code = enter_gpu(d);                \
        return code == OK ? leave(NOT_SUPPORTED) : code; \
    }

NUMBER(nvmlDeviceGetMinorNumber, unsigned, "minor")
NUMBER(nvmlDeviceGetPowerUsage, unsigned, "power")
NUMBER(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, "energy")
NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned, "power_limit")
NUMBER(nvmlDeviceGetPcieReplayCounter, unsigned, "pcie_replay")
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, "throttle")
NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, unsigned, "retired_pending")
UNSUPPORTED(nvmlDeviceGetGpuFabricInfo)
UNSUPPORTED(nvmlDeviceGetGpuFabricInfoV)
UNSUPPORTED(nvmlDeviceGetAddressingMode)
UNSUPPORTED(nvmlDeviceGetNvLinkState)
UNSUPPORTED(nvmlDeviceGetNvLinkRemotePciInfo_v2)

EXPORT int nvmlDeviceGetIndex(handle *d, unsigned *out) {
    ENTER(enter_gpu(d));
    *out = (unsigned)d->gpu;
    return leave(OK);
}

EXPORT int nvmlDeviceGetUUID(handle *d, char *out, unsigned capacity) {
    const char *v;
    ENTER(enter_gpu(d));
    code = d->ci < 0 ? text_at(&v, "gpu.%d.uuid", d->gpu) : text_at(&v, "gpu.%d.gi.%d.ci.%d.uuid", d->gpu, d->gi, d->ci);
    return leave(code == OK ? copy(out, capacity, v) : code);
}

EXPORT int nvmlDeviceGetCudaComputeCapability(handle *d, int *major, int *minor) {
    unsigned long long n[2] = { 0 };
    *major = *minor = 0;
    ENTER(enter_gpu(d));
    code = numbers(gpu_handle(d->gpu), "capability", n, 2);
    *major = (int)n[0];
    *minor = (int)n[1];
    return leave(code);
}

/* NVML's number of the generation: it follows the compute capability. */
EXPORT int nvmlDeviceGetArchitecture(handle *d, unsigned *out) {
    int major, minor;
    int code = nvmlDeviceGetCudaComputeCapability(d, &major, &minor);
    *out = major == 8 ? (minor == 9 ? 8 : 7) : major == 9 ? 9 : major >= 10 ? 10 : 0xffffffff;
    return code;
}

/* All products of the last years are of the brand NVIDIA. */
EXPORT int nvmlDeviceGetBrand(handle *d, int *out) {
    ENTER(enter_gpu(d));
    *out = 14;
    return leave(OK);
}

typedef struct {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char text[32];
} pci_info;

EXPORT int nvmlDeviceGetPciInfo_v3(handle *d, pci_info *out) {
    unsigned at[4] = { 0 };
    const char *v;
    unsigned long long id = 0;
    ENTER(enter_gpu(d));
    memset(out, 0, sizeof *out);
    d = gpu_handle(d->gpu);
    code = value_of(d, "pci", &v);
    if (code == OK && pci_of(v, at)) {
        number(d, "pci_device", &id);
        copy(out->text, sizeof out->text, v);
        snprintf(out->legacy, sizeof out->legacy, "%04x:%02x:%02x.%x", at[0] & 0xffff, at[1] & 0xff, at[2] & 0xff, at[3] & 0xf);
        out->domain = at[0];
        out->bus = at[1];
        out->device = at[2];
        out->id = (unsigned)id << 16 | 0x10de;
    }
    return leave(code);
}

/* The machine's GPUs are below one host bridge each, on one NUMA node. */
EXPORT int nvmlDeviceGetTopologyCommonAncestor(handle *a, handle *b, unsigned *out) {
    ENTER(enter_gpu(a));
    *out = a->gpu == b->gpu ? 0 : 40;
    return leave(OK);
}

/* --- memory -------------------------------------------------------------- */

/* Total, used and reserved bytes: what the state says, or all of it is free. */
static int memory_of(const handle *d, unsigned long long n[3]) {
    n[1] = n[2] = 0;
    int code = numbers(d, "memory", n, 3);
    if (code != NOT_SUPPORTED)
        return code;
    profile p;
    int start;
    if (d->gi < 0)
        code = number(d, "mib", &n[0]);
    else if (instance_at(d->gpu, d->gi, &p, &start))
        code = OK, n[0] = (unsigned long long)p.memory;
    n[0] <<= 20;
    return code;
}

typedef struct {
    unsigned long long total, free, used;
} memory;

EXPORT int nvmlDeviceGetMemoryInfo(handle *d, memory *out) {
    unsigned long long n[3] = { 0 };
    ENTER(enter_gpu(d));
    code = memory_of(d, n);
    *out = (memory){ n[0], n[0] - n[1] - n[2], n[1] + n[2] };
    return leave(code);
}

typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} memory_v2;

EXPORT int nvmlDeviceGetMemoryInfo_v2(handle *d, memory_v2 *out) {
    unsigned long long n[3] = { 0 };
    ENTER(enter_gpu(d));
    if (out->version != VERSION(memory_v2, 2))
        return leave(VERSION_MISMATCH);
    code = memory_of(d, n);
    out->total = n[0];
    out->used = n[1];
    out->reserved = n[2];
    out->free = n[0] - n[1] - n[2];
    return leave(code);
}

/* --- measurements -------------------------------------------------------- */

/* Two numbers for what one call gives. A GPU in MIG mode has none, nor has a
 * MIG device. */
static int pair(handle *d, const char *name, unsigned *first, unsigned *second) {
    unsigned long long n[2] = { 0 };
    ENTER(enter_gpu(d));
    code = in_mig_mode(d->gpu) ? NOT_SUPPORTED : numbers(d, name, n, 2);
    *first = (unsigned)n[0];
    *second = (unsigned)n[1];
    return leave(code);
}

EXPORT int nvmlDeviceGetUtilizationRates(handle *d, unsigned *out) { return pair(d, "util", &out[0], &out[1]); }
EXPORT int nvmlDeviceGetEncoderUtilization(handle *d, unsigned *percent, unsigned *period) { return pair(d, "enc", percent, period); }
EXPORT int nvmlDeviceGetDecoderUtilization(handle *d, unsigned *percent, unsigned *period) { return pair(d, "dec", percent, period); }

/* A number that one more argument chooses: "clock.1". */
static int chosen(handle *d, const char *name, int which, unsigned long long *out) {
    char full[64];
    ENTER(enter_gpu(d));
    snprintf(full, sizeof full, "%s.%d", name, which);
    return leave(number(d, full, out));
}

static int chosen32(handle *d, const char *name, int which, unsigned *out) {
    unsigned long long n = 0;
    int code = chosen(d, name, which, &n);
    *out = (unsigned)n;
    return code;
}

EXPORT int nvmlDeviceGetClockInfo(handle *d, int type, unsigned *out) { return chosen32(d, "clock", type, out); }
EXPORT int nvmlDeviceGetTemperature(handle *d, int sensor, unsigned *out) { return chosen32(d, "temperature", sensor, out); }

EXPORT int nvmlDeviceGetViolationStatus(handle *d, int policy, unsigned long long *out) {
    out[0] = 0;
    return chosen(d, "violation", policy, &out[1]);
}

EXPORT int nvmlDeviceGetTotalEccErrors(handle *d, int kind, int since, unsigned long long *out) {
    return chosen(d, "ecc", 10 * since + kind, out);
}

EXPORT int nvmlDeviceGetRetiredPages(handle *d, int cause, unsigned *count, unsigned long long *pages) {
    unsigned long long n = 0;
    int code = chosen(d, "retired", cause, &n);
    if (code == OK && n > *count)
        code = TOO_SMALL;
    if (code == OK && pages)
        memset(pages, 0, n * sizeof *pages);
    *count = (unsigned)n;
    return code;
}

EXPORT int nvmlDeviceGetRemappedRows(handle *d, unsigned *correctable, unsigned *uncorrectable, unsigned *pending, unsigned *failed) {
    unsigned long long n[4] = { 0 };
    ENTER(enter_gpu(d));
    code = numbers(d, "remapped", n, 4);
    *correctable = (unsigned)n[0];
    *uncorrectable = (unsigned)n[1];
    *pending = (unsigned)n[2];
    *failed = (unsigned)n[3];
    return leave(code);
}

typedef struct {
    unsigned id, scope;
    long long timestamp, latency;
    unsigned type, code;
    unsigned long long value;
} field_value;

EXPORT int nvmlDeviceGetFieldValues(handle *d, int count, field_value *values) {
    ENTER(enter_gpu(d));
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "field.%u", values[i].id);
        unsigned long long type = 1; /* unsigned int, unless the state says otherwise */
        values[i].value = 0;
        values[i].code = (unsigned)number(d, name, &values[i].value);
        snprintf(name, sizeof name, "fieldtype.%u", values[i].id);
        number(d, name, &type);
        values[i].type = (unsigned)type;
    }
    return leave(OK);
}

/* --- processes ----------------------------------------------------------- */

typedef struct {
    unsigned pid;
    unsigned long long memory;
    unsigned gi, ci;
} process;

/* Reads "PID:NUMBER PID:NUMBER"; the number "-" is ~0. */
static const char *pid_and_number(const char *text, unsigned *pid, unsigned long long *value) {
    char *end;
    *pid = (unsigned)strtoul(text, &end, 10);
    if (end == text || *end != ':')
        return NULL;
    *value = end[1] == '-' ? ~0ull : strtoull(end + 1, NULL, 10);
    return end + strcspn(end, " ") + (strchr(end, ' ') != NULL);
}

typedef struct {
    process *out;
    unsigned n, capacity;
} process_list;

static void list_process(process_list *l, process p) {
    if (l->n++ < l->capacity && l->out != NULL)
        l->out[l->n - 1] = p;
}

/* The processes of one GPU or GPU instance. No line is no process: a GPU always
 * has the list. "pid" is one more, with 1 MiB. */
static int list_at(process_list *l, const handle *d, const char *name) {
    const char *v;
    unsigned long long bytes;
    process p = { .gi = d->gi < 0 ? ~0u : (unsigned)d->gi, .ci = d->gi < 0 ? ~0u : (unsigned)(d->ci < 0 ? 0 : d->ci) };
    int code = value_of(d, name, &v);
    if (code == NOT_SUPPORTED && v == NULL)
        v = "";
    else if (code != OK)
        return code;
    while (*v && (v = pid_and_number(v, &p.pid, &p.memory)) != NULL)
        list_process(l, p);
    if (strcmp(name, "compute") == 0 && number(d, "pid", &bytes) == OK) {
        p.pid = (unsigned)bytes;
        p.memory = 1 << 20;
        list_process(l, p);
    }
    return OK;
}

/* A GPU's list has the processes of its instances too, as for a privileged
 * caller. */
static int processes(handle *d, const char *name, unsigned *count, process *out) {
    process_list l = { .out = out, .capacity = *count };
    ENTER(enter_gpu(d));
    code = list_at(&l, d, name);
    for (int gi = 0; gi < MAX_GI && code == OK && d->gi < 0; gi++)
        if (has("gpu.%d.gi.%d.profile", d->gpu, gi))
            code = list_at(&l, gi_handle(d->gpu, gi), name);
    *count = l.n;
    return leave(code == OK && l.n > l.capacity ? TOO_SMALL : code);
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(handle *d, unsigned *n, process *out) { return processes(d, "compute", n, out); }
EXPORT int nvmlDeviceGetMPSComputeRunningProcesses_v3(handle *d, unsigned *n, process *out) { return processes(d, "mps", n, out); }
EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v3(handle *d, unsigned *n, process *out) { return processes(d, "graphics", n, out); }

typedef struct {
    unsigned pid;
    unsigned long long timestamp;
    unsigned sm, memory, encoder, decoder;
} util_sample;

/* The value "none" is that no process computed: an H100 then has slots that are not filled,
 * older GPUs NOT_FOUND. A GPU in MIG mode has no list. */
enum { EMPTY_SLOTS = 72 };

EXPORT int nvmlDeviceGetProcessUtilization(handle *d, util_sample *out, unsigned *count, unsigned long long since) {
    const char *v = "";
    unsigned pid, n = 0, capacity = out ? *count : 0;
    unsigned long long percent;
    ENTER(enter_gpu(d));
    code = in_mig_mode(d->gpu) ? NOT_SUPPORTED : value_of(d, "sm", &v);
    if (code == OK && strcmp(v, "none") == 0)
        for (v = ""; n < EMPTY_SLOTS; n++)
            if (n < capacity)
                out[n] = (util_sample){ 0 };
    while (code == OK && *v && (v = pid_and_number(v, &pid, &percent)) != NULL)
        if (n++ < capacity)
            out[n - 1] = (util_sample){ pid, since + 1, (unsigned)percent, 0, 0, 0 };
    *count = n;
    return leave(code == OK && n > capacity ? TOO_SMALL : code);
}
