/* The pretended host engine, which is in the library whether it is embedded or remote. Shapes,
 * numbers and prototypes are DCGM's own, of the headers that come with go-dcgm. */
#ifndef FAKEDCGM_FAKE_H
#define FAKEDCGM_FAKE_H

#include "lines.h"

#define DCGM_API_EXPORT
#include <dcgm_agent.h>
#include <dcgm_fields.h>
#include <dcgm_structs.h>

#include <stdint.h>

typedef dcgmGroupEntityPair_t entity;

/* Where the state has an entity: "gpu.0", "gpu.0.gi.9" also of its compute instances, and
 * "KIND.ID" of what is beside the GPUs; NULL of what does not exist. Good until the next call.
 * The caller holds the lock that guards the state. */
const char *path_of(entity e);
/* A number of an entity, 0 without the line. */
long long number_of(entity e, const char *name);
/* The numbers "1 2 3" at a path, up to max. */
#define numbers_at(out, max, ...) numbers_of(value_at(__VA_ARGS__), out, max)
int numbers_of(const char *v, unsigned *out, int max);

/* The GPU that an entity is or is a part of; of others no entity. */
entity gpu_of(entity e);
/* The GPU instance of a compute instance; of others e itself. */
entity instance_of(entity e);
bool is_lost(entity e);
/* What the machine's lines say of a field; NULL where nothing does. */
const char *identity(entity e, unsigned short field);
/* The profiling fields of a GPU; 0 when it cannot be profiled. */
enum { MAX_PROFILED = 22 };
int profiled_fields(entity gpu, unsigned fields[MAX_PROFILED]);

/* Every call to the host engine begins with ENTER: it hangs as long as the state says, and
 * returns where there is no connection or the state says that the call fails. Then the state
 * is read, and the lock is held until leave. */
#define ENTER                                   \
    dcgmReturn_t st = enter(handle, __func__);  \
    if (st != DCGM_ST_OK)                       \
    return st
dcgmReturn_t enter(dcgmHandle_t handle, const char *call);
dcgmReturn_t leave(dcgmReturn_t st);
/* Returns where out is no structure of the version. */
#define CHECK(wanted)                        \
    if (out == NULL || out->version != wanted) \
    return out == NULL ? DCGM_ST_BADPARAM : DCGM_ST_VER_MISMATCH

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
        char str[96];
    } value;
} sample;

/* A host engine that starts knows, of the first n XIDs of the state, those of the kernel log. */
void xids_begin(int n);
/* How many there are. */
int xids_count(void);

/* Watches and samples. A sample is due when the last one is older than the watch interval or
 * than the state; it is then taken from the state of that moment. */
dcgmReturn_t watch_add(entity e, unsigned short field, int64_t every_us);
void watch_remove(entity e, unsigned short field);
void watches_clear(void);
void watches_update(void);

/* The last sample of a watch, a new one when it is due; NOT_WATCHED without. */
void sample_latest(entity e, unsigned short field, sample *out);
/* Reads the state itself, as DCGM does the driver. */
void sample_live(entity e, unsigned short field, sample *out);
/* The kept samples of a watch since a time, oldest first, up to MAX_HISTORY. */
enum { MAX_HISTORY = 128 };
int samples_since(entity e, unsigned short field, int64_t from, sample *out);

#endif
