/* A fake of NVIDIA's libnvidia-ml.so.1, steered by the file that FAKENVML_STATE
 * names. It answers as the driver does: a call without Init is refused, a value
 * that the state does not have is NOT_SUPPORTED, a GPU that is lost answers
 * GPU_IS_LOST to everything, a MIG device answers what a MIG device has, and the
 * GPU it is on then has no utilization.
 *
 * The state is a list of lines "path value". A value "!N" makes the call that
 * reads it return NVML code N. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7,
    NO_DRIVER = 9, TIMEOUT = 10, LOST = 15, VERSION_MISMATCH = 25, UNKNOWN = 999,
};

enum { MAX_GPUS = 16, MAX_MIG = 8, MAX_LINES = 4096, MAX_SETS = 8 };

/* A handle remembers ids, so that it survives a change of the state. */
typedef struct {
    int GPU, instance; /* index; place among the MIG devices or -1 */
} device;

static device GPUs[MAX_GPUS], instances[MAX_GPUS][MAX_MIG];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int users;

/* --- the state file ------------------------------------------------------ */

static struct {
    char *text;
    struct {
        const char *path, *value;
    } line[MAX_LINES];
    int lines;
    struct timespec mtime;
    ino_t inode;
} file;

static void parse(char *text) {
    file.lines = 0;
    for (char *save, *row = strtok_r(text, "\n", &save); row && file.lines < MAX_LINES; row = strtok_r(NULL, "\n", &save)) {
        char *space = strchr(row, ' ');
        if (space == NULL)
            continue;
        *space = '\0';
        file.line[file.lines].path = row;
        file.line[file.lines++].value = space + 1;
    }
}

static void refresh(void) {
    const char *name = getenv("FAKENVML_STATE");
    struct stat st;
    if (name == NULL || stat(name, &st) != 0)
        return;
    if (file.text && st.st_ino == file.inode && memcmp(&st.st_mtim, &file.mtime, sizeof st.st_mtim) == 0)
        return;
    FILE *f = fopen(name, "r");
    if (f == NULL)
        return;
    char *text = calloc(1, (size_t)st.st_size + 1);
    size_t n = text ? fread(text, 1, (size_t)st.st_size, f) : 0;
    fclose(f);
    if (text == NULL || n != (size_t)st.st_size) {
        free(text);
        return;
    }
    free(file.text);
    file.text = text;
    file.inode = st.st_ino;
    file.mtime = st.st_mtim;
    parse(text);
}

static const char *look(const char *path) {
    for (int i = 0; i < file.lines; i++)
        if (strcmp(file.line[i].path, path) == 0)
            return file.line[i].value;
    return NULL;
}

/* Gives the value at a path made as printf does, or the code to return. */
static int find(const char **value, const char *format, va_list args) {
    char path[128];
    vsnprintf(path, sizeof path, format, args);
    *value = look(path);
    if (*value == NULL)
        return NOT_SUPPORTED;
    return **value == '!' ? atoi(*value + 1) : OK;
}

static int text_at(const char **value, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int code = find(value, format, args);
    va_end(args);
    return code;
}

/* --- calls --------------------------------------------------------------- */

static int leave(int code) {
    pthread_mutex_unlock(&lock);
    return code;
}

/* Takes the lock and reads the state again; leave() gives the lock back. A state
 * with "hang" keeps a call until the line is gone. */
static int enter(void) {
    for (;;) {
        pthread_mutex_lock(&lock);
        refresh();
        if (look("hang") == NULL)
            break;
        pthread_mutex_unlock(&lock);
        usleep(5000);
    }
    return users == 0 ? leave(UNINITIALIZED) : OK;
}

static int count_gpus(void) {
    const char *v;
    return text_at(&v, "count") == OK ? atoi(v) : 0;
}

/* enter() for a call about a device. */
static int at(const device *d) {
    int code = enter();
    if (code != OK)
        return code;
    const char *v;
    if (d == NULL || d->GPU >= count_gpus())
        return leave(INVALID);
    if (text_at(&v, "gpu.%d.lost", d->GPU) == OK)
        return leave(LOST);
    return OK;
}

static bool partitioned(const device *d) {
    const char *v;
    return text_at(&v, "gpu.%d.mig", d->GPU) == OK && atoi(v) == 1;
}

/* The value of a device: of a GPU "gpu.0.NAME", of a MIG device
 * "gpu.0.mig.1.NAME". */
static int value_of(const device *d, const char *name, const char **value) {
    if (d->instance >= 0)
        return text_at(value, "gpu.%d.mig.%d.%s", d->GPU, d->instance, name);
    return text_at(value, "gpu.%d.%s", d->GPU, name);
}

static int number(const device *d, const char *name, unsigned long long *out) {
    const char *v;
    int code = value_of(d, name, &v);
    if (code == OK)
        *out = strtoull(v, NULL, 10);
    return code;
}

/* Reads "A B C" into n numbers; of fewer the rest is 0. */
static int numbers(const device *d, const char *name, unsigned long long *out, int n) {
    const char *v;
    int code = value_of(d, name, &v);
    if (code != OK)
        return code;
    char *end = (char *)v;
    for (int i = 0; i < n; i++)
        out[i] = strtoull(end, &end, 10);
    return OK;
}

static int copy(char *out, unsigned capacity, const char *text) {
    return snprintf(out, capacity, "%s", text) < (int)capacity ? OK : TOO_SMALL;
}

#define TEXT(function, name)                                              \
    EXPORT int function(device *d, char *out, unsigned capacity) {            \
        int code = at(d);                                                 \
        if (code != OK)                                                   \
            return code;                                                  \
        const char *v;                                                    \
        code = value_of(d, name, &v);                                     \
        return leave(code == OK ? copy(out, capacity, v) : code);             \
    }

#define NUMBER(function, type, name)                                      \
    EXPORT int function(device *d, type *out) {                           \
        int code = at(d);                                                 \
        if (code != OK)                                                   \
            return code;                                                  \
        unsigned long long n = 0;                                         \
        code = number(d, name, &n);                                       \
        *out = (type)n;                                                   \
        return leave(code);                                               \
    }

EXPORT int nvmlInit_v2(void) {
    pthread_mutex_lock(&lock);
    refresh();
    const char *v;
    int code = text_at(&v, "init");
    if (code != OK && code != NOT_SUPPORTED)
        return leave(code);
    users++;
    return leave(OK);
}

EXPORT int nvmlShutdown(void) {
    pthread_mutex_lock(&lock);
    if (users == 0)
        return leave(UNINITIALIZED);
    users--;
    return leave(OK);
}

EXPORT const char *nvmlErrorString(int code) { return code == OK ? "Success" : "an error of the NVML fake"; }

EXPORT int nvmlSystemGetDriverVersion(char *out, unsigned capacity) {
    int code = enter();
    if (code != OK)
        return code;
    const char *v;
    code = text_at(&v, "driver");
    return leave(code == OK ? copy(out, capacity, v) : code);
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *out) {
    int code = enter();
    if (code != OK)
        return code;
    *out = (unsigned)count_gpus();
    return leave(OK);
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, device **out) {
    int code = enter();
    if (code != OK)
        return code;
    if (index >= (unsigned)count_gpus() || index >= MAX_GPUS)
        return leave(INVALID);
    const char *v;
    GPUs[index] = (device){ (int)index, -1 };
    *out = &GPUs[index];
    return leave(text_at(&v, "gpu.%u.lost", index) == OK ? LOST : OK);
}

TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetName, "name")
NUMBER(nvmlDeviceGetMinorNumber, unsigned, "minor")
NUMBER(nvmlDeviceGetPowerUsage, unsigned, "power")
NUMBER(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, "energy")
NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned, "power_limit")
NUMBER(nvmlDeviceGetPcieReplayCounter, unsigned, "pcie_replay")
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, "throttle")
NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, unsigned, "retired_pending")

EXPORT int nvmlDeviceGetPciInfo_v3(device *d, void *out) {
    struct {
        char legacy[16];
        unsigned domain, bus, device, id, subsystem;
        char text[32];
    } pci = { 0 };
    int code = at(d);
    if (code != OK)
        return code;
    const char *v;
    code = value_of(d, "pci", &v);
    if (code == OK)
        copy(pci.text, sizeof pci.text, v);
    memcpy(out, &pci, sizeof pci);
    return leave(code);
}

/* Two numbers for what one call gives. A GPU that is repartitioned has none, nor has a
 * MIG device. */
static int pair(device *d, const char *name, unsigned *first, unsigned *second) {
    int code = at(d);
    if (code != OK)
        return code;
    unsigned long long n[2] = { 0 };
    code = partitioned(d) ? NOT_SUPPORTED : numbers(d, name, n, 2);
    *first = (unsigned)n[0];
    *second = (unsigned)n[1];
    return leave(code);
}

EXPORT int nvmlDeviceGetUtilizationRates(device *d, unsigned *out) { return pair(d, "util", &out[0], &out[1]); }
EXPORT int nvmlDeviceGetEncoderUtilization(device *d, unsigned *percent, unsigned *period) { return pair(d, "enc", percent, period); }
EXPORT int nvmlDeviceGetDecoderUtilization(device *d, unsigned *percent, unsigned *period) { return pair(d, "dec", percent, period); }

/* A number that one more argument chooses: "clock.1". */
static int chosen(device *d, const char *name, int which, unsigned long long *out) {
    int code = at(d);
    if (code != OK)
        return code;
    char full[64];
    snprintf(full, sizeof full, "%s.%d", name, which);
    return leave(number(d, full, out));
}

EXPORT int nvmlDeviceGetClockInfo(device *d, int type, unsigned *out) {
    unsigned long long n = 0;
    int code = chosen(d, "clock", type, &n);
    *out = (unsigned)n;
    return code;
}

EXPORT int nvmlDeviceGetTemperature(device *d, int sensor, unsigned *out) {
    unsigned long long n = 0;
    int code = chosen(d, "temperature", sensor, &n);
    *out = (unsigned)n;
    return code;
}

EXPORT int nvmlDeviceGetViolationStatus(device *d, int policy, unsigned long long *out) {
    out[0] = 0;
    return chosen(d, "violation", policy, &out[1]);
}

EXPORT int nvmlDeviceGetTotalEccErrors(device *d, int kind, int since, unsigned long long *out) {
    return chosen(d, "ecc", 10 * since + kind, out);
}

EXPORT int nvmlDeviceGetRetiredPages(device *d, int cause, unsigned *count, unsigned long long *pages) {
    unsigned long long n = 0;
    int code = chosen(d, "retired", cause, &n);
    if (code == OK && n > *count)
        code = TOO_SMALL;
    if (code == OK && pages)
        memset(pages, 0, n * sizeof *pages);
    *count = (unsigned)n;
    return code;
}

EXPORT int nvmlDeviceGetRemappedRows(device *d, unsigned *correctable, unsigned *uncorrectable, unsigned *pending, unsigned *failed) {
    int code = at(d);
    if (code != OK)
        return code;
    unsigned long long n[4] = { 0 };
    code = numbers(d, "remapped", n, 4);
    *correctable = (unsigned)n[0];
    *uncorrectable = (unsigned)n[1];
    *pending = (unsigned)n[2];
    *failed = (unsigned)n[3];
    return leave(code);
}

typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} memory_v2;

EXPORT int nvmlDeviceGetMemoryInfo_v2(device *d, memory_v2 *out) {
    int code = at(d);
    if (code != OK)
        return code;
    if (out->version != (sizeof *out | 2u << 24))
        return leave(VERSION_MISMATCH);
    unsigned long long n[3] = { 0 }; /* total, used, reserved */
    code = numbers(d, "memory", n, 3);
    out->total = n[0];
    out->used = n[1];
    out->reserved = n[2];
    out->free = n[0] - n[1] - n[2];
    return leave(code);
}

typedef struct {
    unsigned id, scope;
    long long timestamp, latency;
    unsigned type, code;
    unsigned long long value;
} field_value;

EXPORT int nvmlDeviceGetFieldValues(device *d, int count, field_value *values) {
    int code = at(d);
    if (code != OK)
        return code;
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "field.%u", values[i].id);
        values[i].type = 1; /* unsigned int */
        values[i].value = 0;
        values[i].code = (unsigned)number(d, name, &values[i].value);
    }
    return leave(OK);
}

/* --- MIG ----------------------------------------------------------------- */

EXPORT int nvmlDeviceGetMigMode(device *d, unsigned *current, unsigned *pending) {
    int code = at(d);
    if (code != OK)
        return code;
    unsigned long long n = 0;
    code = d->instance >= 0 ? INVALID : number(d, "mig", &n);
    *current = *pending = (unsigned)n;
    return leave(code);
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(device *d, unsigned *out) {
    int code = at(d);
    if (code != OK)
        return code;
    unsigned long long n = 0;
    number(d, "mig_most", &n);
    *out = (unsigned)n;
    return leave(OK);
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(device *d, unsigned index, device **out) {
    int code = at(d);
    if (code != OK)
        return code;
    const char *v;
    if (d->instance >= 0 || index >= MAX_MIG)
        return leave(INVALID);
    if (!partitioned(d) || text_at(&v, "gpu.%d.mig.%u.uuid", d->GPU, index) != OK)
        return leave(NOT_FOUND);
    instances[d->GPU][index] = (device){ d->GPU, (int)index };
    *out = &instances[d->GPU][index];
    return leave(OK);
}

EXPORT int nvmlDeviceGetGpuInstanceId(device *d, unsigned *out) {
    int code = at(d);
    if (code != OK)
        return code;
    unsigned long long n = 0;
    code = d->instance < 0 ? INVALID : number(d, "gi", &n);
    *out = (unsigned)n;
    return leave(code);
}

/* Attributes: the GPU instance's slices are the seventh number. */
EXPORT int nvmlDeviceGetAttributes_v2(device *d, unsigned *out) {
    int code = at(d);
    if (code != OK)
        return code;
    unsigned long long n = 0;
    code = d->instance < 0 ? NOT_SUPPORTED : number(d, "slices", &n);
    memset(out, 0, 8 * sizeof *out + sizeof(unsigned long long));
    out[6] = out[7] = (unsigned)n;
    return leave(code);
}

static int by_instance(const device *d, unsigned id, device **out) {
    for (int i = 0; i < MAX_MIG; i++) {
        const char *v;
        if (text_at(&v, "gpu.%d.mig.%d.gi", d->GPU, i) == OK && (unsigned)atoi(v) == id) {
            instances[d->GPU][i] = (device){ d->GPU, i };
            *out = &instances[d->GPU][i];
            return OK;
        }
    }
    return NOT_FOUND;
}

EXPORT int nvmlDeviceGetGpuInstanceById(device *d, unsigned id, device **out) {
    int code = at(d);
    if (code != OK)
        return code;
    const char *v;
    code = text_at(&v, "gpu.%d.instances", d->GPU); /* "!4": no permission */
    return leave(code != NOT_SUPPORTED && code != OK ? code : by_instance(d, id, out));
}

typedef struct {
    device *device;
    unsigned id, profile, start, size;
} instance_info;

EXPORT int nvmlGpuInstanceGetInfo(device *d, instance_info *out) {
    int code = at(d);
    if (code != OK)
        return code;
    unsigned long long n[2] = { 0 }, id = 0;
    code = numbers(d, "place", n, 2);
    number(d, "gi", &id);
    *out = (instance_info){ &GPUs[d->GPU], (unsigned)id, 0, (unsigned)n[0], (unsigned)n[1] };
    return leave(code);
}

/* --- processes ----------------------------------------------------------- */

typedef struct {
    unsigned pid;
    unsigned long long memory;
    unsigned instance, compute;
} process_info;

/* "PID:BYTES PID:BYTES"; BYTES "-" is unknown to the driver. No line is no
 * process: a GPU always has the list. */
static int processes(device *d, const char *name, unsigned *count, process_info *out) {
    int code = at(d);
    if (code != OK)
        return code;
    const char *v;
    code = value_of(d, name, &v);
    if (v == NULL)
        code = OK, v = "";
    unsigned n = 0, capacity = *count;
    for (const char *p = v; code == OK && *p;) {
        char *end;
        unsigned long pid = strtoul(p, &end, 10);
        if (end == p || *end != ':')
            break;
        unsigned long long bytes = end[1] == '-' ? ~0ull : strtoull(end + 1, NULL, 10);
        if (n < capacity && out)
            out[n] = (process_info){ (unsigned)pid, bytes, ~0u, ~0u };
        n++;
        p = strchr(end, ' ');
        if (p == NULL)
            break;
        p++;
    }
    *count = n;
    return leave(code == OK && n > capacity ? TOO_SMALL : code);
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(device *d, unsigned *n, process_info *out) { return processes(d, "compute", n, out); }
EXPORT int nvmlDeviceGetMPSComputeRunningProcesses_v3(device *d, unsigned *n, process_info *out) { return processes(d, "mps", n, out); }
EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v3(device *d, unsigned *n, process_info *out) { return processes(d, "graphics", n, out); }

typedef struct {
    unsigned pid;
    unsigned long long timestamp;
    unsigned sm, memory, encoder, decoder;
} util_sample;

/* "PID:PERCENT PID:PERCENT", where "none" is that no process computed. A GPU that
 * is repartitioned has no such list. */
EXPORT int nvmlDeviceGetProcessUtilization(device *d, util_sample *out, unsigned *count, unsigned long long since) {
    int code = at(d);
    if (code != OK)
        return code;
    const char *v = "";
    code = partitioned(d) || d->instance >= 0 ? NOT_SUPPORTED : value_of(d, "sm", &v);
    if (code == OK && strcmp(v, "none") == 0)
        code = NOT_FOUND;
    unsigned n = 0, capacity = out ? *count : 0;
    for (const char *p = v; code == OK && *p;) {
        char *end;
        unsigned long pid = strtoul(p, &end, 10);
        if (end == p || *end != ':')
            break;
        if (n < capacity)
            out[n] = (util_sample){ (unsigned)pid, since + 1, (unsigned)strtoul(end + 1, NULL, 10), 0, 0, 0 };
        n++;
        p = strchr(end, ' ');
        if (p == NULL)
            break;
        p++;
    }
    *count = n;
    return leave(code == OK && n > capacity ? TOO_SMALL : code);
}

/* --- events -------------------------------------------------------------- */

/* A set receives what "gpu.0.xids" has behind the length it had when the GPU
 * was registered. */
typedef struct {
    bool used, registered[MAX_GPUS];
    int seen[MAX_GPUS];
} event_set;

static event_set sets[MAX_SETS];

typedef struct {
    device *device;
    unsigned long long type, data;
    unsigned instance, compute;
} event_data;

static int xid_at(int GPU, int index) {
    const char *v;
    if (text_at(&v, "gpu.%d.xids", GPU) != OK)
        return -1;
    char *end = (char *)v;
    for (int i = 0; *end; i++) {
        int xid = (int)strtol(end, &end, 10);
        if (i == index)
            return xid;
    }
    return -1;
}

EXPORT int nvmlEventSetCreate(event_set **out) {
    int code = enter();
    if (code != OK)
        return code;
    for (int i = 0; i < MAX_SETS; i++) {
        if (sets[i].used)
            continue;
        sets[i] = (event_set){ .used = true };
        *out = &sets[i];
        return leave(OK);
    }
    return leave(UNKNOWN);
}

EXPORT int nvmlDeviceRegisterEvents(device *d, unsigned long long types, event_set *set) {
    int code = at(d);
    if (code != OK)
        return code;
    const char *v;
    if (types != 8 || text_at(&v, "gpu.%d.xids", d->GPU) != OK)
        return leave(NOT_SUPPORTED);
    set->registered[d->GPU] = true;
    for (set->seen[d->GPU] = 0; xid_at(d->GPU, set->seen[d->GPU]) >= 0; set->seen[d->GPU]++) {
    }
    return leave(OK);
}

EXPORT int nvmlEventSetWait_v2(event_set *set, event_data *out, unsigned timeout) {
    (void)timeout; /* an event that comes later is for the next call */
    int code = enter();
    if (code != OK)
        return code;
    for (int c = 0; c < MAX_GPUS; c++) {
        int xid = set->registered[c] ? xid_at(c, set->seen[c]) : -1;
        if (xid < 0)
            continue;
        set->seen[c]++;
        *out = (event_data){ &GPUs[c], 8, (unsigned long long)xid, ~0u, ~0u };
        return leave(OK);
    }
    return leave(TIMEOUT);
}

EXPORT int nvmlEventSetFree(event_set *set) {
    int code = enter();
    if (code != OK)
        return code;
    set->used = false;
    return leave(OK);
}

/* --- GPM ----------------------------------------------------------------- */

typedef struct {
    device of;
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

EXPORT int nvmlGpmQueryDeviceSupport(device *d, unsigned *out) {
    int code = at(d);
    if (code != OK)
        return code;
    const char *v;
    out[1] = text_at(&v, "gpu.%d.gpm", d->GPU) == OK;
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

EXPORT int nvmlGpmSampleGet(device *d, gpm_sample *s) {
    int code = at(d);
    if (code != OK)
        return code;
    s->of = *d;
    return leave(partitioned(d) ? NOT_SUPPORTED : OK);
}

EXPORT int nvmlGpmMigSampleGet(device *d, unsigned id, gpm_sample *s) {
    int code = at(d);
    if (code != OK)
        return code;
    device *instance;
    code = by_instance(d, id, &instance);
    if (code == OK)
        s->of = *instance;
    return leave(code);
}

EXPORT int nvmlGpmMetricsGet(gpm_metrics *m) {
    int code = at(m->first ? &m->first->of : NULL);
    if (code != OK)
        return code;
    if (m->version != 1)
        return leave(VERSION_MISMATCH);
    if (memcmp(&m->first->of, &m->second->of, sizeof m->first->of) != 0)
        return leave(INVALID);
    for (unsigned i = 0; i < m->count; i++) {
        char name[32];
        const char *v;
        snprintf(name, sizeof name, "gpm.%u", m->metrics[i].id);
        m->metrics[i].code = (unsigned)value_of(&m->first->of, name, &v);
        m->metrics[i].value = m->metrics[i].code == OK ? strtod(v, NULL) : 0;
    }
    return leave(OK);
}
