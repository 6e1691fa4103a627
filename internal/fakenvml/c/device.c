/* The system, and the identity and measurements of a GPU or a MIG device. A value that the
 * machine does not have is NOT_SUPPORTED. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the system and its devices ------------------------------------------ */

nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned capacity) PRINT_SYSTEM("%s", value_at("Driver"))
nvmlReturn_t nvmlSystemGetNVMLVersion(char *out, unsigned capacity) PRINT_SYSTEM("13.%s", value_at("Driver"))
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *out) GIVE_SYSTEM(13000)
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *out) { return nvmlSystemGetCudaDriverVersion_v2(out); }
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *out) GIVE_SYSTEM(count_gpus())

static int found(int gpu, nvmlDevice_t *out) {
    open_file(gpu, 1);
    out->handle = handle_of(gpu, -1, -1);
    return number_at("GPUs.%d.Lost", gpu) ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *out) {
    ENTER;
    return index < (unsigned)count_gpus() ? found((int)index, out) : NVML_ERROR_INVALID_ARGUMENT;
}

static bool pci_of(const char *text, unsigned id[4]) { return sscanf(text, "%x:%x:%x.%x", &id[0], &id[1], &id[2], &id[3]) == 4; }

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus, nvmlDevice_t *out) {
    unsigned want[4], is[4];
    ENTER;
    if (!pci_of(bus, want))
        return NVML_ERROR_INVALID_ARGUMENT;
    for (int gpu = 0; gpu < count_gpus(); gpu++)
        if (pci_of(value_at("GPUs.%d.PCIBusID", gpu), is) && memcmp(is, want, sizeof is) == 0)
            return found(gpu, out);
    return NVML_ERROR_NOT_FOUND;
}

/* It fails where any GPU is lost. */
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *out) {
    ENTER;
    for (int gpu = 0; gpu < count_gpus(); gpu++)
        if (number_at("GPUs.%d.Lost", gpu))
            return NVML_ERROR_GPU_IS_LOST;
    for (int gpu = 0; gpu < count_gpus(); gpu++) {
        if (strcmp(value_at("GPUs.%d.UUID", gpu), uuid) == 0)
            return found(gpu, out);
        for (int i = 0; i < MAX_MIG_DEVICES; i++)
            if ((out->handle = mig_device(gpu, i)) != NULL && strcmp(value_at("%s.UUID", out->handle->at), uuid) == 0)
                return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_FOUND;
}

/* --- identity ------------------------------------------------------------ */

/* All products of the last years are of the brand NVIDIA. The machine's GPUs are of the generation
 * Hopper, whatever their name, and below one host bridge each, on one NUMA node. */
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t of, unsigned *out) GIVE(d->gpu)
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t of, unsigned *out) GIVE(number_at("GPUs.%d.Minor", d->gpu))
nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t of, nvmlBrandType_t *out) GIVE(NVML_BRAND_NVIDIA)
nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t of, nvmlDeviceArchitecture_t *out) GIVE(NVML_DEVICE_ARCH_HOPPER)
nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t of, nvmlGpuVirtualizationMode_t *out) GIVE(NVML_GPU_VIRTUALIZATION_MODE_NONE)
nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t of, int *out, int *minor) GIVE((*minor = 0, 9))
nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t of, nvmlDevice_t other, nvmlGpuTopologyLevel_t *out)
    GIVE(d->gpu == other.handle->gpu ? NVML_TOPOLOGY_INTERNAL : NVML_TOPOLOGY_NODE)

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t of, char *out, unsigned capacity) {
    ENTER_DEVICE(of);
    return print(out, capacity, "%s", value_at("%s.UUID", d->at));
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t of, nvmlPciInfo_t *out) {
    unsigned at[4] = { 0 };
    ENTER_DEVICE(of);
    const char *bus = value_at("GPUs.%d.PCIBusID", d->gpu);
    pci_of(bus, at);
    *out = (nvmlPciInfo_t){ .domain = at[0], .bus = at[1], .device = at[2], .pciDeviceId = (unsigned)number_at("GPUs.%d.PCIDevice", d->gpu) << 16 | 0x10de };
    print(out->busId, sizeof out->busId, "%s", bus);
    print(out->busIdLegacy, sizeof out->busIdLegacy, "%04x:%02x:%02x.%x", at[0] & 0xffff, at[1] & 0xff, at[2] & 0xff, at[3] & 0xf);
    return NVML_SUCCESS;
}

/* --- measurements -------------------------------------------------------- */

/* The numbers of a value, one for each pointer. With whole, a GPU in MIG mode and its MIG devices do
 * not have the value. */
static int answer(const char *function, nvmlDevice_t of, const char *name, bool whole, unsigned *out[4]) {
    unsigned long long n[4] = { 0 };
    ENTER_AS(function, of);
    code = whole && in_mig_mode(d->gpu) ? NVML_ERROR_NOT_SUPPORTED : numbers(d, name, n, 4);
    for (int i = 0; i < 4 && out[i]; i++)
        *out[i] = (unsigned)n[i];
    return code;
}

#define ANSWER(name, whole, ...) { return answer(__func__, of, name, whole, (unsigned *[4]){ __VA_ARGS__ }); }
#define ANSWER64(name, out) { ENTER_DEVICE(of); return numbers(d, name, out, 1); }
#define NONE { ENTER_DEVICE(of); return NVML_ERROR_NOT_SUPPORTED; }

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t of, unsigned *out) ANSWER("power", false, out)
nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t of, unsigned *out) ANSWER("power_limit", false, out)
nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t of, unsigned *out) ANSWER("pcie_replay", false, out)
nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t of, nvmlEnableState_t *out) ANSWER("retired_pending", false, out)
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t of, nvmlClockType_t type, unsigned *out) ANSWER(path("clock.%u", type), false, out)
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t of, nvmlTemperatureSensors_t sensor, unsigned *out) ANSWER(path("temperature.%u", sensor), false, out)
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t of, nvmlUtilization_t *out) ANSWER("util", true, &out->gpu, &out->memory)
nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t of, unsigned *percent, unsigned *period) ANSWER("enc", true, percent, period)
nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t of, unsigned *percent, unsigned *period) ANSWER("dec", true, percent, period)
nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t of, unsigned *correctable, unsigned *uncorrectable, unsigned *pending, unsigned *failed)
    ANSWER("remapped", false, correctable, uncorrectable, pending, failed)
nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t of, unsigned long long *out) ANSWER64("energy", out)
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t of, unsigned long long *out) ANSWER64("throttle", out)
nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t of, unsigned long long *out) ANSWER64("throttle", out)
nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t of, nvmlPerfPolicyType_t policy, nvmlViolationTime_t *out)
    ANSWER64(path("violation.%u", policy), &out->violationTime)
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t of, nvmlMemoryErrorType_t kind, nvmlEccCounterType_t since, unsigned long long *out)
    ANSWER64(path("ecc.%u", 10 * since + kind), out)

/* Calls that this machine's GPUs do not answer. */
nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t of, nvmlGpuFabricInfo_t *) NONE
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t of, nvmlGpuFabricInfoV_t *) NONE
nvmlReturn_t nvmlDeviceGetAddressingMode(nvmlDevice_t of, nvmlDeviceAddressingMode_t *) NONE
nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t of, unsigned, nvmlEnableState_t *) NONE
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t of, unsigned, nvmlPciInfo_t *) NONE

/* Total, used and reserved bytes are the machine's value "memory". Without it all memory is free. */
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t of, nvmlMemory_v2_t *out) {
    unsigned long long n[3];
    profile p;
    ENTER_DEVICE(of);
    if (out->version != nvmlMemory_v2)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    const long long mib = d->gi >= 0 && instance_at(d->gpu, d->gi, &p) ? mib_of(d->gpu, &p) : number_at("GPUs.%d.MemoryMiB", d->gpu);
    code = numbers(d, "memory", n, 3);
    if (code == NVML_ERROR_NOT_SUPPORTED && mib > 0) {
        n[0] = (unsigned long long)mib << 20;
        code = NVML_SUCCESS;
    }
    *out = (nvmlMemory_v2_t){ nvmlMemory_v2, n[0], n[2], n[0] - n[1] - n[2], n[1] };
    return code;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t of, nvmlMemory_t *out) {
    nvmlMemory_v2_t v2 = { .version = nvmlMemory_v2 };
    const nvmlReturn_t code = nvmlDeviceGetMemoryInfo_v2(of, &v2);
    *out = (nvmlMemory_t){ v2.total, v2.free, v2.reserved + v2.used };
    return code;
}

nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t of, nvmlPageRetirementCause_t cause, unsigned *count, unsigned long long *pages) {
    unsigned long long n;
    const unsigned capacity = *count;
    ENTER_DEVICE(of);
    code = numbers(d, path("retired.%u", cause), &n, 1);
    *count = (unsigned)n;
    if (code == NVML_SUCCESS && n <= capacity && pages)
        memset(pages, 0, n * sizeof *pages);
    return code == NVML_SUCCESS && n > capacity ? NVML_ERROR_INSUFFICIENT_SIZE : code;
}

/* A value is an unsigned int, unless the machine says otherwise. */
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t of, int count, nvmlFieldValue_t *values) {
    ENTER_DEVICE(of);
    for (nvmlFieldValue_t *v = values; v < values + count; v++) {
        unsigned long long type;
        v->nvmlReturn = (nvmlReturn_t)numbers(d, path("field.%u", v->fieldId), &v->value.ullVal, 1);
        v->valueType = numbers(d, path("fieldtype.%u", v->fieldId), &type, 1) == NVML_SUCCESS ? (nvmlValueType_t)type : NVML_VALUE_TYPE_UNSIGNED_INT;
    }
    return NVML_SUCCESS;
}

/* --- processes ----------------------------------------------------------- */

/* Reads one of "PID:NUMBER PID:NUMBER" and returns the rest, NULL if there is none. The number "-" is ~0. */
static const char *pid_and_number(const char *text, unsigned *pid, unsigned long long *value) {
    int used = 0;
    if (sscanf(text, " %u:%n", pid, &used) != 1 || used == 0)
        return NULL;
    *value = text[used] == '-' ? ~0ull : strtoull(text + used, NULL, 10);
    return text + used + strcspn(text + used, " ");
}

/* The processes of a GPU or a GPU instance. A GPU's list has those of its instances too, as for a
 * privileged caller. Without a value the list is empty: a GPU always has it. */
static int processes(const char *function, nvmlDevice_t of, const char *name, unsigned *count, nvmlProcessInfo_t *out) {
    const unsigned capacity = *count;
    ENTER_AS(function, of);
    *count = 0;
    for (int gi = d->gi, last = d->gi < 0 ? MAX_GI - 1 : d->gi; gi <= last; gi++) {
        nvmlProcessInfo_t p = { .gpuInstanceId = (unsigned)gi, .computeInstanceId = gi < 0 ? ~0u : d->ci < 0 ? 0 : (unsigned)d->ci };
        const char *v;
        code = value_of(handle_of(d->gpu, gi, -1), name, &v);
        if (code != NVML_SUCCESS && v != NULL)
            return code;
        while (v && (v = pid_and_number(v, &p.pid, &p.usedGpuMemory)) != NULL)
            if ((*count)++ < capacity && out)
                out[*count - 1] = p;
    }
    return *count > capacity ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t of, unsigned *n, nvmlProcessInfo_t *out) { return processes(__func__, of, "compute", n, out); }
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t of, unsigned *n, nvmlProcessInfo_t *out) { return processes(__func__, of, "mps", n, out); }
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t of, unsigned *n, nvmlProcessInfo_t *out) { return processes(__func__, of, "graphics", n, out); }

/* The value "none" means that no process computed: an H100 then returns empty slots, an
 * older GPU NOT_FOUND. A GPU in MIG mode has no list. */
enum { EMPTY_SLOTS = 72 };

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t of, nvmlProcessUtilizationSample_t *out, unsigned *count, unsigned long long since) {
    const char *v = NULL;
    const unsigned capacity = out ? *count : 0;
    unsigned long long percent;
    ENTER_DEVICE(of);
    code = in_mig_mode(d->gpu) ? NVML_ERROR_NOT_SUPPORTED : value_of(d, "sm", &v);
    *count = code == NVML_SUCCESS && strcmp(v, "none") == 0 ? EMPTY_SLOTS : 0;
    if (out)
        memset(out, 0, (*count < capacity ? *count : capacity) * sizeof *out);
    for (unsigned pid; code == NVML_SUCCESS && (v = pid_and_number(v, &pid, &percent)) != NULL; (*count)++)
        if (*count < capacity)
            out[*count] = (nvmlProcessUtilizationSample_t){ pid, since + 1, (unsigned)percent, 0, 0, 0 };
    return code == NVML_SUCCESS && *count > capacity ? NVML_ERROR_INSUFFICIENT_SIZE : code;
}
