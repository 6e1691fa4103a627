/* The state file in memory. The limits are those of read.go. */
#ifndef FAKEDCGM_STATE_H
#define FAKEDCGM_STATE_H

#include <stdbool.h>
#include <stdint.h>

enum { MAX_CARDS = 32, MAX_INSTANCES = 8, MAX_FIELDS = 64, MAX_XIDS = 64, MAX_TEXT = 96 };

typedef struct {
    unsigned short id;
    bool unsupported;
    double number;
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
    char uuid[MAX_TEXT], pci[MAX_TEXT], product[MAX_TEXT];
    field_set fields;
    int instances, xids;
    instance instance[MAX_INSTANCES];
    xid_event xid[MAX_XIDS];
} card;

typedef struct {
    char driver[MAX_TEXT];
    int64_t hang_ms;
    bool dead;
    int cards;
    card card[MAX_CARDS];
} state;

/* Reads the text of a state file into out. On failure it gives the number of
 * the bad line, and out is left in an unspecified state; 0 is success. */
int state_parse(char *text, state *out);

/* Gives the state of the file named by FAKEDCGM_STATE, read again when the file
 * has changed; NULL when it cannot be read or parsed (stderr says why, once per
 * change). The caller holds the lock that guards it. */
const state *state_current(void);

#endif
