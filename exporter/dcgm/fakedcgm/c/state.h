/* The state file in memory. The limits are those of read.go. */
#ifndef FAKEDCGM_STATE_H
#define FAKEDCGM_STATE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    MAX_GPUS = 32,
    MAX_INSTANCES = 8,
    MAX_FIELDS = 192,
    MAX_XIDS = 64,
    MAX_THINGS = 256,
    MAX_NOTES = 64,
    MAX_PROFILED = 22,
    MAX_TEXT = 96,
};

/* What a field answers. The four blanks stand in DCGM's order, and so do their
 * 32-bit forms. */
typedef enum {
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
    A_TEXT,
} answer;

typedef struct {
    unsigned short id;
    answer what;
    double number;
    char text[MAX_TEXT];
} field_value;

typedef struct {
    int count;
    field_value list[MAX_FIELDS];
} field_set;

typedef struct {
    int64_t at; /* microseconds since 1970 */
    int code;
} xid_event;

typedef struct {
    int id, entity, slices, start, size;
    char profile[MAX_TEXT], uuid[MAX_TEXT];
    field_set fields;
} instance;

typedef struct {
    int index, minor, memory;
    bool mig, lost;
    bool frozen; /* its watches take no new samples */
    char uuid[MAX_TEXT], pci[MAX_TEXT], product[MAX_TEXT];
    field_set fields;
    int instances, xids, profiled; /* profiled 0: what every GPU has */
    unsigned short profile[MAX_PROFILED];
    instance instance[MAX_INSTANCES];
    xid_event xid[MAX_XIDS];
} GPU;

/* A switch, a link, a CPU or a core: its kind is DCGM's entity group. */
typedef struct {
    unsigned kind, id;
    int parent_kind, parent, index; /* of a link */
    int first, last;                /* of a CPU: its cores */
    bool up;                        /* a link */
    field_set fields;
} thing;

typedef struct {
    int gpu, system, result, code;
} health_note;

typedef struct {
    int from, to, status;
} peer_note;

typedef struct {
    char call[MAX_TEXT];
    int status;
} failing_call;

typedef struct {
    char driver[MAX_TEXT];
    int64_t hang_ms;
    bool dead, no_nvml;
    int GPUs, things, incidents, peers, failing;
    GPU GPU[MAX_GPUS];
    thing thing[MAX_THINGS];
    health_note incident[MAX_NOTES];
    peer_note peer[MAX_NOTES];
    failing_call fail[MAX_NOTES];
    field_set *last; /* while parsing: the fields of the newest entity */
} state;

/* Reads the text of a state file into out. On failure it gives the number of
 * the bad line, and out is left in an unspecified state; 0 is success. */
int state_parse(char *text, state *out);

/* Gives the state of the file named by FAKEDCGM_STATE, read again when the file
 * has changed; NULL when it cannot be read or parsed (stderr says why, once per
 * change). The caller holds the lock that guards it. */
const state *state_current(void);

#endif
