/* Serves the calls of the health system: which of it is on belongs to a group,
 * and what is wrong stands in the state. */
#include "engine.h"

static struct {
    uintptr_t group;
    unsigned int systems;
} watched[MAX_GROUPS];
static int count;

status_t serve_dcgmHealthSet(const state *s, buffer *in, buffer *out) {
    uintptr_t group;
    unsigned int systems;
    (void)out;
    GET(in, group);
    GET(in, systems);
    if (group_find(group, s) == NULL)
        return ST_NOT_CONFIGURED;
    int i = 0;
    while (i < count && watched[i].group != group)
        i++;
    if (i == MAX_GROUPS)
        return ST_MAX_LIMIT;
    count = i == count ? count + 1 : count;
    watched[i].group = group;
    watched[i].systems = systems;
    return ST_OK;
}

static bool holds(const entity_group *g, int gpu) {
    for (int i = 0; i < g->count; i++)
        if (g->list[i].kind == FE_GPU && g->list[i].id == (unsigned)gpu)
            return true;
    return false;
}

status_t serve_dcgmHealthCheck(const state *s, buffer *in, buffer *out) {
    uintptr_t group;
    GET(in, group);
    const entity_group *g = group_find(group, s);
    if (g == NULL)
        return ST_NOT_CONFIGURED;
    unsigned int systems = 0;
    for (int i = 0; i < count; i++)
        systems |= watched[i].group == group ? watched[i].systems : 0;
    for (int i = 0; i < s->incidents; i++) {
        const health_note *h = &s->incident[i];
        if (!(systems & (unsigned)h->system) || !holds(g, h->gpu))
            continue;
        PUT(out, *h);
    }
    return ST_OK;
}
