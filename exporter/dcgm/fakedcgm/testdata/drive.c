/* Drives the double without any Go, so that it can run under the sanitizers.
 * It is linked with the double's own source. */
#include "../c/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

status_t dcgmInit(void);
status_t dcgmShutdown(void);
status_t dcgmStartEmbedded(int, handle_t *);
status_t dcgmStopEmbedded(handle_t);
status_t dcgmConnect_v2(const char *, connect_v2 *, handle_t *);
status_t dcgmDisconnect(handle_t);
const field_meta *DcgmFieldGetById(unsigned short);
status_t dcgmGetAllDevices(handle_t, unsigned int *, int *);
status_t dcgmGetDeviceAttributes(handle_t, unsigned int, attributes_v3 *);
status_t dcgmGetGpuInstanceHierarchy(handle_t, hierarchy_v2 *);
status_t dcgmProfGetSupportedMetricGroups(handle_t, prof_groups_v3 *);
status_t dcgmHostengineVersionInfo(handle_t, version_info_v2 *);
status_t dcgmGroupCreate(handle_t, int, const char *, uintptr_t *);
status_t dcgmGroupAddEntity(handle_t, uintptr_t, unsigned int, unsigned int);
status_t dcgmGroupGetInfo(handle_t, uintptr_t, group_info_v3 *);
status_t dcgmGroupDestroy(handle_t, uintptr_t);
status_t dcgmFieldGroupCreate(handle_t, int, const unsigned short *, const char *, uintptr_t *);
status_t dcgmFieldGroupDestroy(handle_t, uintptr_t);
status_t dcgmWatchFields(handle_t, uintptr_t, uintptr_t, long long, double, int);
status_t dcgmUnwatchFields(handle_t, uintptr_t, uintptr_t);
status_t dcgmUpdateAllFields(handle_t, int);
status_t dcgmEntitiesGetLatestValues(handle_t, entity_t *, unsigned int, unsigned short *, unsigned int, unsigned int,
                                     value_v2 *);
status_t dcgmGetCpuHierarchy(handle_t, cpu_hierarchy_v1 *);
status_t dcgmGetNvLinkLinkStatus(handle_t, link_status_v4 *);
status_t dcgmGetNvLinkP2PStatus(handle_t, p2p_status_v1 *);
status_t dcgmGetDeviceTopology(handle_t, unsigned int, topology_v1 *);
status_t dcgmGetGpuStatus(handle_t, unsigned int, int *);
status_t dcgmGetEntityGroupEntities(handle_t, unsigned int, unsigned int *, int *, unsigned int);
status_t dcgmHealthSet(handle_t, uintptr_t, unsigned int);
status_t dcgmHealthCheck(handle_t, uintptr_t, health_v5 *);
status_t dcgmGetValuesSince_v2(handle_t, uintptr_t, uintptr_t, long long, long long *, enum_v2, void *);

static int failures;

#define WANT(got, want)                                                                       \
    do {                                                                                      \
        long long g = (long long)(got), w = (long long)(want);                                \
        if (g != w) {                                                                         \
            printf("line %d: %s is %lld, want %lld\n", __LINE__, #got, g, w);                 \
            failures++;                                                                       \
        }                                                                                     \
    } while (0)

static handle_t h;

/* A struct with the size or the number of another version is refused. */
static void versions(void) {
    static attributes_v3 attributes;
    static hierarchy_v2 hierarchy;
    prof_groups_v3 groups = { .version = VERSION(prof_groups_v3, 2) };
    group_info_v3 info = { .version = VERSION(group_info_v3, 2) };
    version_info_v2 version = { .version = VERSION(version_info_v2, 1) };
    connect_v2 params = { .version = VERSION(connect_v2, 1) };
    handle_t other;

    attributes.version = VERSION(attributes_v3, 2);
    WANT(dcgmGetDeviceAttributes(h, 0, &attributes), ST_VER_MISMATCH);
    attributes.version = VERSION(attributes_v3, 3) - 4;
    WANT(dcgmGetDeviceAttributes(h, 0, &attributes), ST_VER_MISMATCH);
    attributes.version = VERSION(attributes_v3, 3);
    WANT(dcgmGetDeviceAttributes(h, 0, &attributes), ST_OK);
    WANT(strcmp(attributes.identifiers.name, "NVIDIA H100 80GB HBM3"), 0);
    WANT(dcgmGetDeviceAttributes(h, 9, &attributes), ST_BADPARAM);
    WANT(dcgmGetGpuInstanceHierarchy(h, &hierarchy), ST_VER_MISMATCH);
    hierarchy.version = 0x02011f08;
    WANT(dcgmGetGpuInstanceHierarchy(h, &hierarchy), ST_OK);
    WANT(hierarchy.count, 2);
    WANT(hierarchy.list[0].entity.kind, FE_GPU_I);
    WANT(hierarchy.list[1].entity.kind, FE_GPU_CI);
    WANT(dcgmProfGetSupportedMetricGroups(h, &groups), ST_VER_MISMATCH);
    groups.version = VERSION(prof_groups_v3, 3);
    WANT(dcgmProfGetSupportedMetricGroups(h, &groups), ST_OK);
    WANT(groups.groups[0].count, 12);
    WANT(groups.groups[0].fields[0], 1001);
    groups.gpu = 1;
    WANT(dcgmProfGetSupportedMetricGroups(h, &groups), ST_OK);
    WANT(groups.groups[0].count, 2);
    WANT(groups.groups[0].fields[1], 1040);
    WANT(dcgmGroupGetInfo(h, GROUP_ALL_GPUS, &info), ST_VER_MISMATCH);
    info.version = VERSION(group_info_v3, 3);
    WANT(dcgmGroupGetInfo(h, GROUP_ALL_GPUS, &info), ST_OK);
    WANT(info.count, 2);
    WANT(dcgmHostengineVersionInfo(h, &version), ST_VER_MISMATCH);
    WANT(dcgmConnect_v2("localhost", &params, &other), ST_VER_MISMATCH);
}

static void machine(void) {
    static link_status_v4 links = { .version = VERSION(link_status_v4, 3) };
    static health_v5 health = { .version = VERSION(health_v5, 4) };
    p2p_status_v1 peers = { .version = VERSION(p2p_status_v1, 2) };
    cpu_hierarchy_v1 cpus = { .version = VERSION(cpu_hierarchy_v1, 2) };
    topology_v1 topology = { .version = VERSION(topology_v1, 1) };
    unsigned int ids[MAX_ENTITIES];
    int n = MAX_ENTITIES, status;
    uintptr_t group;

    WANT(dcgmGetNvLinkLinkStatus(h, &links), ST_VER_MISMATCH);
    links.version = VERSION(link_status_v4, 4);
    WANT(dcgmGetNvLinkLinkStatus(h, &links), ST_OK);
    WANT(links.gpus, 2);
    WANT(links.gpu[1].state[5], LINK_UP);
    WANT(links.switches, 1);
    WANT(links.nvswitch[0].state[63], LINK_DOWN);
    WANT(dcgmGetNvLinkP2PStatus(h, &peers), ST_VER_MISMATCH);
    peers.version = VERSION(p2p_status_v1, 1);
    WANT(dcgmGetNvLinkP2PStatus(h, &peers), ST_OK);
    WANT(peers.gpu[0].status[1], 5);
    WANT(dcgmGetCpuHierarchy(h, &cpus), ST_VER_MISMATCH);
    cpus.version = VERSION(cpu_hierarchy_v1, 1);
    WANT(dcgmGetCpuHierarchy(h, &cpus), ST_OK);
    WANT(cpus.cpus[0].cores.bitmask[1], 0xff);
    WANT(dcgmGetEntityGroupEntities(h, FE_CPU_CORE, ids, &n, 0), ST_OK);
    WANT(n, 72);
    n = 1;
    WANT(dcgmGetEntityGroupEntities(h, FE_LINK, ids, &n, 0), ST_OK);
    WANT(n, 1); /* as much as there is room for */
    WANT(ids[0], FE_GPU | 5 << 8 | 1 << 24);
    WANT(dcgmGetGpuStatus(h, 1, &status), ST_OK);
    WANT(status, ENTITY_OK);
    WANT(dcgmGetDeviceTopology(h, 0, &topology), -3); /* the state says: fails */
    WANT(dcgmGroupCreate(h, 1, "health", &group), ST_OK);
    WANT(dcgmGroupAddEntity(h, group, FE_GPU, 1), ST_OK);
    WANT(dcgmHealthCheck(h, group, &health), ST_VER_MISMATCH);
    health.version = VERSION(health_v5, 5);
    WANT(dcgmHealthCheck(h, group, &health), ST_OK);
    WANT(health.count, 0); /* nothing is watched */
    WANT(dcgmHealthSet(h, group, 0xffffffff), ST_OK);
    WANT(dcgmHealthCheck(h, group, &health), ST_OK);
    WANT(health.count, 1);
    WANT(health.overall, 20);
    WANT(health.list[0].error.code, 14);
    WANT(health.list[0].entity.id, 1);
    WANT(dcgmGroupDestroy(h, group), ST_OK);
    WANT(dcgmHealthCheck(h, group, &health), ST_NOT_CONFIGURED);
}

static status_t latest(entity_t e, unsigned short field, value_v2 *out) {
    WANT(dcgmEntitiesGetLatestValues(h, &e, 1, &field, 1, 0, out), ST_OK);
    return out->status;
}

static void values(void) {
    static value_v2 v;
    entity_t first = { FE_GPU, 0 }, part = { FE_GPU_I, 3 };
    unsigned short fields[] = { 155, 203, 204, 54, 50, 252 };
    uintptr_t group, list, again;

    WANT(latest(first, 203, &v), ST_NOT_WATCHED);
    WANT(v.value.i64 >= INT64_BLANK, 1);
    WANT(latest(first, 9999, &v), ST_UNKNOWN_FIELD);
    WANT(dcgmGroupCreate(h, 1, "group", &group), ST_OK);
    WANT(dcgmGroupAddEntity(h, group, FE_GPU, 0), ST_OK);
    WANT(dcgmGroupAddEntity(h, group, FE_GPU, 0), ST_BADPARAM);
    WANT(dcgmGroupAddEntity(h, group, FE_GPU, 7), ST_BADPARAM);
    WANT(dcgmGroupAddEntity(h, group, FE_GPU_I, 3), ST_OK);
    WANT(dcgmFieldGroupCreate(h, 6, fields, "fields", &list), ST_OK);
    WANT(dcgmFieldGroupCreate(h, 6, fields, "fields", &again), ST_DUPLICATE_KEY);
    WANT(dcgmWatchFields(h, group, list + 1, 1000000, 0, 1), ST_NOT_CONFIGURED);
    WANT(dcgmWatchFields(h, group, list, 3600 * 1000000ll, 0, 1), ST_OK);
    WANT(dcgmUpdateAllFields(h, 1), ST_OK);
    WANT(latest(first, 155, &v), ST_OK);
    WANT(v.type, 'd');
    WANT(v.value.dbl * 10, 3215);
    WANT(latest(first, 203, &v), ST_OK);
    WANT(v.value.i64, 87);
    WANT(latest(first, 204, &v), ST_OK);
    WANT(v.value.i64, INT64_BLANK);
    WANT(latest(part, 203, &v), ST_OK);
    WANT(v.value.i64, 87); /* its card's, as the field is measured on cards */
    WANT(latest(part, 252, &v), ST_OK);
    WANT(v.value.i64, INT64_BLANK + 2); /* the state says: unsupported */
    WANT(latest(part, 54, &v), ST_OK);
    WANT(strcmp(v.value.str, "MIG-1"), 0);
    WANT(latest(part, 50, &v), ST_OK);
    WANT(strcmp(v.value.str, "3g.40gb"), 0);
    int64_t taken = v.ts;
    WANT(latest(part, 50, &v), ST_OK);
    WANT(v.ts, taken); /* not due again within the hour */
    WANT(dcgmUnwatchFields(h, group, list), ST_OK);
    WANT(latest(first, 203, &v), ST_NOT_WATCHED);
    WANT(dcgmFieldGroupDestroy(h, list), ST_OK);
    WANT(dcgmFieldGroupDestroy(h, list), ST_NOT_CONFIGURED);
    WANT(dcgmGroupDestroy(h, group), ST_OK);
}

/* Every way in which a value can be no value, and the other kinds of entity. */
static void odd_values(void) {
    static value_v2 v;
    entity_t card = { FE_GPU, 0 }, nvswitch = { FE_SWITCH, 2 }, core = { FE_CPU_CORE, 70 };
    entity_t link = { FE_LINK, FE_GPU | 5 << 8 | 1 << 24 };
    unsigned short fields[] = { 100, 101, 140, 150, 157, 206, 53, 858, 580, 1100, 1001 };
    uintptr_t group, list, profiled;
    WANT(dcgmGroupCreate(h, 1, "odd", &group), ST_OK);
    WANT(dcgmGroupAddEntity(h, group, FE_GPU, 0), ST_OK);
    WANT(dcgmGroupAddEntity(h, group, FE_SWITCH, 2), ST_OK);
    WANT(dcgmGroupAddEntity(h, group, FE_SWITCH, 3), ST_BADPARAM);
    WANT(dcgmGroupAddEntity(h, group, FE_LINK, link.id), ST_OK);
    WANT(dcgmGroupAddEntity(h, group, FE_CPU_CORE, 70), ST_OK);
    WANT(dcgmGroupAddEntity(h, group, FE_CPU_CORE, 72), ST_BADPARAM);
    WANT(dcgmFieldGroupCreate(h, 10, fields, "odd", &list), ST_OK);
    WANT(dcgmWatchFields(h, group, list, 1000000, 0, 0), ST_OK);
    WANT(latest(card, 100, &v), ST_OK);
    WANT(v.value.i64, INT64_BLANK + 1);
    WANT(latest(card, 101, &v), ST_OK);
    WANT(v.value.i64, INT64_BLANK + 3);
    WANT(latest(card, 140, &v), ST_OK);
    WANT(v.value.i64, INT32_BLANK + 2);
    WANT(latest(card, 150, &v), ST_OK);
    WANT(v.value.dbl != v.value.dbl, 1);
    WANT(latest(card, 157, &v), ST_OK);
    WANT(v.value.dbl > 1e300, 1);
    WANT(latest(card, 206, &v), -18);
    WANT(latest(card, 53, &v), ST_OK);
    WANT(strcmp(v.value.str, "N/A"), 0);
    WANT(latest(nvswitch, 858, &v), ST_OK);
    WANT(v.value.i64, 41);
    WANT(latest(link, 580, &v), ST_OK);
    WANT(v.value.i64, 7);
    WANT(latest(core, 1100, &v), ST_OK);
    WANT(v.value.dbl * 10, 5);
    WANT(dcgmGroupAddEntity(h, group, FE_GPU, 1), ST_OK);
    fields[10] = 1002; /* which the second card cannot profile */
    WANT(dcgmFieldGroupCreate(h, 1, &fields[10], "profiled", &profiled), ST_OK);
    WANT(dcgmWatchFields(h, group, profiled, 1000000, 0, 0), ST_PROFILING_NOT_SUPPORTED);
    WANT(dcgmGroupDestroy(h, group), ST_OK);
}

static int count(unsigned int kind, unsigned int id, value_v1 *v, int n, void *user) {
    (void)kind, (void)id;
    for (int i = 0; i < n; i++)
        *(int *)user += (int)v[i].value.i64;
    return 0;
}

/* Sums the first card's values; the second has blanks. */
static int add_reasons(unsigned int kind, unsigned int id, value_v1 *v, int n, void *user) {
    (void)kind;
    for (int i = 0; id == 0 && i < n; i++)
        *(int *)user += (int)v[i].value.i64;
    return 0;
}

static void events(void) {
    unsigned short field = 230;
    uintptr_t list;
    long long next = 0;
    int sum = 0;
    WANT(dcgmFieldGroupCreate(h, 1, &field, "xids", &list), ST_OK);
    WANT(dcgmGetValuesSince_v2(h, GROUP_ALL_GPUS, list, 0, &next, count, &sum), ST_OK);
    WANT(sum, 0); /* not watched */
    WANT(dcgmWatchFields(h, GROUP_ALL_GPUS, list, 1000000, 0, 0), ST_OK);
    WANT(dcgmGetValuesSince_v2(h, GROUP_ALL_GPUS, list, 0, &next, count, &sum), ST_OK);
    WANT(sum, 31 + 79);
    WANT(dcgmGetValuesSince_v2(h, GROUP_ALL_GPUS, list, next, &next, count, &sum), ST_OK);
    WANT(sum, 31 + 79); /* each event once */

    /* Of a sampled field, a value for each sample. */
    field = 112;
    sum = 0;
    WANT(dcgmFieldGroupCreate(h, 1, &field, "clocks", &list), ST_OK);
    WANT(dcgmWatchFields(h, GROUP_ALL_GPUS, list, 1, 0, 0), ST_OK);
    WANT(dcgmGetValuesSince_v2(h, GROUP_ALL_GPUS, list, 0, &next, add_reasons, &sum), ST_OK);
    WANT(sum, 4);
    WANT(dcgmGetValuesSince_v2(h, GROUP_ALL_GPUS, list, 0, &next, add_reasons, &sum), ST_OK);
    WANT(sum, 4 + 8);
}

static void limits(void) {
    uintptr_t id;
    char name[16];
    status_t st = ST_OK;
    for (int i = 0; i < 200 && st == ST_OK; i++)
        st = dcgmGroupCreate(h, 1, "g", &id);
    WANT(st, ST_MAX_LIMIT);
    unsigned short field = 203;
    st = ST_OK;
    for (int i = 0; i < 200 && st == ST_OK; i++) {
        snprintf(name, sizeof name, "f%d", i);
        st = dcgmFieldGroupCreate(h, 1, &field, name, &id);
    }
    WANT(st, ST_MAX_LIMIT);
    WANT(DcgmFieldGetById(0) == NULL, 1);
    WANT(DcgmFieldGetById(UINT16_MAX) == NULL, 1);
    WANT(DcgmFieldGetById(203)->type, 'i');
}

/* Prints for each file the bad line, or 0. */
static void parse(char **files, int n) {
    static state parsed;
    for (int i = 0; i < n; i++) {
        FILE *f = fopen(files[i], "rb");
        char *text = calloc(1, 1 << 20);
        if (f == NULL || text == NULL || fread(text, 1, (1 << 20) - 1, f) == 0)
            printf("-1\n");
        else
            printf("%d\n", state_parse(text, &parsed));
        free(text);
        if (f)
            fclose(f);
    }
}

int main(int argc, char **argv) {
    if (argc > 1) {
        parse(argv + 1, argc - 1);
        return 0;
    }
    const char *address = getenv("DRIVE_ADDRESS");
    connect_v2 params = { .version = VERSION(connect_v2, 2), .is_unix = address && *address == '/' };
    unsigned int cards[MAX_DEVICES];
    int n = 0;
    bool remote = address && *address;
    WANT(dcgmConnect_v2("localhost", &params, &h), ST_UNINITIALIZED);
    WANT(dcgmInit(), ST_OK);
    WANT(dcgmGetAllDevices(1, cards, &n), ST_CONNECTION_NOT_VALID);
    params.is_unix = 1;
    WANT(dcgmConnect_v2("/nonexistent/socket", &params, &h), ST_CONNECTION_NOT_VALID);
    params.is_unix = address && *address == '/';
    WANT(remote ? dcgmConnect_v2(address, &params, &h) : dcgmStartEmbedded(1, &h), ST_OK);
    WANT(h == EMBEDDED_HANDLE, !remote);
    WANT(dcgmGetAllDevices(h, cards, &n), ST_OK);
    WANT(n, 2);
    versions();
    machine();
    values();
    odd_values();
    events();
    limits();
    handle_t old = h;
    WANT(remote ? dcgmDisconnect(h) : dcgmStopEmbedded(h), ST_OK);
    WANT(dcgmDisconnect(h), ST_CONNECTION_NOT_VALID);
    if (remote) {
        WANT(dcgmConnect_v2(address, &params, &h), ST_OK);
        WANT(dcgmGetAllDevices(old, cards, &n), ST_CONNECTION_NOT_VALID);
        WANT(dcgmGetAllDevices(h, cards, &n), ST_OK);
    }
    WANT(dcgmShutdown(), ST_OK);
    WANT(dcgmShutdown(), ST_UNINITIALIZED);
    printf("%d failures\n", failures);
    return failures != 0;
}
