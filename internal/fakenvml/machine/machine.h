/* The machine that the fakes of NVIDIA's libraries show. It is the file that FAKENVML_STATE names: a
 * State of Go as JSON. The file is replaced at every change, so that like hardware it outlives a
 * process that is killed. One process at a time changes it. */
#ifndef FAKENVML_MACHINE_H
#define FAKENVML_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bounds of the driver: 15 GPU instances on a GPU, 8 compute instances in one. */
enum { MAX_GPUS = 32, MAX_GI = 15, MAX_CI = 8 };

/* Takes the lock, and releases it at the end of the block. */
#define LOCKED __attribute__((cleanup(machine_unlock), unused)) int lock = machine_lock()
int machine_lock(void);
void machine_unlock(int *lock);
/* Begins a call of a library; the caller has the lock. Reads the file if it was replaced, and waits while
 * the machine hangs. Returns 0, the code with which the machine lets the function fail, or NO_MACHINE if
 * the file cannot be read; what was read before is then kept. */
enum { NO_MACHINE = 1 << 20 };
int machine_enter(const char *function);
int64_t now_us(void); /* microseconds since 1970 */
/* When the machine was last seen to have changed. */
int64_t machine_changed(void);

/* The value at a path, "GPUs.0.Name", as text; NULL if there is none. A list element whose first field
 * is "ID" has that as its place in the path, others their position. Valid until the machine changes or
 * the lock is released. */
const char *value_at(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define has(...) (value_at(__VA_ARGS__) != NULL)
/* The same as a number, true as 1; 0 if there is none. */
long long number_at(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Reads words as numbers, and returns how many there are. */
int numbers_of(const char *words, unsigned long long *out, int max);

/* A path; valid until the thread's next one. */
const char *path(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Replace a value, append to a list, and remove an element of one, in memory until commit. */
void set(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));
void add(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));
void drop(const char *path);
/* Writes one change of the machine, and reports whether that worked. The process may be killed before
 * or after it. */
bool commit(void);

/* The k-th GPU instance profile of a GPU; sizes are in slices. */
typedef struct {
    int k, compute, memory, attrs, media, max;
    const char *name;
} profile;
/* False if there is no such profile or GPU instance. */
bool profile_at(int gpu, int k, profile *out);
bool instance_at(int gpu, int gi, profile *out);
/* NVML's index of a profile. */
unsigned profile_index(int gpu, const profile *p);
/* The compute slices of a compute instance; 0 if it does not exist. */
int compute_slices(int gpu, int gi, int ci);

#endif
