/* The state file of lines "path value", which the fakes of NVIDIA's libraries read. */
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
/* Another one whenever a file was read. */
unsigned lines_version(void);
/* All lines, sorted by path. */
const line *lines_all(size_t *count);
/* The value at a path; NULL without the line. */
const char *look(const char *path);
const char *value_at(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define has(...) (value_at(__VA_ARGS__) != NULL)

/* Bounds of the driver: 15 GPU instances on a GPU, 8 compute instances in one. */
enum { MAX_GPUS = 32, MAX_GI = 15, MAX_CI = 8, MAX_PROFILES = 17, MAX_STARTS = 16 };

/* A GPU instance profile, which slices it takes and where it may be. */
typedef struct {
    int index, id, slices, size, media, most, memory, nstarts, starts[MAX_STARTS];
    char name[64];
} profile;

/* The profile with an index or an id; false where a GPU has none. */
bool profile_by_index(int gpu, int index, profile *out);
bool profile_by_id(int gpu, int id, profile *out);
/* The profile and start of a GPU instance; false where there is none. */
bool instance_at(int gpu, int gi, profile *p, int *start);

#endif
