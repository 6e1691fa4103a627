/* The machine that the fakes of NVIDIA's libraries show: the file that FAKENVML_STATE names, a State
 * of Go as JSON. It is replaced at every change, so that it outlives a process that is killed, as
 * hardware does. One process at a time changes it. */
#ifndef FAKENVML_MACHINE_H
#define FAKENVML_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bounds of the driver: 15 GPU instances on a GPU, 8 compute instances in one. */
enum { MAX_GPUS = 32, MAX_GI = 15, MAX_CI = 8 };

/* Takes the lock, and gives it back at the end of the block. */
#define LOCKED __attribute__((cleanup(machine_unlock), unused)) int lock = machine_lock()
int machine_lock(void);
void machine_unlock(int *lock);
/* Begins a call of a library, with the lock: reads the file when another one stands there, and waits for as
 * long as the machine hangs. Gives 0, the code with which the machine says that the function fails, or
 * NO_MACHINE when the file cannot be read; what was read before then stays. */
enum { NO_MACHINE = 1 << 20 };
int machine_enter(const char *function);
int64_t now_us(void); /* microseconds since 1970 */
/* When the machine was last seen to have changed. */
int64_t machine_changed(void);

/* The value at a path, "GPUs.0.Name", as text; NULL where there is none. An element that begins with its
 * "ID" stands at that, others at their position. Good until the machine changes or the lock is
 * given back. */
const char *value_at(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define has(...) (value_at(__VA_ARGS__) != NULL)
/* The same as a number, true as 1; 0 where there is none. */
long long number_at(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Reads words into numbers, and counts them. */
int numbers_of(const char *words, unsigned long long *out, int max);

/* A path; good until the thread's next one. */
const char *path(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Replace a value, append to a list, and remove an element of one, in memory until commit. */
void set(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));
void add(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));
void drop(const char *path);
/* Writes one change of the machine, and reports whether it could. The process may be killed before or
 * after it. */
bool commit(void);

/* A GPU instance profile of a GPU, its k-th, in slices. */
typedef struct {
    int k, compute, memory, attrs, media, max;
    const char *name;
} profile;
/* False where there is no such profile, or no such GPU instance. */
bool profile_at(int gpu, int k, profile *out);
bool instance_at(int gpu, int gi, profile *out);
/* NVML's index of a profile. */
unsigned profile_index(int gpu, const profile *p);
/* The compute slices of a compute instance; 0 where there is none. */
int compute_slices(int gpu, int gi, int ci);

#endif
