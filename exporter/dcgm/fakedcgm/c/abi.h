/* The part of DCGM's binary interface that the fake implements: the shapes and
 * numbers of DCGM 4's public headers, and nothing beyond what is used here. TestABI
 * holds them against the headers. */
#ifndef FAKEDCGM_ABI_H
#define FAKEDCGM_ABI_H

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    ST_OK = 0,
    ST_BADPARAM = -1,
    ST_GENERIC_ERROR = -3,
    ST_MEMORY = -4,
    ST_NOT_SUPPORTED = -6,
    ST_UNINITIALIZED = -10,
    ST_VER_MISMATCH = -12,
    ST_UNKNOWN_FIELD = -13,
    ST_NO_DATA = -14,
    ST_NOT_WATCHED = -16,
    ST_CONNECTION_NOT_VALID = -21,
    ST_MAX_LIMIT = -24,
    ST_DUPLICATE_KEY = -26,
    ST_NOT_CONFIGURED = -5,
    ST_INIT_ERROR = -7,
    ST_GPU_IS_LOST = -18,
    ST_PROFILING_NOT_SUPPORTED = -36,
    ST_NVML_NOT_LOADED = -56,
};

enum { FE_NONE, FE_GPU, FE_VGPU, FE_SWITCH, FE_GPU_I, FE_GPU_CI, FE_LINK, FE_CPU, FE_CPU_CORE, FE_CONNECTX };
enum { ENTITY_OK = 1, ENTITY_LOST = 4, ENTITY_DETACHED = 7 };

/* Blanks: the base value, and above it not found, not supported and not permitted. */
#define INT32_BLANK 0x7ffffff0
#define INT64_BLANK 0x7ffffffffffffff0
#define FP64_BLANK 140737488355328.0
#define STR_BLANK "<<<NULL>>>"
#define STR_NOT_FOUND "<<<NOT_FOUND>>>"
#define STR_NOT_SUPPORTED "<<<NOT_SUPPORTED>>>"
#define STR_NOT_PERMITTED "<<<NOT_PERM>>>"

#define MAX_DEVICES 32
#define MAX_ENTITIES 1024
#define MAX_GROUPS 64
#define MAX_FIELDS_IN_GROUP 128
#define MAX_FIELD_ID 1524
#define STR_LEN 256
#define EMBEDDED_HANDLE 0x7fffffff

#define VERSION(type, n) ((unsigned int)(sizeof(type) | ((unsigned long)(n) << 24)))

typedef int status_t; /* dcgmReturn_t */
typedef uintptr_t handle_t;

typedef struct {
    unsigned int version, persist, timeout_ms, is_unix;
} connect_v2;

typedef struct {
    unsigned int kind, id; /* entity group and entity id */
} entity_t;

typedef union {
    int64_t i64;
    double dbl;
    char str[STR_LEN];
    char blob[4096];
} payload_t;

typedef struct {
    unsigned int version;
    unsigned short field, type;
    int status;
    int64_t ts; /* microseconds since 1970 */
    payload_t value;
} value_v1;

typedef struct {
    unsigned int version;
    unsigned int kind, id;
    unsigned short field, type;
    int status;
    unsigned int unused;
    int64_t ts;
    payload_t value;
} value_v2;

typedef int (*enum_v2)(unsigned int kind, unsigned int id, value_v1 *values, int n, void *user);

typedef struct {
    unsigned short id;
    char type; /* 'i', 'd', 's', 'b' */
    unsigned char size;
    char tag[48];
    int scope, nvml_id;
    unsigned int level;
    void *format;
} field_meta;

typedef struct {
    entity_t entity, parent;
    char gpu_uuid[128];
    unsigned int nvml_index, nvml_gi, nvml_ci, nvml_profile, slices;
} hierarchy_entry;

enum { MAX_HIERARCHY = MAX_DEVICES * 14 };
typedef struct {
    unsigned int version, count;
    hierarchy_entry list[MAX_HIERARCHY];
} hierarchy_v2;

typedef struct {
    unsigned int version;
    char clocks_thermals_power[3116];
    struct {
        unsigned int version;
        char brand[STR_LEN], name[STR_LEN], pci_bus_id[STR_LEN], serial[STR_LEN], uuid[STR_LEN];
        char vbios[STR_LEN], inforom[STR_LEN];
        unsigned int pci_device, pci_subsystem;
        char driver_version[STR_LEN];
        unsigned int virtualization;
    } identifiers;
    unsigned int memory[5], settings[4];
} attributes_v3;

typedef struct {
    unsigned int version, unused, gpu, count;
    struct {
        unsigned short major, minor;
        unsigned int count;
        unsigned short fields[64];
    } groups[10];
} prof_groups_v3;

typedef struct {
    unsigned int version, count;
    struct {
        unsigned int cpu;
        struct {
            unsigned int version;
            uint64_t bitmask[16];
        } cores;
    } cpus[8];
} cpu_hierarchy_v1;

enum { LINK_DOWN = 2, LINK_UP = 3 };
enum { LINKS_PER_SWITCH = 256, MAX_SWITCHES = 12 };

/* dcgmNvLinkStatus_v4 and _v5, of 18 and 36 links a GPU, are words: version, number of GPUs,
 * for each of 32 its id and its links' states, number of switches, and the same of 12. */
#define LINK_WORDS(links) (2 + MAX_DEVICES * (1 + (links)) + 1 + MAX_SWITCHES * (1 + LINKS_PER_SWITCH))
#define LINKS_VERSION(n, links) ((unsigned)(n) << 24 | 4 * LINK_WORDS(links))

typedef struct {
    unsigned int version, gpus;
    struct {
        unsigned int id;
        int status[MAX_DEVICES]; /* by the peer's place in the list */
    } gpu[MAX_DEVICES];
} p2p_status_v1;

typedef struct {
    unsigned int system; /* one bit of the health systems */
    int result;          /* 0 pass, 10 warning, 20 failure */
    struct {
        char text[1024];
        unsigned int code;
    } error;
    entity_t entity;
} incident_t;

typedef struct {
    unsigned int version;
    int overall;
    unsigned int count;
    incident_t list[MAX_ENTITIES];
} health_v5;

#endif
