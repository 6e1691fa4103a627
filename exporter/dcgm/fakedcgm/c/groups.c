/* Groups of entities and of fields, with DCGM's limits. */
#include "engine.h"

#include <stdio.h>
#include <string.h>

static entity_group groups[MAX_GROUPS];
static field_group field_groups[MAX_GROUPS];

/* Ids begin above 1: DCGM keeps the first ones for its own default groups. */
enum { FIRST_ID = 2 };

status_t group_new(const char *name, uintptr_t *id) {
    for (int i = 0; i < MAX_GROUPS; i++) {
        if (groups[i].used)
            continue;
        memset(&groups[i], 0, sizeof groups[i]);
        groups[i].used = true;
        snprintf(groups[i].name, STR_LEN, "%s", name);
        *id = (uintptr_t)(i + FIRST_ID);
        return ST_OK;
    }
    return ST_MAX_LIMIT;
}

status_t field_group_new(const char *name, uintptr_t *id) {
    int slot = -1;
    for (int i = MAX_GROUPS - 1; i >= 0; i--) {
        if (!field_groups[i].used)
            slot = i;
        else if (strcmp(field_groups[i].name, name) == 0)
            return ST_DUPLICATE_KEY;
    }
    if (slot < 0)
        return ST_MAX_LIMIT;
    memset(&field_groups[slot], 0, sizeof field_groups[slot]);
    field_groups[slot].used = true;
    snprintf(field_groups[slot].name, STR_LEN, "%s", name);
    *id = (uintptr_t)(slot + FIRST_ID);
    return ST_OK;
}

entity_group *group_find(uintptr_t id, const state *s) {
    static entity_group all;
    if (id == GROUP_ALL_GPUS) {
        all.count = s->GPUs;
        for (int i = 0; i < s->GPUs; i++)
            all.list[i] = (entity_t){ FE_GPU, (unsigned)s->GPU[i].index };
        return &all;
    }
    if (id < FIRST_ID || id >= MAX_GROUPS + FIRST_ID || !groups[id - FIRST_ID].used)
        return NULL;
    return &groups[id - FIRST_ID];
}

field_group *field_group_find(uintptr_t id) {
    if (id < FIRST_ID || id >= MAX_GROUPS + FIRST_ID || !field_groups[id - FIRST_ID].used)
        return NULL;
    return &field_groups[id - FIRST_ID];
}

void groups_clear(void) {
    for (int i = 0; i < MAX_GROUPS; i++) {
        groups[i].used = false;
        field_groups[i].used = false;
    }
}
