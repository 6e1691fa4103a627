/* The shared parts of the fake: codes, handles, the machine's state. */
#ifndef FAKENVML_H
#define FAKENVML_H

#include "lines.h"

#include <stdarg.h>

#define EXPORT __attribute__((visibility("default")))
/* Of a structure with a version word, as nvml.h composes it. */
#define VERSION(type, n) (sizeof(type) | (unsigned)(n) << 24)

enum {
    OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, NO_DRIVER = 9, TIMEOUT = 10,
    LOST = 15, RESET_REQUIRED = 16, IN_USE = 19, INSUFFICIENT = 23, VERSION_MISMATCH = 25, UNKNOWN = 999,
};

/* What a call is about. A handle has numbers only, so that it survives a change
 * of the state. gi is -1 for a GPU; ci is -1 for a GPU and a GPU instance. */
typedef struct {
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
int open_library(void);
int close_library(void);
/* Opens what a handle of a GPU keeps open. */
void attach(int gpu);

/* Gives the value of a line of the state, or the code to return: NOT_SUPPORTED
 * without the line, N for the value "!N". */
int text_at(const char **value, const char *format, ...) __attribute__((format(printf, 2, 3)));
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
