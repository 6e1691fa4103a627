/* What a call and its answer look like between the library and the pretended
 * host engine, in one process or two. Our own protocol: DCGM's is not public. */
#ifndef FAKEDCGM_WIRE_H
#define FAKEDCGM_WIRE_H

#include "abi.h"

#include <stdbool.h>

/* The calls that reach a host engine, by the name of the function. */
#define CALLS(X)                            \
    X(dcgmGetAllDevices)                    \
    X(dcgmGetEntityGroupEntities)           \
    X(dcgmGetGpuStatus)                     \
    X(dcgmGetDeviceAttributes)              \
    X(dcgmGetGpuInstanceHierarchy)          \
    X(dcgmProfGetSupportedMetricGroups)     \
    X(dcgmGetCpuHierarchy)                  \
    X(dcgmGetNvLinkLinkStatus)              \
    X(dcgmGetNvLinkP2PStatus)               \
    X(dcgmGetDeviceTopology)                \
    X(dcgmHostengineVersionInfo)            \
    X(dcgmGroupCreate)                      \
    X(dcgmGroupDestroy)                     \
    X(dcgmGroupAddEntity)                   \
    X(dcgmGroupGetInfo)                     \
    X(dcgmFieldGroupCreate)                 \
    X(dcgmFieldGroupDestroy)                \
    X(dcgmWatchFields)                      \
    X(dcgmUnwatchFields)                    \
    X(dcgmUpdateAllFields)                  \
    X(dcgmEntitiesGetLatestValues)          \
    X(dcgmGetValuesSince_v2)                \
    X(dcgmHealthSet)                        \
    X(dcgmHealthCheck)

#define CALL_NUMBER(name) CALL_##name,
enum { CALLS(CALL_NUMBER) CALL_COUNT };
#undef CALL_NUMBER

/* Bytes that grow as they are written and are checked as they are read. bad is
 * set when there is no memory or a reader runs past the end. */
typedef struct {
    uint8_t *bytes;
    size_t length, capacity, at;
    bool bad;
} buffer;

void put_bytes(buffer *b, const void *from, size_t n);
void get_bytes(buffer *b, void *into, size_t n);
void buffer_free(buffer *b);

#define PUT(b, value) put_bytes(b, &(value), sizeof(value))
#define GET(b, value) get_bytes(b, &(value), sizeof(value))

/* A message is a number (the call, or the status of the answer), a length and
 * the bytes. Each gives false when the other side has gone. */
enum { MAX_MESSAGE = 64 << 20 };
bool message_send(int fd, int32_t number, const buffer *b);
bool message_receive(int fd, int32_t *number, buffer *b);

#endif
