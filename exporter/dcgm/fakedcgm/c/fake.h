/* The fake host engine. It is in the library, whether embedded or remote. Shapes, numbers and
 * prototypes are DCGM's own, from the headers that come with go-dcgm. */
#ifndef FAKEDCGM_FAKE_H
#define FAKEDCGM_FAKE_H

#include "machine.h"

#define DCGM_API_EXPORT
#include <dcgm_agent.h>
#include <dcgm_fields.h>
#include <dcgm_structs.h>

#include <stdint.h>

/* Every call to the host engine begins with ENTER. It returns if there is no connection or the
 * machine says that the call fails. */
#define ENTER                                  \
    LOCKED;                                    \
    dcgmReturn_t st = enter(handle, __func__); \
    if (st != DCGM_ST_OK)                      \
    return st
dcgmReturn_t enter(dcgmHandle_t handle, const char *call);
/* Returns if out is a structure of another version. */
#define CHECK(wanted)            \
    if (out->version != (wanted)) \
    return DCGM_ST_VER_MISMATCH

/* Appends a line to the log. */
void fake_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Forgets groups, watches and health watches, as at the end of a connection. */
void forget(void);

/* What DCGM knows: an entity, and where the machine has its values. */
typedef dcgmGroupEntityPair_t entity;
typedef struct {
    entity is;
    int gpu, gi, ci; /* by the driver's ids; -1 for none */
    char path[32];   /* of a compute instance its GPU instance's */
    DcgmEntityStatus_t status;
} part;
/* All parts, ended by one of no kind: each GPU, its GPU instances, each with its compute instances, then what
 * is beside the GPUs. */
const part *parts(void);
#define EACH_PART(p) (const part *p = parts(); p->is.entityGroupId != DCGM_FE_NONE; p++)
/* NULL, and DcgmEntityStatusUnknown, of what does not exist. */
const part *part_of(entity e);
DcgmEntityStatus_t status_of(entity e);
/* The profiling fields of a GPU; 0 when it cannot be profiled. */
enum { MAX_PROFILED = 22 };
int profiled_fields(entity gpu, unsigned long long fields[MAX_PROFILED]);

/* One value with its time. Most of its 4 KB is not written. */
typedef dcgmFieldValue_v2 sample;
/* Reads the machine itself, as DCGM does the driver. */
void sample_live(entity e, unsigned short field, sample *out);
/* A sample without a value. */
void sample_blank(entity e, unsigned short field, int status, sample *out);

/* The XIDs of an entity from a time on, up to MAX_HISTORY. */
enum { XID_ERRORS = DCGM_FI_DEV_XID_ERRORS, MAX_HISTORY = 128 };
int xids_since(entity e, int64_t from, dcgmFieldValue_v1 out[MAX_HISTORY]);

/* Watches take a sample at their interval, and whenever the machine changes. */
void watch_add(entity e, unsigned short field, int64_t every_us);
void watch_remove(entity e, unsigned short field);
void watches_clear(void);
bool is_watched(entity e, unsigned short field);
/* The last sample of a watch; NOT_WATCHED without. */
void sample_latest(entity e, unsigned short field, sample *out);

#endif
