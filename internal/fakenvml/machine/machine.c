#include "machine.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

int machine_lock(void) { return pthread_mutex_lock(&mutex); }
void machine_unlock(int *) { pthread_mutex_unlock(&mutex); }

/* Where a value, container or not, is in the text. */
typedef struct {
    char *path;
    size_t from, to;
} row;

/* The file that was read stays open, so that its inode is not reused for another file. */
static struct {
    int fd;
    struct stat is;
    char *text, *values; /* values is the text with each number, word and string ended by a NUL */
    row *rows;           /* sorted by path */
    size_t count;
    int64_t changed;
} file = { .fd = -1 };

int64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int64_t machine_changed(void) { return file.changed; }

/* --- reading -------------------------------------------------------------- */

static int by_path(const void *a, const void *b) { return strcmp(((const row *)a)->path, ((const row *)b)->path); }

/* Records the value at p and all values in it, and returns its end. */
static const char *note(const char *at, const char *p) {
    row *const noted = &file.rows[file.count++];
    *noted = (row){ .path = strdup(at), .from = (size_t)(p - file.text) };
    if (*p == '"') {
        while (*++p != '"')
            p += *p == '\\';
        p++;
    } else if (*p == '{' || *p == '[') {
        const bool named = *p++ == '{';
        for (int i = 0; *p != '}' && *p != ']'; i++) {
            char name[64], inner[128];
            int index = i, used = 0;
            if (named) {
                sscanf(p, "\"%63[^\"]\":%n", name, &used);
            } else {
                sscanf(p, "{\"ID\":%d", &index);
                snprintf(name, sizeof name, "%d", index);
            }
            snprintf(inner, sizeof inner, "%s%s%s", at, *at ? "." : "", name);
            p = note(inner, p + used);
            p += *p == ',';
        }
        p++;
    } else {
        p += strcspn(p, ",]}");
    }
    noted->to = (size_t)(p - file.text);
    return p;
}

/* Makes a text the machine. */
static void install(char *text) {
    size_t most = 1;
    for (const char *p = text; *p; p++)
        most += strchr(",[{", *p) != NULL;
    while (file.count > 0)
        free(file.rows[--file.count].path);
    free(file.rows);
    free(file.text);
    free(file.values);
    file.text = text;
    file.values = strdup(text);
    file.rows = calloc(most, sizeof *file.rows);
    file.changed = now_us();
    note("", text);
    for (row *r = file.rows; r < file.rows + file.count; r++)
        if (strchr("{[", text[r->from]) == NULL)
            file.values[r->to - (text[r->from] == '"')] = '\0';
    qsort(file.rows, file.count, sizeof *file.rows, by_path);
}

static bool refresh(void) {
    const char *name = getenv("FAKENVML_STATE");
    struct stat st;
    if (name == NULL || stat(name, &st) != 0)
        return false;
    if (file.fd >= 0 && st.st_ino == file.is.st_ino && st.st_dev == file.is.st_dev)
        return true;
    const int fd = open(name, O_RDONLY | O_CLOEXEC);
    char *text = fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0 ? calloc(1, (size_t)st.st_size + 1) : NULL;
    if (text == NULL || read(fd, text, (size_t)st.st_size) != st.st_size) {
        free(text);
        close(fd);
        return false;
    }
    close(file.fd);
    file.fd = fd;
    file.is = st;
    install(text);
    return true;
}

/* Puts a formatted path into out. */
#define FORMAT(out, format)              \
    va_list args;                        \
    va_start(args, format);              \
    vsnprintf(out, sizeof out, format, args); \
    va_end(args)

static const row *find(const char *at) { return bsearch(&(row){ .path = (char *)at }, file.rows, file.count, sizeof *file.rows, by_path); }

static const char *look(const char *at) {
    const row *r = find(at);
    const char *v = r ? file.values + r->from + (file.text[r->from] == '"') : NULL;
    return v && strcmp(v, "null") != 0 ? v : NULL;
}

const char *value_at(const char *format, ...) {
    char at[128];
    FORMAT(at, format);
    return look(at);
}

long long number_at(const char *format, ...) {
    char at[128];
    FORMAT(at, format);
    const char *v = look(at);
    return v == NULL ? 0 : strcmp(v, "true") == 0 ? 1 : atoll(v);
}

int numbers_of(const char *words, unsigned long long *out, int max) {
    int n = 0;
    for (char *end; words && n < max; words = end, n++) {
        out[n] = strtoull(words, &end, 10);
        if (end == words)
            break;
    }
    return n;
}

const char *path(const char *format, ...) {
    static _Thread_local char at[128];
    FORMAT(at, format);
    return at;
}

/* --- changes -------------------------------------------------------------- */

static void replace(size_t from, size_t to, const char *before, const char *new, const char *after) {
    char *text;
    if (asprintf(&text, "%.*s%s%s%s%s", (int)from, file.text, before, new, after, file.text + to) >= 0)
        install(text);
}

void set(const char *at, const char *format, ...) {
    char new[512];
    FORMAT(new, format);
    const row *r = find(at);
    replace(r->from, r->to, "", new, "");
}

void add(const char *at, const char *format, ...) {
    char new[512];
    FORMAT(new, format);
    const row *r = find(at);
    if (file.text[r->from] != '[') /* null */
        replace(r->from, r->to, "[", new, "]");
    else
        replace(r->to - 1, r->to, file.text[r->to - 2] == '[' ? "" : ",", new, "]");
}

void drop(const char *at) {
    const row *r = find(at);
    const bool last = file.text[r->to] != ',', first = file.text[r->from - 1] == '[';
    replace(r->from - (last && !first), r->to + !last, "", "", "");
}

static bool write_file(void) {
    const char *name = getenv("FAKENVML_STATE");
    char temporary[4096];
    snprintf(temporary, sizeof temporary, "%s.new", name);
    FILE *f = fopen(temporary, "w");
    if (f == NULL)
        return false;
    fputs(file.text, f);
    return fclose(f) == 0 && rename(temporary, name) == 0;
}

bool commit(void) {
    const char *kill = value_at("Lines.kill");
    const int change = (int)number_at("Changes") + 1;
    const bool dies = kill && atoi(kill) == change, after = dies && strstr(kill, "after");
    if (dies && !after)
        raise(SIGKILL);
    set("Changes", "%d", change);
    const bool written = write_file();
    if (dies)
        raise(SIGKILL);
    return written;
}

/* --- calls ---------------------------------------------------------------- */

int machine_enter(const char *function) {
    bool known = refresh();
    for (const int64_t begin = now_us(); known && now_us() - begin < 1000 * number_at("Lines.hang_ms"); known = refresh()) {
        pthread_mutex_unlock(&mutex);
        usleep(5000);
        pthread_mutex_lock(&mutex);
    }
    if (!known)
        return NO_MACHINE;
    const char *fails = value_at("Lines.fail.%s", function);
    int code = 0, times = 1;
    if (fails && sscanf(fails, "%d %d", &code, &times) == 2) {
        if (times < 1)
            return 0;
        set(path("Lines.fail.%s", function), "\"%d %d\"", code, times - 1);
        write_file();
    }
    return code;
}

/* --- MIG ------------------------------------------------------------------ */

bool profile_at(int gpu, int k, profile *out) {
    char at[64];
    snprintf(at, sizeof at, "GPUs.%d.Spec.Profiles.%d", gpu, k);
    *out = (profile){ .k = k, .name = value_at("%s.Name", at) };
    if (k < 0 || out->name == NULL)
        return false;
    out->compute = (int)number_at("%s.Compute", at);
    out->memory = (int)number_at("%s.Memory", at);
    out->attrs = (int)number_at("%s.Attrs", at);
    out->media = (int)number_at("%s.Media", at);
    out->max = (int)number_at("%s.Max", at);
    return true;
}

/* The text of a profile begins with the numbers that identify it. An instance has the same numbers. */
bool instance_at(int gpu, int gi, profile *out) {
    const row *mine = find(path("GPUs.%d.Instances.%d.Placement.Profile", gpu, gi)), *r;
    const size_t length = mine ? mine->to - mine->from - 1 : 0;
    for (int k = 0; mine && (r = find(path("GPUs.%d.Spec.Profiles.%d", gpu, k))) != NULL; k++)
        if (memcmp(file.text + mine->from, file.text + r->from, length) == 0 && file.text[r->from + length] == ',')
            return profile_at(gpu, k, out);
    return false;
}

unsigned profile_index(int gpu, const profile *p) {
    enum { MEDIA = 1, GRAPHICS = 2, ALL_MEDIA = 4, NO_MEDIA = 8 }; /* of gpu/mig */
    static const unsigned char indexes[8][9] = { /* NVML_GPU_INSTANCE_PROFILE_*, by compute slices and attributes */
        [1] = { 0, [MEDIA] = 7, [GRAPHICS] = 10, [NO_MEDIA] = 13, [ALL_MEDIA] = 15 },
        [2] = { 1, [MEDIA] = 8, [GRAPHICS] = 11, [NO_MEDIA] = 14, [ALL_MEDIA] = 16 },
        [3] = { 2 }, [4] = { 3, [GRAPHICS] = 12 }, [7] = { 4 },
    };
    profile q;
    for (int k = 0; p->compute == 1 && p->attrs == 0 && profile_at(gpu, k, &q); k++)
        if (q.attrs == 0 && q.compute == 1 && q.memory < p->memory)
            return 9; /* the one with twice the memory */
    return indexes[p->compute][p->attrs];
}

int compute_slices(int gpu, int gi, int ci) {
    profile p;
    const int slices = (int)number_at("GPUs.%d.Instances.%d.Computes.%d.Slices", gpu, gi, ci);
    const bool whole = slices == 0 && has("GPUs.%d.Instances.%d.Computes.%d", gpu, gi, ci);
    return whole && instance_at(gpu, gi, &p) ? p.compute : slices;
}
