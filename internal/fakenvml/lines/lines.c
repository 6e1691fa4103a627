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
    parse(text);
    return true;
}

const line *lines_all(size_t *count) {
    *count = file.count;
    return file.lines;
}

const char *look(const char *path) {
    line *l = bsearch(&(line){ path, NULL }, file.lines, file.count, sizeof *file.lines, by_path);
    return l ? l->value : NULL;
}

static const char *look_at(const char *format, va_list args) {
    char path[128];
    vsnprintf(path, sizeof path, format, args);
    return look(path);
}

const char *value_at(const char *format, ...) {
    va_list args;
    va_start(args, format);
    const char *value = look_at(format, args);
    va_end(args);
    return value;
}

bool has(const char *format, ...) {
    va_list args;
    va_start(args, format);
    const char *value = look_at(format, args);
    va_end(args);
    return value != NULL;
}
