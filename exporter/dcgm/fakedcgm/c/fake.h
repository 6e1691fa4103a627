/* The pretended host engine, which is in the library whether it is embedded or remote: the
 * process at an address holds connections and knows which XIDs there were when it began. */
#ifndef FAKEDCGM_FAKE_H
#define FAKEDCGM_FAKE_H

#include "abi.h"
#include "state.h"

/* What the process at an address sends to each connection. */
typedef struct {
    char state[4096]; /* the path of its state */
    int32_t before;   /* XIDs that there were when it began */
    xid_event xid[MAX_XIDS];
} hello;

/* Every call to the host engine begins with ENTER: it hangs as long as the state says, and
 * returns where there is no connection or the state says that the call fails. Then s is the
 * state, and the lock is held until leave. */
#define ENTER(call)                                    \
    status_t st;                                       \
    const state *s = enter(handle, #call, &st);        \
    if (s == NULL)                                     \
    return st
const state *enter(handle_t handle, const char *call, status_t *st);
status_t leave(status_t st);

/* Appends a line to the log. */
void fake_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Forgets groups, watches and health watches, as at the end of a connection. */
void forget(void);

/* What there is. */
const GPU *find_gpu(const state *s, unsigned int gpu);
/* The k-th instance of a GPU. */
const instance *instance_of(const state *s, const GPU *c, int k);
const instance *find_instance(const state *s, unsigned int entity, const GPU **parent);
const instance *find_compute(const state *s, unsigned int entity, const GPU **parent);
const thing *find_thing(const state *s, entity_t e);
bool entity_exists(const state *s, entity_t e);
/* The profiling fields of a GPU; NULL with *n 0 when it cannot be profiled. */
const uint16_t *profiled_fields(const state *s, const GPU *c, int *n);
/* What the state says of a field; NULL where it says nothing. */
const field_value *find_value(const state *s, span of, unsigned short field);

/* One value. DCGM's own structs carry 4 KB each, so only the API uses them. */
typedef struct {
    unsigned short field, type;
    int status;
    int64_t ts; /* microseconds since 1970 */
    union {
        int64_t i64;
        double dbl;
        char str[MAX_TEXT];
    } value;
} sample;

/* Notes which XIDs there are already: a host engine that starts knows those of the kernel
 * log only. */
void xids_begin(const xid_event *xids, int n);

/* Watches and samples. A sample is due when the last one is older than the
 * watch interval; it is then taken from the state of that moment. */
status_t watch_add(entity_t e, unsigned short field, int64_t every_us);
void watch_remove(entity_t e, unsigned short field);
void watches_clear(void);
void watches_update(const state *s);

/* The last sample of a watch, a new one when it is due; NOT_WATCHED without. */
void sample_latest(const state *s, entity_t e, unsigned short field, sample *out);
/* Reads the state itself, as DCGM does for attributes. */
void sample_live(const state *s, entity_t e, unsigned short field, sample *out);
/* The kept samples of a watch since a time, oldest first, up to MAX_HISTORY. */
enum { MAX_HISTORY = 128 };
int samples_since(const state *s, entity_t e, unsigned short field, int64_t from, sample *out);

/* Field metadata; NULL where DCGM knows no such field. */
const field_meta *field_by_id(unsigned short id);

#endif
