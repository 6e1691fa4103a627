/* The library's functions that concern the connection and the machine. Version
 * words are checked here, before anything is asked of a host engine. */
#include "connection.h"
#include "engine.h"

#include <stdio.h>
#include <string.h>

EXPORT status_t dcgmInit(void) {
    return library_init();
}

EXPORT status_t dcgmShutdown(void) {
    return library_shutdown();
}

EXPORT status_t dcgmStartEmbedded(int mode, handle_t *out) {
    if (out == NULL || (mode != 1 && mode != 2))
        return ST_BADPARAM;
    return embedded_start(out);
}

EXPORT status_t dcgmStopEmbedded(handle_t handle) {
    return handle_close(handle);
}

EXPORT status_t dcgmConnect_v2(const char *address, connect_v2 *params, handle_t *out) {
    if (address == NULL || *address == '\0' || params == NULL || out == NULL)
        return ST_BADPARAM;
    if (params->version != VERSION(connect_v2, 2))
        return ST_VER_MISMATCH;
    return remote_connect(address, params->is_unix, params->timeout_ms, out);
}

EXPORT status_t dcgmDisconnect(handle_t handle) {
    return handle_close(handle);
}

EXPORT const char *errorString(status_t st) {
    switch (st) {
    case ST_OK: return "Success";
    case ST_BADPARAM: return "Bad parameter passed to function";
    case ST_GENERIC_ERROR: return "Generic unspecified error";
    case ST_MEMORY: return "Out of memory error";
    case ST_NOT_CONFIGURED: return "Setting not configured";
    case ST_NOT_SUPPORTED: return "Feature not supported";
    case ST_INIT_ERROR: return "DCGM initialization error";
    case ST_UNINITIALIZED: return "Object is in an undefined state";
    case ST_VER_MISMATCH: return "API version mismatch";
    case ST_UNKNOWN_FIELD: return "Unknown field identifier";
    case ST_NO_DATA: return "No data is available";
    case ST_NOT_WATCHED: return "Field is not being watched";
    case ST_CONNECTION_NOT_VALID: return "Host engine connection invalid/disconnected";
    case ST_MAX_LIMIT: return "Limit reached for the object";
    case ST_DUPLICATE_KEY: return "Duplicate key passed to function";
    case ST_PROFILING_NOT_SUPPORTED: return "Profiling is not supported for this group of GPUs or GPU";
    case ST_NVML_NOT_LOADED: return "Cannot perform the requested operation because NVML doesn't exist on this system.";
    default: return "Unknown error";
    }
}

EXPORT int DcgmFieldsInit(void) {
    return 0;
}

EXPORT int DcgmFieldsTerm(void) {
    return 0;
}

EXPORT const field_meta *DcgmFieldGetById(unsigned short id) {
    return field_by_id(id);
}

EXPORT status_t dcgmVersionInfo(version_info_v2 *out) {
    if (out == NULL)
        return ST_BADPARAM;
    if (out->version != VERSION(version_info_v2, 2))
        return ST_VER_MISMATCH;
    snprintf(out->text, sizeof out->text, "version:4.5.0;arch:x86_64;buildtype:fakedcgm");
    return ST_OK;
}

EXPORT status_t dcgmHostengineVersionInfo(handle_t handle, version_info_v2 *out) {
    buffer in = { 0 }, answer = { 0 };
    status_t st = dcgmVersionInfo(out);
    if (st == ST_OK)
        st = call_engine(handle, CALL_dcgmHostengineVersionInfo, &in, &answer);
    buffer_free(&answer);
    return st;
}

/* Calls and copies an answer of fixed size; *first has a struct's version. */
static status_t call_for(handle_t handle, int call, buffer *in, void *out, size_t size) {
    buffer answer = { 0 };
    status_t st = call_engine(handle, call, in, &answer);
    if (st == ST_OK && size > 0) {
        get_bytes(&answer, out, size);
        st = answer.bad ? ST_GENERIC_ERROR : ST_OK;
    }
    buffer_free(&answer);
    return st;
}

/* Copies a count and as many numbers, up to capacity. */
static status_t call_for_ids(handle_t handle, int call, buffer *in, unsigned int *list, int *count, int capacity) {
    buffer answer = { 0 };
    status_t st = call_engine(handle, call, in, &answer);
    int n = 0;
    if (st == ST_OK) {
        GET(&answer, n);
        *count = n < capacity ? n : capacity;
        get_bytes(&answer, list, (size_t)*count * sizeof *list);
        st = answer.bad ? ST_GENERIC_ERROR : ST_OK;
    }
    buffer_free(&answer);
    return st;
}

static status_t list_gpus(handle_t handle, int live_only, unsigned int *list, int *count) {
    buffer in = { 0 };
    if (list == NULL || count == NULL)
        return ST_BADPARAM;
    PUT(&in, live_only);
    return call_for_ids(handle, CALL_dcgmGetAllDevices, &in, list, count, MAX_DEVICES);
}

EXPORT status_t dcgmGetAllDevices(handle_t handle, unsigned int *list, int *count) {
    return list_gpus(handle, 0, list, count);
}

EXPORT status_t dcgmGetAllSupportedDevices(handle_t handle, unsigned int *list, int *count) {
    return list_gpus(handle, 1, list, count);
}

EXPORT status_t dcgmGetEntityGroupEntities(handle_t handle, unsigned int kind, unsigned int *list, int *count,
                                           unsigned int flags) {
    buffer in = { 0 };
    if (list == NULL || count == NULL || *count < 0)
        return ST_BADPARAM;
    PUT(&in, kind);
    PUT(&in, flags);
    return call_for_ids(handle, CALL_dcgmGetEntityGroupEntities, &in, list, count, *count);
}

EXPORT status_t dcgmGetGpuStatus(handle_t handle, unsigned int gpu, int *status) {
    buffer in = { 0 };
    if (status == NULL)
        return ST_BADPARAM;
    PUT(&in, gpu);
    return call_for(handle, CALL_dcgmGetGpuStatus, &in, status, sizeof *status);
}

EXPORT status_t dcgmGetDeviceAttributes(handle_t handle, unsigned int gpu, attributes_v3 *out) {
    buffer in = { 0 };
    if (out == NULL)
        return ST_BADPARAM;
    if (out->version != VERSION(attributes_v3, 3))
        return ST_VER_MISMATCH;
    PUT(&in, gpu);
    return call_for(handle, CALL_dcgmGetDeviceAttributes, &in, out, sizeof *out);
}

EXPORT status_t dcgmGetGpuInstanceHierarchy(handle_t handle, hierarchy_v2 *out) {
    buffer in = { 0 }, answer = { 0 };
    if (out == NULL)
        return ST_BADPARAM;
    if (out->version != VERSION(hierarchy_v2, 2))
        return ST_VER_MISMATCH;
    status_t st = call_engine(handle, CALL_dcgmGetGpuInstanceHierarchy, &in, &answer);
    if (st == ST_OK) {
        out->count = (unsigned)(answer.length / sizeof *out->list);
        if (out->count > sizeof out->list / sizeof *out->list)
            st = ST_GENERIC_ERROR;
        else
            get_bytes(&answer, out->list, out->count * sizeof *out->list);
    }
    buffer_free(&answer);
    return st;
}

EXPORT status_t dcgmProfGetSupportedMetricGroups(handle_t handle, prof_groups_v3 *out) {
    buffer in = { 0 }, answer = { 0 };
    if (out == NULL)
        return ST_BADPARAM;
    if (out->version != VERSION(prof_groups_v3, 3))
        return ST_VER_MISMATCH;
    PUT(&in, out->gpu);
    status_t st = call_engine(handle, CALL_dcgmProfGetSupportedMetricGroups, &in, &answer);
    if (st == ST_OK) {
        int n;
        memset(&out->groups, 0, sizeof out->groups);
        GET(&answer, n);
        out->count = 1;
        out->groups[0].count = (unsigned)n;
        get_bytes(&answer, out->groups[0].fields, (size_t)n * sizeof(unsigned short));
        st = answer.bad ? ST_GENERIC_ERROR : ST_OK;
    }
    buffer_free(&answer);
    return st;
}

EXPORT status_t dcgmGetCpuHierarchy(handle_t handle, cpu_hierarchy_v1 *out) {
    buffer in = { 0 };
    if (out == NULL)
        return ST_BADPARAM;
    if (out->version != VERSION(cpu_hierarchy_v1, 1))
        return ST_VER_MISMATCH;
    return call_for(handle, CALL_dcgmGetCpuHierarchy, &in, out, sizeof *out);
}

EXPORT status_t dcgmGetNvLinkLinkStatus(handle_t handle, unsigned int *out) {
    buffer in = { 0 };
    if (out == NULL)
        return ST_BADPARAM;
    PUT(&in, *out);
    return call_for(handle, CALL_dcgmGetNvLinkLinkStatus, &in, out, *out & 0xffffff);
}

EXPORT status_t dcgmGetNvLinkP2PStatus(handle_t handle, p2p_status_v1 *out) {
    buffer in = { 0 };
    if (out == NULL)
        return ST_BADPARAM;
    if (out->version != VERSION(p2p_status_v1, 1))
        return ST_VER_MISMATCH;
    return call_for(handle, CALL_dcgmGetNvLinkP2PStatus, &in, out, sizeof *out);
}

EXPORT status_t dcgmGetDeviceTopology(handle_t handle, unsigned int gpu, topology_v1 *out) {
    buffer in = { 0 };
    if (out == NULL)
        return ST_BADPARAM;
    if (out->version != VERSION(topology_v1, 1))
        return ST_VER_MISMATCH;
    PUT(&in, gpu);
    status_t st = call_for(handle, CALL_dcgmGetDeviceTopology, &in, NULL, 0);
    if (st == ST_OK)
        memset(out->rest, 0, sizeof out->rest);
    return st;
}

EXPORT status_t dcgmHealthSet(handle_t handle, uintptr_t group, unsigned int systems) {
    buffer in = { 0 };
    PUT(&in, group);
    PUT(&in, systems);
    return call_for(handle, CALL_dcgmHealthSet, &in, NULL, 0);
}

EXPORT status_t dcgmHealthCheck(handle_t handle, uintptr_t group, health_v5 *out) {
    buffer in = { 0 }, answer = { 0 };
    if (out == NULL)
        return ST_BADPARAM;
    if (out->version != VERSION(health_v5, 5))
        return ST_VER_MISMATCH;
    PUT(&in, group);
    status_t st = call_engine(handle, CALL_dcgmHealthCheck, &in, &answer);
    if (st == ST_OK) {
        out->overall = 0;
        out->count = 0;
        while (answer.at < answer.length && out->count < MAX_ENTITIES) {
            health_note h;
            GET(&answer, h);
            incident_t *i = &out->list[out->count++];
            *i = (incident_t){ .system = (unsigned)h.system, .result = h.result, .error.code = (unsigned)h.code,
                               .entity = { FE_GPU, (unsigned)h.gpu } };
            snprintf(i->error.text, sizeof i->error.text, "code %d", h.code);
            out->overall = h.result > out->overall ? h.result : out->overall;
        }
    }
    buffer_free(&answer);
    return st;
}
