/* Calls into libdcgm.so.4 that go-dcgm makes too dear: it copies 4 KB for each
 * value, and fetches affinity, topology and PCIe generations along with a
 * card's name. The functions are found with dlsym, so that one that is missing
 * is an error here and not the end of the process. */
#ifndef GPUSCALE_DCGM_SHIM_H
#define GPUSCALE_DCGM_SHIM_H

#include <stdint.h>

enum { SHIM_NO_SYMBOL = -20 }; /* DCGM_ST_FUNCTION_NOT_FOUND */

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

/* dcgmDeviceAttributes_v3: the parts before and between what is used here are
 * left as bytes. */
typedef struct {
    uint32_t version;
    char clocks_thermals_power[3116];
    uint32_t identifiers_version;
    char brand[256], name[256], pci_bus_id[256], serial[256], uuid[256], vbios[256], inforom[256];
    uint32_t pci_device, pci_subsystem;
    char driver_version[256];
    uint32_t virtualization;
    uint32_t memory[5];
    uint32_t settings_version, persistence, mig, confidential;
} shim_attributes;

/* One event of a card. */
typedef struct {
    uint32_t gpu;
    int64_t ts, code;
} shim_event;

/* Loads the library for good; gives NULL or the loader's message. */
const char *shim_open(const char *path);
int shim_has(const char *symbol);

/* Each gives a dcgmReturn_t. */
int shim_latest(uintptr_t handle, shim_entity *entities, unsigned n, uint16_t *fields, unsigned fields_n,
                shim_value *out);
int shim_device(uintptr_t handle, unsigned gpu, shim_attributes *out);
/* Gives the values since a time of a group's cards; *n is how many there are in
 * out, never more than room. */
int shim_events(uintptr_t handle, uintptr_t group, uintptr_t fields, int64_t since, shim_event *out, int room, int *n);
const char *shim_error(int code);

#endif
