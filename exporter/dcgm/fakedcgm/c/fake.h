/* The pretended host engine, which is in the library whether it is embedded or remote: what
 * listens at an address (build.go) holds connections and knows which XIDs there were when it
 * began. */
#ifndef FAKEDCGM_FAKE_H
#define FAKEDCGM_FAKE_H

#include "abi.h"
#include "lines.h"

/* Bounds that write.go keeps. */
enum { MAX_PROFILED = 22, MAX_TEXT = 96 };

/* Says which file has the state. */
void state_use(const char *path);
/* Reads it again when it has changed; false when it cannot be read (stderr says so, once).
 * The caller holds the lock that guards it. */
bool state_read(void);
/* A number of the machine, 0 without the line. */
long long state_number(const char *name);
/* Likewise of an entity, and the numbers "1 2 3" at a path, up to max. */
long long number_of(entity_t e, const char *name);
int numbers_at(unsigned *out, int max, const char *format, ...) __attribute__((format(printf, 3, 4)));

bool exists(entity_t e);
/* The GPU that an entity is or is a part of; of others no entity. */
entity_t gpu_of(entity_t e);
bool is_lost(entity_t e);
/* The profiling fields of a GPU; 0 when it cannot be profiled. */
int profiled_fields(entity_t gpu, unsigned fields[MAX_PROFILED]);

/* What a host engine at an address sends to each connection. */
typedef struct {
    char state[4096];     /* the path of its state */
    char before[1 << 16]; /* the XIDs that there were when it began: a line each, and one before */
} hello;

/* Every call to the host engine begins with ENTER: it hangs as long as the state says, and
 * returns where there is no connection or the state says that the call fails. Then the state
 * is read, and the lock is held until leave. */
#define ENTER(call)                      \
    status_t st = enter(handle, #call);  \
    if (st != ST_OK)                     \
    return st
status_t enter(handle_t handle, const char *call);
/* Returns where out is no structure of the type and version. */
#define CHECK(type, n)                                  \
    if (out == NULL || out->version != VERSION(type, n)) \
    return out == NULL ? ST_BADPARAM : ST_VER_MISMATCH
status_t leave(status_t st);

/* Appends a line to the log. */
void fake_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Forgets groups, watches and health watches, as at the end of a connection. */
void forget(void);

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

/* The XIDs there are, as hello.before has them. */
void xids_now(char *out, size_t size);
/* Keeps those that there are already: a host engine that starts knows those of the kernel log
 * only. */
void xids_begin(const char *before);

/* Watches and samples. A sample is due when the last one is older than the
 * watch interval; it is then taken from the state of that moment. */
status_t watch_add(entity_t e, unsigned short field, int64_t every_us);
void watch_remove(entity_t e, unsigned short field);
void watches_clear(void);
void watches_update(void);

/* The last sample of a watch, a new one when it is due; NOT_WATCHED without. */
void sample_latest(entity_t e, unsigned short field, sample *out);
/* Reads the state itself, as DCGM does for attributes. */
void sample_live(entity_t e, unsigned short field, sample *out);
/* The kept samples of a watch since a time, oldest first, up to MAX_HISTORY. */
enum { MAX_HISTORY = 128 };
int samples_since(entity_t e, unsigned short field, int64_t from, sample *out);

/* Field metadata; NULL where DCGM knows no such field. */
const field_meta *field_by_id(unsigned short id);

#endif
