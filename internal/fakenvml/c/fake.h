/* The shared parts of the fake: codes, handles, the machine's state. */
#ifndef FAKENVML_H
#define FAKENVML_H

#include "lines.h"

#include <stdarg.h>

/* NVIDIA's shapes, numbers and prototypes, of the header that comes with go-nvml. One structure is
 * behind all handles. */
#define nvmlDevice_st handle_st
#define nvmlGpuInstance_st handle_st
#define nvmlComputeInstance_st handle_st
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#pragma GCC visibility push(default)
#include <nvml.h>
#pragma GCC visibility pop

enum {
    OK = NVML_SUCCESS, UNINITIALIZED = NVML_ERROR_UNINITIALIZED, INVALID = NVML_ERROR_INVALID_ARGUMENT, NOT_SUPPORTED = NVML_ERROR_NOT_SUPPORTED,
    NOT_FOUND = NVML_ERROR_NOT_FOUND, TOO_SMALL = NVML_ERROR_INSUFFICIENT_SIZE, NO_DRIVER = NVML_ERROR_DRIVER_NOT_LOADED, TIMEOUT = NVML_ERROR_TIMEOUT,
    LOST = NVML_ERROR_GPU_IS_LOST, RESET_REQUIRED = NVML_ERROR_RESET_REQUIRED, IN_USE = NVML_ERROR_IN_USE, INSUFFICIENT = NVML_ERROR_INSUFFICIENT_RESOURCES,
    VERSION_MISMATCH = NVML_ERROR_ARGUMENT_VERSION_MISMATCH, UNKNOWN = NVML_ERROR_UNKNOWN,
};

/* What a call is about. A handle has numbers only, so that it survives a change
 * of the state. gi is -1 for a GPU; ci is -1 for a GPU and a GPU instance. */
typedef struct handle_st {
    int gpu, gi, ci;
} handle;

handle *gpu_handle(int gpu);
handle *gi_handle(int gpu, int gi);
handle *ci_handle(int gpu, int gi, int ci);
handle *mig_handle(int gpu, int gi, int ci);

/* Takes the lock and reads the state when it has changed; leave gives the lock
 * back and returns code. enter_gpu also refuses handles of what is gone. The
 * others lock out other processes too, until leave. */
int enter(void);
int enter_gpu(const handle *h);
int enter_change(const handle *h, const char *operation);
int leave(int code);
/* Declares code, and returns from the call when it may not begin. */
#define ENTER(begin)    \
    int code = (begin); \
    if (code != OK)     \
    return code
/* The same of a call about a handle, and declares d. */
#define ENTER_GPU(of)             \
    handle *const d = (of).handle; \
    ENTER(enter_gpu(d))
#define ENTER_CHANGE(of, operation) \
    handle *const d = (of).handle;   \
    ENTER(enter_change(d, operation))
int open_library(void);
int close_library(void);
/* Opens what a handle of a GPU keeps open. */
void attach(int gpu);

/* Gives the value of a line of the state, or the code to return: NOT_SUPPORTED
 * without the line, N for the value "!N". */
#define text_at(value, ...) code_of(*(value) = value_at(__VA_ARGS__))
int code_of(const char *value);
/* The same for a value of a GPU or, of a MIG device, of its GPU instance. */
int value_of(const handle *h, const char *name, const char **value);
int number(const handle *h, const char *name, unsigned long long *out);
int numbers(const handle *h, const char *name, unsigned long long *out, int n);
int copy(char *out, unsigned capacity, const char *text);
int count_gpus(void);
bool in_mig_mode(int gpu);

/* Replaces the line drop and all below it by the lines add, and counts that as
 * one change of the machine. The process may be killed before or after it. */
int change(const char *drop, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
