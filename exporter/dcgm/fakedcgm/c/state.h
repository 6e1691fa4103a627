/* The state file: records as they stand in memory, written by write.go. */
#ifndef FAKEDCGM_STATE_H
#define FAKEDCGM_STATE_H

#include <stdbool.h>
#include <stdint.h>

/* Bounds that write.go keeps. */
enum { MAX_GPUS = 32, MAX_XIDS = 1024, MAX_PROFILED = 22, MAX_TEXT = 96 };

/* What a field answers. The four blanks stand in DCGM's order, and so do their
 * 32-bit forms. */
enum {
    A_NUMBER,
    A_BLANK,
    A_NOT_FOUND,
    A_UNSUPPORTED,
    A_NOT_PERMITTED,
    A_INT32_BLANK,
    A_INT32_NOT_FOUND,
    A_INT32_UNSUPPORTED,
    A_INT32_NOT_PERMITTED,
    A_NAN,
    A_INF,
    A_STATUS, /* no value: the status in number */
    A_TEXT,   /* the text's place in number */
};

typedef struct {
    uint16_t id, what;
    uint32_t reserved;
    double number;
} field_value;

typedef struct {
    int64_t at; /* microseconds since 1970 */
    int32_t code, kind, id, kernel; /* kernel: in the kernel log */
} xid_event;

/* A part of a table. */
typedef struct {
    int32_t first, count;
} span;

typedef struct {
    int32_t index, minor, memory, mig, lost;
    int32_t frozen; /* its watches take no new samples */
    span fields, instances;
    int32_t profiled; /* 0: what every GPU has */
    uint16_t profile[MAX_PROFILED];
    char uuid[MAX_TEXT], pci[MAX_TEXT], product[MAX_TEXT];
} GPU;

typedef struct {
    int32_t id, entity, slices, start, size, computes;
    span fields;
    char profile[MAX_TEXT], uuid[MAX_TEXT];
} instance;

/* A switch, a link, a CPU or a core: its kind is DCGM's entity group. */
typedef struct {
    uint32_t kind, id;
    int32_t parent_kind, parent, index; /* of a link */
    int32_t first, last;                /* of a CPU: its cores */
    int32_t up;                         /* a link */
    span fields;
} thing;

typedef struct {
    int32_t gpu, system, result, code;
} health_note;

typedef struct {
    int32_t from, to, status;
} peer_note;

typedef struct {
    int32_t status;
    char call[MAX_TEXT];
} failing_call;

typedef struct {
    int64_t hang_ms, kernel_shift;
    int32_t dead, no_nvml, links36;
    int32_t values, xids, GPUs, instances, things, incidents, peers, failing, texts;
    char driver[MAX_TEXT];
    /* In the file the tables follow. */
    const field_value *value;
    const xid_event *xid;
    const GPU *GPU;
    const instance *instance;
    const thing *thing;
    const health_note *incident;
    const peer_note *peer;
    const failing_call *fail;
    const char (*text)[MAX_TEXT];
} state;

/* Says which file has the state. */
void state_use(const char *path);
/* Gives the state, read again when the file has changed; NULL when it cannot be read
 * (stderr says why, once). The caller holds the lock that guards it. */
const state *state_current(void);

#endif
