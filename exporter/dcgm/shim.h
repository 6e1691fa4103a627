/* Calls into libdcgm.so.4 that go-dcgm lacks or makes too expensive: go-dcgm copies 4 KB for
 * each value, waits for a sample of everything after each watch, and knows only 18 links of a
 * GPU. The functions are found with dlsym, so a missing one is an error here and does not end
 * the process. */
#ifndef GPUSCALE_DCGM_SHIM_H
#define GPUSCALE_DCGM_SHIM_H

#include <stdint.h>

enum { SHIM_NO_SYMBOL = -20 }; /* DCGM_ST_FUNCTION_NOT_FOUND */
enum { SHIM_GPU = 1, SHIM_SWITCH = 3 }; /* entity groups */

typedef struct {
    uint32_t kind, id; /* entity group and entity id */
} shim_entity;

/* dcgmFieldValue_v2 */
typedef struct {
    uint32_t version, kind, id;
    uint16_t field, type;
    int32_t status;
    uint32_t unused;
    int64_t ts; /* microseconds since 1970 */
    union {
        int64_t i64;
        double dbl;
        char str[256];
        char blob[4096];
    } value;
} shim_value;

enum {
    SHIM_MAX_ENTITIES = 1024, /* DCGM_GROUP_MAX_ENTITIES_V2 */
    SHIM_MAX_LINKS = 4224,    /* of 32 GPUs and 12 switches */
};

enum { SHIM_LIVE = 1 }; /* DCGM_FV_FLAG_LIVE_DATA: read from the driver, watched or not */

/* Each returns a dcgmReturn_t, and in *n the number of elements in out. out has space for
 * the most that the call can give. */
int shim_latest(uintptr_t handle, shim_entity *entities, unsigned n, uint16_t *fields, unsigned fields_n,
                unsigned flags, shim_value *out);
int shim_links(uintptr_t handle, uint32_t *out, int *n); /* the ids of the NVLinks that are up */
int shim_watch(uintptr_t handle, uintptr_t group, uintptr_t fields, int64_t every_us, double keep_s);
const char *shim_error(int code);

#endif
