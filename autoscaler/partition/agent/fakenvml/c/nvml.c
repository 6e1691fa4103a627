/* A fake of NVIDIA's libnvidia-ml.so.1 for changing MIG layouts. The state of
 * the simulated machine is a file, FAKENVML_STATE: it is read at every call and
 * written at every change, under a lock, so that it outlives a process that is
 * killed, as hardware does.
 *
 * It answers as the driver does. An instance is made only where the product's
 * placements allow it and slices are left; one that a process uses cannot be
 * destroyed, nor a GPU instance that still has a compute instance; a mode change
 * may need an idle GPU, an idle machine or a reboot; a GPU that fell off
 * answers GPU_IS_LOST. A line "kill N before|after" ends the process at the Nth
 * change, "fail OP CODE N" makes the next N calls of an operation fail. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, LOST = 15,
    RESET_REQUIRED = 16, IN_USE = 19, INSUFFICIENT = 23, UNKNOWN = 999,
};

enum { MAX_GPUS = 16, MAX_PROFILES = 18, MAX_GI = 64, MAX_STARTS = 16, MAX_FAILS = 8, CI_PROFILES = 9 };

/* How a change of the MIG mode takes effect. */
enum { AT_ONCE = 0, WITH_RESET = 1, WITH_REBOOT = 2 };

typedef struct {
    int index, id, slices, size, media, count, memory, nstarts, starts[MAX_STARTS];
    char name[96];
} profile;

typedef struct {
    int id, profile, start, ci, pid;
    char uuid[64];
} instance;

typedef struct {
    int mig, pending, change, lost, compute, media, memory, pid, serial, nprofiles, ninstances;
    char uuid[64], name[96];
    profile profiles[MAX_PROFILES];
    instance instances[MAX_GI];
} GPU;

static struct {
    char driver[40];
    int hang, kill, kill_after, changes, ngpus, nfails;
    GPU gpus[MAX_GPUS];
    struct {
        char op[24];
        int code, times;
    } fails[MAX_FAILS];
} s;

/* Handles refer to their subject by number, so they stay valid after a change. */
typedef struct {
    int gpu, id;
} handle;

static handle devices[MAX_GPUS], migs[MAX_GPUS][MAX_GI], gis[MAX_GPUS][MAX_GI], cis[MAX_GPUS][MAX_GI];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int users, locked = -1;

/* --- the state file ------------------------------------------------------ */

static GPU *gpu_of(int i) {
    static GPU none;
    if (i < 0 || i >= MAX_GPUS)
        return &none;
    if (i >= s.ngpus)
        s.ngpus = i + 1;
    return &s.gpus[i];
}

static void parse_profile(const char *row) {
    profile p = { 0 };
    int i, used = 0;
    if (sscanf(row, "%d %d %d %d %d %d %d %d %95s %n", &i, &p.index, &p.id, &p.slices, &p.size, &p.media, &p.count, &p.memory, p.name, &used) != 9)
        return;
    for (char *at = (char *)row + used, *end; p.nstarts < MAX_STARTS; at = end) {
        long start = strtol(at, &end, 10);
        if (end == at)
            break;
        p.starts[p.nstarts++] = (int)start;
    }
    GPU *c = gpu_of(i);
    if (c->nprofiles < MAX_PROFILES)
        c->profiles[c->nprofiles++] = p;
}

static void parse_line(char *row) {
    char word[24] = "";
    int used = 0, i;
    if (sscanf(row, "%23s %n", word, &used) != 1)
        return;
    const char *rest = row + used;
    if (strcmp(word, "driver") == 0) {
        sscanf(rest, "%39s", s.driver);
    } else if (strcmp(word, "hang") == 0) {
        s.hang = 1;
    } else if (strcmp(word, "changes") == 0) {
        s.changes = atoi(rest);
    } else if (strcmp(word, "kill") == 0) {
        char when[8] = "";
        sscanf(rest, "%d %7s", &s.kill, when);
        s.kill_after = strcmp(when, "after") == 0;
    } else if (strcmp(word, "fail") == 0 && s.nfails < MAX_FAILS) {
        sscanf(rest, "%23s %d %d", s.fails[s.nfails].op, &s.fails[s.nfails].code, &s.fails[s.nfails].times);
        s.nfails++;
    } else if (strcmp(word, "profile") == 0) {
        parse_profile(rest);
    } else if (strcmp(word, "instance") == 0) {
        instance g = { 0 };
        if (sscanf(rest, "%d %d %d %d %d %d %63s", &i, &g.id, &g.profile, &g.start, &g.ci, &g.pid, g.uuid) == 7 && gpu_of(i)->ninstances < MAX_GI)
            gpu_of(i)->instances[gpu_of(i)->ninstances++] = g;
    } else if (strcmp(word, "gpu") == 0) {
        GPU c = { 0 };
        if (sscanf(rest, "%d %63s %d %d %d %d %d %d %d %d %d %95[^\n]", &i, c.uuid, &c.mig, &c.pending, &c.change, &c.lost, &c.compute, &c.media, &c.memory, &c.pid, &c.serial, c.name) == 12)
            *gpu_of(i) = c;
    }
}

static void read_state(void) {
    memset(&s, 0, sizeof s);
    FILE *f = fopen(getenv("FAKENVML_STATE") ? getenv("FAKENVML_STATE") : "", "r");
    if (f == NULL)
        return;
    char row[512];
    while (fgets(row, sizeof row, f) != NULL)
        parse_line(row);
    fclose(f);
}

static int write_state(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s.new", getenv("FAKENVML_STATE"));
    FILE *f = fopen(path, "w");
    if (f == NULL)
        return UNKNOWN;
    fprintf(f, "driver %s\nchanges %d\n", s.driver, s.changes);
    if (s.hang)
        fprintf(f, "hang 1\n");
    if (s.kill)
        fprintf(f, "kill %d %s\n", s.kill, s.kill_after ? "after" : "before");
    for (int i = 0; i < s.nfails; i++)
        fprintf(f, "fail %s %d %d\n", s.fails[i].op, s.fails[i].code, s.fails[i].times);
    for (int i = 0; i < s.ngpus; i++) {
        GPU *c = &s.gpus[i];
        fprintf(f, "gpu %d %s %d %d %d %d %d %d %d %d %d %s\n", i, c->uuid, c->mig, c->pending, c->change, c->lost, c->compute, c->media, c->memory, c->pid, c->serial, c->name);
        for (int k = 0; k < c->nprofiles; k++) {
            profile *p = &c->profiles[k];
            fprintf(f, "profile %d %d %d %d %d %d %d %d %s", i, p->index, p->id, p->slices, p->size, p->media, p->count, p->memory, p->name);
            for (int n = 0; n < p->nstarts; n++)
                fprintf(f, " %d", p->starts[n]);
            fputc('\n', f);
        }
        for (int k = 0; k < c->ninstances; k++) {
            instance *g = &c->instances[k];
            fprintf(f, "instance %d %d %d %d %d %d %s\n", i, g->id, g->profile, g->start, g->ci, g->pid, g->uuid);
        }
    }
    return fclose(f) == 0 && rename(path, getenv("FAKENVML_STATE")) == 0 ? OK : UNKNOWN;
}

/* --- calls --------------------------------------------------------------- */

static void take_file(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s.lock", getenv("FAKENVML_STATE") ? getenv("FAKENVML_STATE") : "/dev/null");
    locked = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (locked >= 0)
        flock(locked, LOCK_EX);
}

static int leave(int code) {
    if (locked >= 0)
        close(locked);
    locked = -1;
    pthread_mutex_unlock(&lock);
    return code;
}

static int enter(void) {
    for (;;) {
        pthread_mutex_lock(&lock);
        take_file();
        read_state();
        if (!s.hang)
            break;
        leave(OK);
        usleep(5000);
    }
    return users == 0 ? leave(UNINITIALIZED) : OK;
}

/* Ends the process if the state requests it: a crash between two changes. */
static void changing(bool after) {
    if (s.kill != 0 && s.changes + (after ? 0 : 1) == s.kill && s.kill_after == after)
        raise(SIGKILL);
}

/* Writes a change to the file. */
static int changed(void) {
    s.changes++;
    int code = write_state();
    if (code == OK)
        changing(true);
    return leave(code);
}

/* The code of the next failure of an operation. */
static int failing(const char *op) {
    for (int i = 0; i < s.nfails; i++)
        if (strcmp(s.fails[i].op, op) == 0 && s.fails[i].times > 0) {
            s.fails[i].times--;
            int code = s.fails[i].code;
            return write_state() == OK ? code : UNKNOWN;
        }
    return OK;
}

static int at(const handle *h, GPU **c) {
    int code = enter();
    if (code != OK)
        return code;
    if (h == NULL || h->gpu >= s.ngpus)
        return leave(INVALID);
    *c = &s.gpus[h->gpu];
    return (*c)->lost ? leave(LOST) : OK;
}

static instance *instance_of(GPU *c, int id) {
    for (int i = 0; i < c->ninstances; i++)
        if (c->instances[i].id == id)
            return &c->instances[i];
    return NULL;
}

static profile *profile_of(GPU *c, int id) {
    for (int i = 0; i < c->nprofiles; i++)
        if (c->profiles[i].id == id)
            return &c->profiles[i];
    return NULL;
}

static int at_instance(const handle *h, GPU **c, instance **g) {
    int code = at(h, c);
    if (code != OK)
        return code;
    *g = instance_of(*c, h->id);
    return *g == NULL ? leave(NOT_FOUND) : OK;
}

static int copy(char *out, unsigned size, const char *text) {
    return snprintf(out, size, "%s", text) < (int)size ? OK : TOO_SMALL;
}

EXPORT int nvmlInit_v2(void) {
    pthread_mutex_lock(&lock);
    users++;
    pthread_mutex_unlock(&lock);
    return OK;
}

EXPORT int nvmlShutdown(void) {
    pthread_mutex_lock(&lock);
    int code = users > 0 ? OK : UNINITIALIZED;
    users -= users > 0;
    pthread_mutex_unlock(&lock);
    return code;
}

EXPORT const char *nvmlErrorString(int code) { return code == OK ? "Success" : "an error of the fake NVML library"; }

EXPORT int nvmlSystemGetDriverVersion(char *out, unsigned size) {
    int code = enter();
    return code != OK ? code : leave(copy(out, size, s.driver));
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *out) {
    int code = enter();
    if (code != OK)
        return code;
    *out = (unsigned)s.ngpus;
    return leave(OK);
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned i, handle **out) {
    int code = enter();
    if (code != OK)
        return code;
    if (i >= (unsigned)s.ngpus)
        return leave(INVALID);
    devices[i] = (handle){ (int)i, -1 };
    *out = &devices[i];
    return leave(s.gpus[i].lost ? LOST : OK);
}

EXPORT int nvmlDeviceGetUUID(handle *d, char *out, unsigned size) {
    GPU *c;
    int code = at(d, &c);
    if (code != OK)
        return code;
    if (d->id < 0)
        return leave(copy(out, size, c->uuid));
    instance *g = instance_of(c, d->id);
    return leave(g == NULL ? NOT_FOUND : copy(out, size, g->uuid));
}

EXPORT int nvmlDeviceGetName(handle *d, char *out, unsigned size) {
    GPU *c;
    int code = at(d, &c);
    return code != OK ? code : leave(copy(out, size, c->name));
}

EXPORT int nvmlDeviceGetMemoryInfo(handle *d, unsigned long long *out) {
    GPU *c;
    int code = at(d, &c);
    if (code != OK)
        return code;
    out[0] = out[1] = (unsigned long long)c->memory << 20;
    out[2] = 0;
    return leave(OK);
}

typedef struct {
    unsigned pid;
    unsigned long long memory;
    unsigned gi, ci;
} process;

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(handle *d, unsigned *count, process *out) {
    GPU *c;
    int code = at(d, &c);
    if (code != OK)
        return code;
    unsigned n = 0, size = *count;
    if (c->pid && n++ < size)
        out[n - 1] = (process){ (unsigned)c->pid, 1 << 20, 0xffffffff, 0xffffffff };
    for (int i = 0; i < c->ninstances; i++)
        if (c->instances[i].pid && n++ < size)
            out[n - 1] = (process){ (unsigned)c->instances[i].pid, 1 << 20, (unsigned)c->instances[i].id, 0 };
    *count = n;
    return leave(n <= size ? OK : TOO_SMALL);
}

/* --- the mode ------------------------------------------------------------ */

EXPORT int nvmlDeviceGetMigMode(handle *d, unsigned *current, unsigned *pending) {
    GPU *c;
    int code = at(d, &c);
    if (code != OK)
        return code;
    if (c->nprofiles == 0)
        return leave(NOT_SUPPORTED);
    *current = (unsigned)c->mig;
    *pending = (unsigned)c->pending;
    return leave(OK);
}

static bool in_use(GPU *c) {
    if (c->pid)
        return true;
    for (int i = 0; i < c->ninstances; i++)
        if (c->instances[i].pid)
            return true;
    return false;
}

EXPORT int nvmlDeviceSetMigMode(handle *d, unsigned mode, int *activation) {
    GPU *c;
    int code = at(d, &c);
    if (code != OK)
        return code;
    if (c->nprofiles == 0)
        return leave(NOT_SUPPORTED);
    if (mode > 1)
        return leave(INVALID);
    if ((code = failing("mode")) != OK)
        return leave(code);
    if (c->ninstances > 0 && mode == 0)
        return leave(IN_USE);
    changing(false);
    c->pending = (int)mode;
    *activation = OK;
    bool busy = in_use(c);
    for (int i = 0; i < s.ngpus && c->change == WITH_RESET; i++)
        busy = busy || in_use(&s.gpus[i]);
    if (c->mig == c->pending)
        return changed();
    if (c->change == WITH_REBOOT)
        *activation = RESET_REQUIRED;
    else if (busy)
        *activation = IN_USE;
    else
        c->mig = c->pending;
    if (*activation != OK && c->change == AT_ONCE)
        c->pending = c->mig;
    return changed();
}

/* --- GPU instances ------------------------------------------------------- */

typedef struct {
    unsigned version, id, p2p, slices, count, multiprocessors, copy, decoders, encoders, jpeg, ofa;
    unsigned long long memory;
    char name[96];
} profile_v2;

typedef struct {
    unsigned start, size;
} span;

EXPORT int nvmlDeviceGetGpuInstanceProfileInfoV(handle *d, unsigned index, profile_v2 *out) {
    GPU *c;
    int code = at(d, &c);
    if (code != OK)
        return code;
    for (int i = 0; i < c->nprofiles; i++) {
        profile *p = &c->profiles[i];
        if (p->index != (int)index)
            continue;
        out->id = (unsigned)p->id;
        out->slices = (unsigned)p->slices;
        out->count = (unsigned)p->count;
        out->decoders = (unsigned)p->media;
        out->memory = (unsigned long long)p->memory;
        snprintf(out->name, sizeof out->name, "MIG %.90s", p->name);
        return leave(OK);
    }
    return leave(index < MAX_PROFILES ? NOT_SUPPORTED : INVALID);
}

static int spans(handle *d, unsigned id, span *out, unsigned *count) {
    GPU *c;
    int code = at(d, &c);
    if (code != OK)
        return code;
    profile *p = profile_of(c, (int)id);
    if (p == NULL || !c->mig)
        return leave(NOT_SUPPORTED);
    for (int i = 0; out != NULL && i < p->nstarts && i < (int)*count; i++)
        out[i] = (span){ (unsigned)p->starts[i], (unsigned)p->size };
    *count = (unsigned)p->nstarts;
    return leave(OK);
}

EXPORT int nvmlDeviceGetGpuInstancePossiblePlacements_v2(handle *d, unsigned id, span *out, unsigned *count) { return spans(d, id, out, count); }
EXPORT int nvmlDeviceGetGpuInstancePossiblePlacements(handle *d, unsigned id, span *out, unsigned *count) { return spans(d, id, out, count); }

EXPORT int nvmlDeviceGetGpuInstances(handle *d, unsigned id, handle **out, unsigned *count) {
    GPU *c;
    int code = at(d, &c);
    if (code != OK)
        return code;
    if (!c->mig)
        return leave(NOT_SUPPORTED);
    unsigned n = 0;
    for (int i = 0; i < c->ninstances; i++)
        if (c->instances[i].profile == (int)id) {
            handle *h = &gis[d->gpu][c->instances[i].id];
            *h = (handle){ d->gpu, c->instances[i].id };
            out[n++] = h;
        }
    *count = n;
    return leave(OK);
}

EXPORT int nvmlGpuInstanceGetInfo(handle *h, void *out) {
    struct {
        handle *device;
        unsigned id, profile;
        span place;
    } info;
    GPU *c;
    instance *g;
    int code = at_instance(h, &c, &g);
    if (code != OK)
        return code;
    profile *p = profile_of(c, g->profile);
    devices[h->gpu] = (handle){ h->gpu, -1 };
    info.device = &devices[h->gpu];
    info.id = (unsigned)g->id;
    info.profile = (unsigned)g->profile;
    info.place = (span){ (unsigned)g->start, p ? (unsigned)p->size : 0 };
    memcpy(out, &info, sizeof info);
    return leave(OK);
}

/* Returns OK if one more instance fits a GPU at a start. */
static int fits(GPU *c, profile *p, int start) {
    bool may = false;
    for (int i = 0; i < p->nstarts; i++)
        may = may || p->starts[i] == start;
    if (!may)
        return INVALID;
    int slices = p->slices, media = p->media, same = 1;
    for (int i = 0; i < c->ninstances; i++) {
        instance *g = &c->instances[i];
        profile *q = profile_of(c, g->profile);
        if (q == NULL)
            continue;
        if (start < g->start + q->size && g->start < start + p->size)
            return INSUFFICIENT;
        slices += q->slices;
        media += q->media;
        same += q == p;
    }
    return slices > c->compute || media > c->media || same > p->count ? INSUFFICIENT : OK;
}

static int free_id(GPU *c) {
    for (int id = 1; id < MAX_GI; id++)
        if (instance_of(c, id) == NULL)
            return id;
    return 0;
}

EXPORT int nvmlDeviceCreateGpuInstanceWithPlacement(handle *d, unsigned id, const span *place, handle **out) {
    GPU *c;
    int code = at(d, &c);
    if (code != OK)
        return code;
    profile *p = profile_of(c, (int)id);
    if (p == NULL || !c->mig)
        return leave(NOT_SUPPORTED);
    if ((code = failing("create")) != OK || (code = fits(c, p, (int)place->start)) != OK)
        return leave(code);
    instance g = { .id = free_id(c), .profile = p->id, .start = (int)place->start };
    if (g.id == 0 || c->ninstances == MAX_GI)
        return leave(INSUFFICIENT);
    changing(false);
    snprintf(g.uuid, sizeof g.uuid, "MIG-%d-%d", d->gpu, ++c->serial);
    c->instances[c->ninstances++] = g;
    gis[d->gpu][g.id] = (handle){ d->gpu, g.id };
    *out = &gis[d->gpu][g.id];
    return changed();
}

EXPORT int nvmlGpuInstanceDestroy(handle *h) {
    GPU *c;
    instance *g;
    int code = at_instance(h, &c, &g);
    if (code != OK)
        return code;
    if ((code = failing("destroy")) != OK)
        return leave(code);
    if (g->ci || g->pid)
        return leave(IN_USE);
    changing(false);
    int i = (int)(g - c->instances);
    memmove(g, g + 1, sizeof *g * (size_t)(c->ninstances - i - 1));
    c->ninstances--;
    return changed();
}

/* --- compute instances: one that has the whole GPU instance -------------- */

static const int ci_slices[CI_PROFILES] = { 1, 2, 3, 4, 7, 8, 6, 1, 7 };

EXPORT int nvmlGpuInstanceGetComputeInstanceProfileInfo(handle *h, unsigned index, unsigned engine, unsigned *out) {
    GPU *c;
    instance *g;
    int code = at_instance(h, &c, &g);
    if (code != OK)
        return code;
    profile *p = profile_of(c, g->profile);
    if (index >= CI_PROFILES || engine != 0)
        return leave(INVALID);
    if (p == NULL || ci_slices[index] > p->slices || index > 6)
        return leave(NOT_SUPPORTED);
    memset(out, 0, 9 * sizeof *out);
    out[0] = index;
    out[1] = (unsigned)ci_slices[index];
    out[2] = (unsigned)(p->slices / ci_slices[index]);
    return leave(OK);
}

EXPORT int nvmlGpuInstanceGetComputeInstances(handle *h, unsigned id, handle **out, unsigned *count) {
    GPU *c;
    instance *g;
    int code = at_instance(h, &c, &g);
    if (code != OK)
        return code;
    profile *p = profile_of(c, g->profile);
    *count = 0;
    if (g->ci && p != NULL && id < CI_PROFILES && ci_slices[id] == p->slices) {
        cis[h->gpu][g->id] = (handle){ h->gpu, g->id };
        out[(*count)++] = &cis[h->gpu][g->id];
    }
    return leave(OK);
}

EXPORT int nvmlGpuInstanceCreateComputeInstance(handle *h, unsigned id, handle **out) {
    GPU *c;
    instance *g;
    int code = at_instance(h, &c, &g);
    if (code != OK)
        return code;
    profile *p = profile_of(c, g->profile);
    if ((code = failing("create-compute")) != OK)
        return leave(code);
    if (p == NULL || id >= CI_PROFILES || ci_slices[id] > p->slices)
        return leave(INVALID);
    if (g->ci)
        return leave(INSUFFICIENT);
    changing(false);
    g->ci = 1;
    cis[h->gpu][g->id] = (handle){ h->gpu, g->id };
    *out = &cis[h->gpu][g->id];
    return changed();
}

EXPORT int nvmlComputeInstanceDestroy(handle *h) {
    GPU *c;
    instance *g;
    int code = at_instance(h, &c, &g);
    if (code != OK)
        return code;
    if ((code = failing("destroy-compute")) != OK)
        return leave(code);
    if (!g->ci)
        return leave(NOT_FOUND);
    if (g->pid)
        return leave(IN_USE);
    changing(false);
    g->ci = 0;
    return changed();
}

/* --- MIG devices --------------------------------------------------------- */

EXPORT int nvmlDeviceGetMaxMigDeviceCount(handle *d, unsigned *out) {
    GPU *c;
    int code = at(d, &c);
    if (code != OK)
        return code;
    *out = (unsigned)c->compute;
    return leave(OK);
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(handle *d, unsigned index, handle **out) {
    GPU *c;
    int code = at(d, &c);
    if (code != OK)
        return code;
    unsigned n = 0;
    for (int i = 0; i < c->ninstances; i++)
        if (c->instances[i].ci && n++ == index) {
            int id = c->instances[i].id;
            migs[d->gpu][id] = (handle){ d->gpu, id };
            *out = &migs[d->gpu][id];
            return leave(OK);
        }
    return leave(index < (unsigned)c->compute ? NOT_FOUND : INVALID);
}

EXPORT int nvmlDeviceGetGpuInstanceId(handle *d, unsigned *out) {
    if (d == NULL || d->id < 0)
        return INVALID;
    *out = (unsigned)d->id;
    return OK;
}
