/* The shared parts of the fake: codes, handles, and what happens around each call. */
#ifndef FAKENVML_H
#define FAKENVML_H

#include "machine.h"

/* NVIDIA's shapes, numbers and prototypes, from the header that comes with go-nvml. All handles
 * point to one kind of structure. */
#define nvmlDevice_st handle_st
#define nvmlGpuInstance_st handle_st
#define nvmlComputeInstance_st handle_st
#define nvmlGpmSample_st handle_st
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#pragma GCC visibility push(default)
#include <nvml.h>
#pragma GCC visibility pop

/* The object of a call, and its path. Both survive a change of the machine. gi is -1 for a
 * GPU; ci is -1 for a GPU and a GPU instance. A compute instance is also a MIG device. */
typedef struct handle_st {
    int gpu, gi, ci;
    char at[48];
} handle;
handle *handle_of(int gpu, int gi, int ci);
/* The i-th possible MIG device of a GPU; NULL if it does not exist. */
enum { MAX_MIG_DEVICES = MAX_GI * MAX_CI };
handle *mig_device(int gpu, int i);

/* Begin a call. enter_device refuses the handle of an object that is gone. */
int enter(const char *function);
int enter_device(const char *function, const handle *h);
/* Declares code, and returns from the call if it may not begin. */
#define BEGIN(call)  \
    LOCKED;          \
    int code = call; \
    if (code != NVML_SUCCESS)  \
    return code
#define ENTER BEGIN(enter(__func__))
/* The same of a call about a handle, and declares d. */
#define ENTER_AS(function, of)           \
    const handle *const d = (of).handle; \
    BEGIN(enter_device(function, d))
#define ENTER_DEVICE(of) ENTER_AS(__func__, of)

/* Bodies of functions that give one value: of a device, of a device for which a condition holds, and of the
 * system. */
#define GIVE(value) GIVE_IF(true, value)
#define GIVE_IF(condition, value) { ENTER_DEVICE(of); *out = value; return (condition) ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT; }
#define GIVE_SYSTEM(value) { ENTER; *out = value; return NVML_SUCCESS; }
#define PRINT_SYSTEM(...) { ENTER; return print(out, capacity, __VA_ARGS__); }

/* Gives a value of a GPU, or of the GPU instance of a MIG device. Otherwise returns a code:
 * NOT_SUPPORTED without a value, N for "!N". */
int value_of(const handle *h, const char *name, const char **value);
/* The same for n numbers, "A B C"; missing ones are 0. */
int numbers(const handle *h, const char *name, unsigned long long *out, int n);
/* Prints a text for the caller. */
int print(char *out, unsigned capacity, const char *format, ...) __attribute__((format(printf, 3, 4)));
int count_gpus(void);
bool in_mig_mode(int gpu);
long long mib_of(int gpu, const profile *p);
/* Opens a device file of a GPU; second is for a GPU whose handle is requested. */
void open_file(int gpu, int second);

#endif
