/* The shared parts of the fake: codes, handles, and what happens around each call. */
#ifndef FAKENVML_H
#define FAKENVML_H

#include "machine.h"

/* NVIDIA's shapes, numbers and prototypes, of the header that comes with go-nvml. One structure is
 * behind all handles. */
#define nvmlDevice_st handle_st
#define nvmlGpuInstance_st handle_st
#define nvmlComputeInstance_st handle_st
#define nvmlGpmSample_st handle_st
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#pragma GCC visibility push(default)
#include <nvml.h>
#pragma GCC visibility pop

enum {
    OK = NVML_SUCCESS, UNINITIALIZED = NVML_ERROR_UNINITIALIZED, INVALID = NVML_ERROR_INVALID_ARGUMENT, NOT_SUPPORTED = NVML_ERROR_NOT_SUPPORTED,
    NOT_FOUND = NVML_ERROR_NOT_FOUND, TOO_SMALL = NVML_ERROR_INSUFFICIENT_SIZE, NO_DRIVER = NVML_ERROR_DRIVER_NOT_LOADED, LOST = NVML_ERROR_GPU_IS_LOST,
    IN_USE = NVML_ERROR_IN_USE, INSUFFICIENT = NVML_ERROR_INSUFFICIENT_RESOURCES, VERSION_MISMATCH = NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    UNKNOWN = NVML_ERROR_UNKNOWN,
};

/* What a call is about. It has numbers only, so that it survives a change of the machine. gi is -1 for
 * a GPU; ci is -1 for a GPU and a GPU instance. A compute instance is also a MIG device. */
typedef struct handle_st {
    int gpu, gi, ci;
} handle;
handle *handle_of(int gpu, int gi, int ci);

/* Begin a call, which holds the lock until leave; the second one refuses handles of what is gone. */
int enter(const char *function);
int enter_device(const char *function, const handle *h);
int leave(int code);
/* Declares code, and returns from the call when it may not begin. */
#define ENTER                   \
    int code = enter(__func__); \
    if (code != OK)             \
    return code
/* The same of a call about a handle, and declares d. */
#define ENTER_DEVICE(of)                  \
    const handle *const d = (of).handle;  \
    int code = enter_device(__func__, d); \
    if (code != OK)                       \
    return code

/* Bodies of functions: the one thing that is asked for, of a device, of one for which a condition holds, and
 * of the system. */
#define GIVE(value) GIVE_IF(true, value)
#define GIVE_IF(condition, value) { ENTER_DEVICE(of); *out = value; return leave((condition) ? OK : INVALID); }
#define GIVE_SYSTEM(value) { ENTER; *out = value; return leave(OK); }
#define PRINT_SYSTEM(...) { ENTER; return leave(print(out, capacity, __VA_ARGS__)); }

/* Gives a value of a GPU or, of a MIG device, of its GPU instance, or the code to return: NOT_SUPPORTED
 * without the value, N for "!N". */
int value_of(const handle *h, const char *name, const char **value);
/* The same for the numbers "A B C"; of fewer than n the rest is 0. */
int numbers(const handle *h, const char *name, unsigned long long *out, int n);
/* Prints a text for the caller. */
int print(char *out, unsigned capacity, const char *format, ...) __attribute__((format(printf, 3, 4)));
int count_gpus(void);
bool in_mig_mode(int gpu);
long long mib_of(int gpu, const profile *p);
/* Opens a device file of a GPU, the second one where its handle is requested. */
void open_file(int gpu, int second);

#endif
