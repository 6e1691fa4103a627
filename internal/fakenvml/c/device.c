/* The system, what a GPU or a MIG device is, and what is measured on it. A value
 * that the state does not have is NOT_SUPPORTED. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

nvmlReturn_t nvmlInit_v2(void) { return open_library(); }
nvmlReturn_t nvmlInitWithFlags(unsigned flags) { (void)flags; return open_library(); }
nvmlReturn_t nvmlShutdown(void) { return close_library(); }

const char *nvmlErrorString(nvmlReturn_t code) {
    switch ((int)code) {
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

nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned capacity) { return system_text("driver", "", out, capacity); }
nvmlReturn_t nvmlSystemGetNVMLVersion(char *out, unsigned capacity) { return system_text("driver", "13.", out, capacity); }

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *out) {
    char text[16];
    int code = system_text("cuda", "", text, sizeof text);
    *out = code == OK ? atoi(text) : 0;
    return code;
}
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *out) { return nvmlSystemGetCudaDriverVersion(out); }

/* --- finding devices ----------------------------------------------------- */

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *out) {
    ENTER(enter());
    *out = (unsigned)count_gpus();
    return leave(OK);
}

static int found(int gpu, nvmlDevice_t *out) {
    attach(gpu);
    out->handle = gpu_handle(gpu);
    return leave(has("gpu.%d.lost", gpu) ? LOST : OK);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *out) {
    ENTER(enter());
    return index < (unsigned)count_gpus() ? found((int)index, out) : leave(INVALID);
}

static bool pci_of(const char *text, unsigned id[4]) {
    return sscanf(text, "%x:%x:%x.%x", &id[0], &id[1], &id[2], &id[3]) == 4;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus, nvmlDevice_t *out) {
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

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *out) {
    const char *v;
    ENTER(enter());
    for (int i = 0; i < count_gpus(); i++) {
        if (text_at(&v, "gpu.%d.uuid", i) == OK && strcmp(v, uuid) == 0)
            return found(i, out);
        for (int gi = 0; gi < MAX_GI; gi++)
            for (int ci = 0; ci < MAX_CI; ci++)
                if (text_at(&v, "gpu.%d.gi.%d.ci.%d.uuid", i, gi, ci) == OK && strcmp(v, uuid) == 0) {
                    out->handle = mig_handle(i, gi, ci);
                    return leave(OK);
                }
    }
    return leave(NOT_FOUND);
}

/* --- identity ------------------------------------------------------------ */

#define NUMBER(function, type, name)                        \
    nvmlReturn_t function(nvmlDevice_t of, type *out) {     \
        unsigned long long n = 0;                           \
        ENTER_GPU(of);                                      \
        code = number(d, name, &n);                         \
        *out = (type)n;                                     \
        return leave(code);                                 \
    }

/* Calls that this machine's GPUs do not answer. */
#define UNSUPPORTED(function, ...)                              \
    nvmlReturn_t function(nvmlDevice_t of, __VA_ARGS__ *) {     \
        ENTER_GPU(of);                                          \
        return leave(NOT_SUPPORTED);                            \
    }

NUMBER(nvmlDeviceGetMinorNumber, unsigned, "minor")
NUMBER(nvmlDeviceGetPowerUsage, unsigned, "power")
NUMBER(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, "energy")
NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned, "power_limit")
NUMBER(nvmlDeviceGetPcieReplayCounter, unsigned, "pcie_replay")
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, "throttle")
NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, nvmlEnableState_t, "retired_pending")
UNSUPPORTED(nvmlDeviceGetGpuFabricInfo, nvmlGpuFabricInfo_t)
UNSUPPORTED(nvmlDeviceGetGpuFabricInfoV, nvmlGpuFabricInfoV_t)
UNSUPPORTED(nvmlDeviceGetAddressingMode, nvmlDeviceAddressingMode_t)
UNSUPPORTED(nvmlDeviceGetNvLinkState, unsigned, nvmlEnableState_t)
UNSUPPORTED(nvmlDeviceGetNvLinkRemotePciInfo_v2, unsigned, nvmlPciInfo_t)

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t of, unsigned *out) {
    ENTER_GPU(of);
    *out = (unsigned)d->gpu;
    return leave(OK);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t of, char *out, unsigned capacity) {
    const char *v;
    ENTER_GPU(of);
    code = d->ci < 0 ? text_at(&v, "gpu.%d.uuid", d->gpu) : text_at(&v, "gpu.%d.gi.%d.ci.%d.uuid", d->gpu, d->gi, d->ci);
    return leave(code == OK ? copy(out, capacity, v) : code);
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t of, int *major, int *minor) {
    unsigned long long n[2] = { 0 };
    *major = *minor = 0;
    ENTER_GPU(of);
    code = numbers(gpu_handle(d->gpu), "capability", n, 2);
    *major = (int)n[0];
    *minor = (int)n[1];
    return leave(code);
}

/* NVML's number of the generation: it follows the compute capability. */
nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t of, unsigned *out) {
    int major, minor;
    int code = (int)nvmlDeviceGetCudaComputeCapability(of, &major, &minor);
    *out = major == 8 ? (minor == 9 ? 8 : 7) : major == 9 ? 9 : major >= 10 ? 10 : 0xffffffff;
    return code;
}

/* All products of the last years are of the brand NVIDIA. */
nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t of, nvmlBrandType_t *out) {
    ENTER_GPU(of);
    *out = NVML_BRAND_NVIDIA;
    return leave(OK);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t of, nvmlPciInfo_t *out) {
    unsigned at[4] = { 0 };
    const char *v;
    unsigned long long id = 0;
    ENTER_GPU(of);
    memset(out, 0, sizeof *out);
    code = value_of(gpu_handle(d->gpu), "pci", &v);
    if (code == OK && pci_of(v, at)) {
        number(gpu_handle(d->gpu), "pci_device", &id);
        copy(out->busId, sizeof out->busId, v);
        snprintf(out->busIdLegacy, sizeof out->busIdLegacy, "%04x:%02x:%02x.%x", at[0] & 0xffff, at[1] & 0xff, at[2] & 0xff, at[3] & 0xf);
        out->domain = at[0];
        out->bus = at[1];
        out->device = at[2];
        out->pciDeviceId = (unsigned)id << 16 | 0x10de;
    }
    return leave(code);
}

/* The machine's GPUs are below one host bridge each, on one NUMA node. */
nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t of, nvmlDevice_t other, nvmlGpuTopologyLevel_t *out) {
    ENTER_GPU(of);
    *out = d->gpu == other.handle->gpu ? NVML_TOPOLOGY_INTERNAL : NVML_TOPOLOGY_NODE;
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

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t of, nvmlMemory_t *out) {
    unsigned long long n[3] = { 0 };
    ENTER_GPU(of);
    code = memory_of(d, n);
    *out = (nvmlMemory_t){ n[0], n[0] - n[1] - n[2], n[1] + n[2] };
    return leave(code);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t of, nvmlMemory_v2_t *out) {
    unsigned long long n[3] = { 0 };
    ENTER_GPU(of);
    if (out->version != nvmlMemory_v2)
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

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t of, nvmlUtilization_t *out) { return pair(of.handle, "util", &out->gpu, &out->memory); }
nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t of, unsigned *percent, unsigned *period) { return pair(of.handle, "enc", percent, period); }
nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t of, unsigned *percent, unsigned *period) { return pair(of.handle, "dec", percent, period); }

/* A number that one more argument chooses: "clock.1". */
static int chosen(handle *d, const char *name, unsigned which, unsigned long long *out) {
    char full[64];
    ENTER(enter_gpu(d));
    snprintf(full, sizeof full, "%s.%u", name, which);
    return leave(number(d, full, out));
}

static int chosen32(handle *d, const char *name, unsigned which, unsigned *out) {
    unsigned long long n = 0;
    int code = chosen(d, name, which, &n);
    *out = (unsigned)n;
    return code;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t of, nvmlClockType_t type, unsigned *out) { return chosen32(of.handle, "clock", type, out); }
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t of, nvmlTemperatureSensors_t sensor, unsigned *out) { return chosen32(of.handle, "temperature", sensor, out); }

nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t of, nvmlPerfPolicyType_t policy, nvmlViolationTime_t *out) {
    out->referenceTime = 0;
    return chosen(of.handle, "violation", policy, &out->violationTime);
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t of, nvmlMemoryErrorType_t kind, nvmlEccCounterType_t since, unsigned long long *out) {
    return chosen(of.handle, "ecc", 10 * since + kind, out);
}

nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t of, nvmlPageRetirementCause_t cause, unsigned *count, unsigned long long *pages) {
    unsigned long long n = 0;
    int code = chosen(of.handle, "retired", cause, &n);
    if (code == OK && n > *count)
        code = TOO_SMALL;
    if (code == OK && pages)
        memset(pages, 0, n * sizeof *pages);
    *count = (unsigned)n;
    return code;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t of, unsigned *correctable, unsigned *uncorrectable, unsigned *pending, unsigned *failed) {
    unsigned long long n[4] = { 0 };
    ENTER_GPU(of);
    code = numbers(d, "remapped", n, 4);
    *correctable = (unsigned)n[0];
    *uncorrectable = (unsigned)n[1];
    *pending = (unsigned)n[2];
    *failed = (unsigned)n[3];
    return leave(code);
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t of, int count, nvmlFieldValue_t *values) {
    ENTER_GPU(of);
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "field.%u", values[i].fieldId);
        unsigned long long type = 1; /* unsigned int, unless the state says otherwise */
        values[i].value.ullVal = 0;
        values[i].nvmlReturn = number(d, name, &values[i].value.ullVal);
        snprintf(name, sizeof name, "fieldtype.%u", values[i].fieldId);
        number(d, name, &type);
        values[i].valueType = (nvmlValueType_t)type;
    }
    return leave(OK);
}

/* --- processes ----------------------------------------------------------- */

/* Reads "PID:NUMBER PID:NUMBER"; the number "-" is ~0. */
static const char *pid_and_number(const char *text, unsigned *pid, unsigned long long *value) {
    char *end;
    *pid = (unsigned)strtoul(text, &end, 10);
    if (end == text || *end != ':')
        return NULL;
    *value = end[1] == '-' ? ~0ull : strtoull(end + 1, NULL, 10);
    return end + strcspn(end, " ") + (strchr(end, ' ') != NULL);
}

/* Appends the processes of one GPU or GPU instance to the n in out. No line is no process: a GPU
 * always has the list. "pid" is one more, with 1 MiB. */
static int list_at(const handle *d, const char *name, nvmlProcessInfo_t *out, unsigned capacity, unsigned *n) {
    const char *v;
    unsigned long long pid;
    nvmlProcessInfo_t p = { .gpuInstanceId = d->gi < 0 ? ~0u : (unsigned)d->gi, .computeInstanceId = d->gi < 0 ? ~0u : (unsigned)(d->ci < 0 ? 0 : d->ci) };
    int code = value_of(d, name, &v);
    if (code != OK && v != NULL)
        return code;
    while (v && *v && (v = pid_and_number(v, &p.pid, &p.usedGpuMemory)) != NULL)
        if ((*n)++ < capacity && out)
            out[*n - 1] = p;
    if (strcmp(name, "compute") != 0 || number(d, "pid", &pid) != OK)
        return OK;
    p.pid = (unsigned)pid;
    p.usedGpuMemory = 1 << 20;
    if ((*n)++ < capacity && out)
        out[*n - 1] = p;
    return OK;
}

/* A GPU's list has the processes of its instances too, as for a privileged
 * caller. */
static int processes(handle *d, const char *name, unsigned *count, nvmlProcessInfo_t *out) {
    const unsigned capacity = *count;
    ENTER(enter_gpu(d));
    *count = 0;
    code = list_at(d, name, out, capacity, count);
    for (int gi = 0; gi < MAX_GI && code == OK && d->gi < 0; gi++)
        if (has("gpu.%d.gi.%d.profile", d->gpu, gi))
            code = list_at(gi_handle(d->gpu, gi), name, out, capacity, count);
    return leave(code == OK && *count > capacity ? TOO_SMALL : code);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t of, unsigned *n, nvmlProcessInfo_t *out) { return processes(of.handle, "compute", n, out); }
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t of, unsigned *n, nvmlProcessInfo_t *out) { return processes(of.handle, "mps", n, out); }
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t of, unsigned *n, nvmlProcessInfo_t *out) { return processes(of.handle, "graphics", n, out); }

/* The value "none" is that no process computed: an H100 then has slots that are not filled,
 * older GPUs NOT_FOUND. A GPU in MIG mode has no list. */
enum { EMPTY_SLOTS = 72 };

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t of, nvmlProcessUtilizationSample_t *out, unsigned *count, unsigned long long since) {
    const char *v = "";
    unsigned pid, n = 0, capacity = out ? *count : 0;
    unsigned long long percent;
    ENTER_GPU(of);
    code = in_mig_mode(d->gpu) ? NOT_SUPPORTED : value_of(d, "sm", &v);
    if (code == OK && strcmp(v, "none") == 0)
        for (v = ""; n < EMPTY_SLOTS; n++)
            if (n < capacity)
                out[n] = (nvmlProcessUtilizationSample_t){ 0 };
    while (code == OK && *v && (v = pid_and_number(v, &pid, &percent)) != NULL)
        if (n++ < capacity)
            out[n - 1] = (nvmlProcessUtilizationSample_t){ pid, since + 1, (unsigned)percent, 0, 0, 0 };
    *count = n;
    return leave(code == OK && n > capacity ? TOO_SMALL : code);
}
