/* Drives the double without any Go, so that it can run under the sanitizers.
 * It is linked with the double's own source. */
#include "../c/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

status_t dcgmInit(void);
status_t dcgmShutdown(void);
status_t dcgmStartEmbedded(int, handle_t *);
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
    WANT(groups.groups[0].fields[0], 1001);
    WANT(dcgmGroupGetInfo(h, GROUP_ALL_GPUS, &info), ST_VER_MISMATCH);
    info.version = VERSION(group_info_v3, 3);
    WANT(dcgmGroupGetInfo(h, GROUP_ALL_GPUS, &info), ST_OK);
    WANT(info.count, 2);
    WANT(dcgmHostengineVersionInfo(h, &version), ST_VER_MISMATCH);
    WANT(dcgmConnect_v2("localhost", &params, &other), ST_VER_MISMATCH);
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

static int count(unsigned int kind, unsigned int id, value_v1 *v, int n, void *user) {
    (void)kind, (void)id;
    for (int i = 0; i < n; i++)
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
    connect_v2 params = { .version = VERSION(connect_v2, 2) };
    unsigned int cards[MAX_DEVICES];
    int n = 0;
    WANT(dcgmConnect_v2("localhost", &params, &h), ST_UNINITIALIZED);
    WANT(dcgmInit(), ST_OK);
    WANT(dcgmGetAllDevices(1, cards, &n), ST_CONNECTION_NOT_VALID);
    WANT(dcgmConnect_v2("localhost", &params, &h), ST_OK);
    WANT(dcgmGetAllDevices(h, cards, &n), ST_OK);
    WANT(n, 2);
    versions();
    values();
    events();
    limits();
    WANT(dcgmDisconnect(h), ST_OK);
    WANT(dcgmDisconnect(h), ST_CONNECTION_NOT_VALID);
    WANT(dcgmStartEmbedded(1, &h), ST_OK);
    WANT(h, EMBEDDED_HANDLE);
    WANT(dcgmShutdown(), ST_OK);
    WANT(dcgmShutdown(), ST_UNINITIALIZED);
    printf("%d failures\n", failures);
    return failures != 0;
}
