#include "lines.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file that was read stays open, so that its inode means no other file. */
static struct {
    int fd;
    struct stat is;
    char *text;
    line *lines;
    size_t count;
    unsigned version;
} file = { .fd = -1 };

static int by_path(const void *a, const void *b) { return strcmp(((const line *)a)->path, ((const line *)b)->path); }

static void parse(char *text) {
    size_t rows = 1;
    for (const char *p = text; *p; p++)
        rows += *p == '\n';
    free(file.lines);
    file.lines = calloc(rows, sizeof *file.lines);
    file.count = 0;
    for (char *save, *row = strtok_r(text, "\n", &save); row && file.lines; row = strtok_r(NULL, "\n", &save)) {
        char *space = strchr(row, ' ');
        if (space == NULL)
            continue;
        *space = '\0';
        file.lines[file.count++] = (line){ row, space + 1 };
    }
    qsort(file.lines, file.count, sizeof *file.lines, by_path);
}

bool lines_refresh(const char *path) {
    struct stat st;
    if (stat(path, &st) != 0)
        return false;
    if (file.fd >= 0 && st.st_ino == file.is.st_ino && st.st_dev == file.is.st_dev)
        return true;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    char *text = fstat(fd, &st) == 0 ? calloc(1, (size_t)st.st_size + 1) : NULL;
    if (text == NULL || read(fd, text, (size_t)st.st_size) != st.st_size) {
        free(text);
        close(fd);
        return false;
    }
    if (file.fd >= 0)
        close(file.fd);
    free(file.text);
    file.fd = fd;
    file.is = st;
    file.text = text;
    file.version++;
    parse(text);
    return true;
}

unsigned lines_version(void) { return file.version; }

const line *lines_all(size_t *count) {
    *count = file.count;
    return file.lines;
}

const char *look(const char *path) {
    line *l = bsearch(&(line){ path, NULL }, file.lines, file.count, sizeof *file.lines, by_path);
    return l ? l->value : NULL;
}

const char *value_at(const char *format, ...) {
    char path[128];
    va_list args;
    va_start(args, format);
    vsnprintf(path, sizeof path, format, args);
    va_end(args);
    return look(path);
}

static bool parse_profile(int index, const char *text, profile *p) {
    int used = 0;
    *p = (profile){ .index = index };
    if (sscanf(text, "%d %d %d %d %d %d %63s %n", &p->id, &p->slices, &p->size, &p->media, &p->most, &p->memory, p->name, &used) != 7)
        return false;
    for (char *at = (char *)text + used, *end; p->nstarts < MAX_STARTS; at = end) {
        long start = strtol(at, &end, 10);
        if (end == at)
            break;
        p->starts[p->nstarts++] = (int)start;
    }
    return true;
}

bool profile_by_index(int gpu, int index, profile *out) {
    const char *v = value_at("gpu.%d.profile.%d", gpu, index);
    return v != NULL && parse_profile(index, v, out);
}

bool profile_by_id(int gpu, int id, profile *out) {
    for (int i = 0; i < MAX_PROFILES; i++)
        if (profile_by_index(gpu, i, out) && out->id == id)
            return true;
    return false;
}

bool instance_at(int gpu, int gi, profile *p, int *start) {
    const char *v = value_at("gpu.%d.gi.%d.profile", gpu, gi);
    int id;
    return v != NULL && sscanf(v, "%d %d", &id, start) == 2 && profile_by_id(gpu, id, p);
}
