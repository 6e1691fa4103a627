/* The state of the simulated machine: a file of lines, replaced at every change
 * under a lock of all processes, so that it outlives a process that is killed, as
 * hardware does. */
#include "fake.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int users, locked = -1;
static handle gpus[MAX_GPUS], gis[MAX_GPUS][MAX_GI], cis[MAX_GPUS][MAX_GI][MAX_CI], migs[MAX_GPUS][MAX_GI][MAX_CI];

handle *gpu_handle(int gpu) { return &gpus[gpu]; }
handle *gi_handle(int gpu, int gi) { return &gis[gpu][gi]; }
handle *ci_handle(int gpu, int gi, int ci) { return &cis[gpu][gi][ci]; }
handle *mig_handle(int gpu, int gi, int ci) { return &migs[gpu][gi][ci]; }

__attribute__((constructor)) static void fill_handles(void) {
    for (int g = 0; g < MAX_GPUS; g++) {
        gpus[g] = (handle){ g, -1, -1 };
        for (int i = 0; i < MAX_GI; i++) {
            gis[g][i] = (handle){ g, i, -1 };
            for (int c = 0; c < MAX_CI; c++)
                cis[g][i][c] = migs[g][i][c] = (handle){ g, i, c };
        }
    }
}

static bool state_path(char *out, size_t size, const char *suffix) {
    const char *path = getenv("FAKENVML_STATE");
    return path != NULL && snprintf(out, size, "%s%s", path, suffix) < (int)size;
}

static bool refresh(void) {
    char path[4096];
    return state_path(path, sizeof path, "") && lines_refresh(path);
}

int code_of(const char *value) { return value == NULL ? NOT_SUPPORTED : *value == '!' ? atoi(value + 1) : OK; }

int value_of(const handle *h, const char *name, const char **value) {
    return h->gi >= 0 ? text_at(value, "gpu.%d.gi.%d.%s", h->gpu, h->gi, name) : text_at(value, "gpu.%d.%s", h->gpu, name);
}

int number(const handle *h, const char *name, unsigned long long *out) { return numbers(h, name, out, 1); }

/* Reads "A B C" into n numbers; of fewer the rest is 0. */
int numbers(const handle *h, const char *name, unsigned long long *out, int n) {
    const char *v;
    int code = value_of(h, name, &v);
    if (code != OK)
        return code;
    char *end = (char *)v;
    for (int i = 0; i < n; i++)
        out[i] = strtoull(end, &end, 10);
    return OK;
}

int copy(char *out, unsigned capacity, const char *text) { return snprintf(out, capacity, "%s", text) < (int)capacity ? OK : TOO_SMALL; }

int count_gpus(void) {
    const char *v;
    int n = text_at(&v, "count") == OK ? atoi(v) : 0;
    return n < MAX_GPUS ? n : MAX_GPUS;
}

bool in_mig_mode(int gpu) {
    const char *v;
    return text_at(&v, "gpu.%d.mig", gpu) == OK && *v == '1';
}

/* --- calls --------------------------------------------------------------- */

int leave(int code) {
    if (locked >= 0)
        close(locked);
    locked = -1;
    pthread_mutex_unlock(&lock);
    return code;
}

static void lock_out(void) {
    char path[4096];
    if (state_path(path, sizeof path, ".lock"))
        locked = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (locked >= 0)
        flock(locked, LOCK_EX);
}

/* A state with "hang" keeps a call until the line is gone. */
static int begin(bool changes) {
    for (;;) {
        pthread_mutex_lock(&lock);
        if (changes)
            lock_out();
        bool known = refresh();
        if (users == 0)
            return leave(UNINITIALIZED);
        if (!known)
            return leave(UNKNOWN);
        if (look("hang") == NULL)
            return OK;
        leave(OK);
        usleep(5000);
    }
}

int enter(void) { return begin(false); }

static int check(const handle *h) {
    if (h == NULL || h->gpu >= count_gpus())
        return leave(INVALID);
    if (has("gpu.%d.lost", h->gpu))
        return leave(LOST);
    if (h->gi >= 0 && !has("gpu.%d.gi.%d.profile", h->gpu, h->gi))
        return leave(INVALID);
    if (h->ci >= 0 && !has("gpu.%d.gi.%d.ci.%d.uuid", h->gpu, h->gi, h->ci))
        return leave(INVALID);
    return OK;
}

int enter_gpu(const handle *h) {
    int code = enter();
    return code == OK ? check(h) : code;
}

/* The open device files, /dev/nvidiaN of the driver: one of every GPU from the initialisation on,
 * and more of a GPU whose handle was requested, until the library is closed. 0 is none. */
static int files[MAX_GPUS], handles[MAX_GPUS];

static void open_file(int *fd, const char *format, int gpu) {
    char name[32];
    snprintf(name, sizeof name, format, gpu);
    if (*fd <= 0)
        *fd = memfd_create(name, MFD_CLOEXEC);
}

static void close_file(int *fd) {
    if (*fd > 0)
        close(*fd);
    *fd = 0;
}

void attach(int gpu) { open_file(&handles[gpu], "nvidia%d:handle", gpu); }

int open_library(void) {
    pthread_mutex_lock(&lock);
    const char *v;
    int code = refresh() ? text_at(&v, "init") : NO_DRIVER;
    if (code == NOT_SUPPORTED)
        code = OK;
    users += code == OK;
    for (int gpu = 0; code == OK && gpu < count_gpus(); gpu++)
        open_file(&files[gpu], "nvidia%d", gpu);
    return leave(code);
}

int close_library(void) {
    pthread_mutex_lock(&lock);
    if (users == 0)
        return leave(UNINITIALIZED);
    users--;
    for (int gpu = 0; users == 0 && gpu < MAX_GPUS; gpu++) {
        close_file(&files[gpu]);
        close_file(&handles[gpu]);
    }
    return leave(OK);
}

/* --- changes ------------------------------------------------------------- */

static bool below(const char *path, const char *drop) {
    size_t n = strlen(drop);
    return strncmp(path, drop, n) == 0 && (path[n] == '\0' || path[n] == '.');
}

/* Writes the state without the lines at drop and below, and with those of add;
 * changes is how many there were, 0 leaves the count as it is. */
static int replace(const char *drop, const char *add, int changes) {
    char path[4096], temporary[4096];
    if (!state_path(path, sizeof path, "") || !state_path(temporary, sizeof temporary, ".new"))
        return UNKNOWN;
    FILE *f = fopen(temporary, "w");
    if (f == NULL)
        return UNKNOWN;
    size_t count;
    const line *lines = lines_all(&count);
    for (size_t i = 0; i < count; i++)
        if (!below(lines[i].path, drop) && (changes == 0 || strcmp(lines[i].path, "changes") != 0))
            fprintf(f, "%s %s\n", lines[i].path, lines[i].value);
    fputs(add, f);
    if (changes > 0)
        fprintf(f, "changes %d\n", changes);
    if (fclose(f) != 0 || rename(temporary, path) != 0)
        return UNKNOWN;
    return refresh() ? OK : UNKNOWN;
}

/* The fault of an operation: a code for the next calls, as many as it says. */
static int failing(const char *operation) {
    const char *v;
    int code = OK, times = 0;
    if (text_at(&v, "fail.%s", operation) != OK || sscanf(v, "%d %d", &code, &times) != 2 || times <= 0)
        return OK;
    char path[64], add[128];
    snprintf(path, sizeof path, "fail.%s", operation);
    snprintf(add, sizeof add, "%s %d %d\n", path, code, times - 1);
    return replace(path, add, 0) == OK ? code : UNKNOWN;
}

int enter_change(const handle *h, const char *operation) {
    int code = begin(true);
    if (code != OK || (code = check(h)) != OK)
        return code;
    code = failing(operation);
    return code == OK ? OK : leave(code);
}

int change(const char *drop, const char *format, ...) {
    char add[512];
    va_list args;
    va_start(args, format);
    vsnprintf(add, sizeof add, format, args);
    va_end(args);
    const char *v;
    int done = text_at(&v, "changes") == OK ? atoi(v) : 0, kill = 0;
    char when[8] = "";
    if (text_at(&v, "kill") == OK)
        sscanf(v, "%d %7s", &kill, when);
    bool after = strcmp(when, "after") == 0;
    if (kill == done + 1 && !after)
        raise(SIGKILL);
    if (replace(drop, add, done + 1) != OK)
        return leave(UNKNOWN);
    if (kill == done + 1 && after)
        raise(SIGKILL);
    return leave(OK);
}
