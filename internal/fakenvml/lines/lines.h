/* A state file of lines "path value", which the fakes of NVIDIA's libraries read. */
#ifndef FAKENVML_LINES_H
#define FAKENVML_LINES_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    const char *path, *value;
} line;

/* Reads the file again when another one stands at the path; false when it cannot
 * be read. What was read before then stays. */
bool lines_refresh(const char *path);
/* All lines, sorted by path. */
const line *lines_all(size_t *count);
/* The value at a path; NULL without the line. */
const char *look(const char *path);
const char *value_at(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool has(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
