/* What dcgm-exporter asks for at its start and a machine with neither Grace
 * CPUs nor links answers. */
#include "engine.h"

#include <string.h>

EXPORT status_t dcgmGetCpuHierarchy(handle_t handle, cpu_hierarchy_v1 *out) {
    if (out == NULL)
        return ST_BADPARAM;
    if (out->version != VERSION(cpu_hierarchy_v1, 1))
        return ST_VER_MISMATCH;
    const state *s;
    status_t st = engine_enter(handle, &s);
    return st == ST_OK ? engine_leave(ST_NOT_SUPPORTED) : st; /* a machine without Grace CPUs */
}

EXPORT status_t dcgmGetNvLinkLinkStatus(handle_t handle, link_status_v4 *out) {
    if (out == NULL)
        return ST_BADPARAM;
    if (out->version != VERSION(link_status_v4, 4))
        return ST_VER_MISMATCH;
    const state *s;
    status_t st = engine_enter(handle, &s);
    if (st != ST_OK)
        return st;
    memset(out->rest, 0, sizeof out->rest);
    return engine_leave(ST_OK);
}

EXPORT status_t dcgmGetDeviceTopology(handle_t handle, unsigned int gpu, topology_v1 *out) {
    if (out == NULL)
        return ST_BADPARAM;
    if (out->version != VERSION(topology_v1, 1))
        return ST_VER_MISMATCH;
    const state *s;
    status_t st = engine_enter(handle, &s);
    if (st != ST_OK)
        return st;
    memset(out->rest, 0, sizeof out->rest);
    return engine_leave(find_card(s, gpu) ? ST_OK : ST_BADPARAM);
}
