/* The pretended host engine: connections, groups, watches and samples. Every
 * function here wants the engine's lock, except engine_enter, which takes it,
 * and engine_leave, which gives it back. */
#ifndef FAKEDCGM_ENGINE_H
#define FAKEDCGM_ENGINE_H

#include "abi.h"
#include "state.h"

/* Begins a call on a connection: checks the handle, hangs as long as the state
 * says, and gives the state. On ST_OK the lock is held until engine_leave. */
status_t engine_enter(handle_t handle, const state **out);
status_t engine_leave(status_t result);

/* Lifecycle. */
status_t engine_init(void);
status_t engine_connect(bool embedded, handle_t *out);
status_t engine_disconnect(handle_t handle);
status_t engine_shutdown(void);

/* Groups of entities and of fields. */
typedef struct {
    bool used;
    char name[STR_LEN];
    int count;
    entity_t list[MAX_ENTITIES];
} entity_group;

typedef struct {
    bool used;
    char name[STR_LEN];
    int count;
    unsigned short list[MAX_FIELDS_IN_GROUP];
} field_group;

status_t group_new(const char *name, uintptr_t *id);
status_t field_group_new(const char *name, uintptr_t *id);
entity_group *group_find(uintptr_t id, const state *s);
field_group *field_group_find(uintptr_t id);
void groups_clear(void);

/* Cards and instances. */
const card *find_card(const state *s, unsigned int gpu);
const instance *find_instance(const state *s, unsigned int entity, const card **parent);
bool entity_exists(const state *s, entity_t e);

/* Watches and samples. A sample is due when the last one is older than the
 * watch interval; it is then taken from the state of that moment. */
status_t watch_add(entity_t e, unsigned short field, int64_t every_us);
void watch_remove(entity_t e, unsigned short field);
void watches_clear(void);
void watches_update(const state *s);
bool watch_exists(entity_t e, unsigned short field);

/* One value. DCGM's own structs carry 4 KB each, so only the API speaks them. */
typedef struct {
    unsigned short field, type;
    int status;
    int64_t ts; /* microseconds since 1970 */
    union {
        int64_t i64;
        double dbl;
        char str[MAX_TEXT];
    } value;
} sample;

/* The last sample of a watch, a new one when it is due; NOT_WATCHED without. */
void sample_latest(const state *s, entity_t e, unsigned short field, sample *out);
/* Reads the state itself, as DCGM does for live data and attributes. */
void sample_live(const state *s, entity_t e, unsigned short field, sample *out);

/* Field metadata; NULL where DCGM knows no such field. */
const field_meta *field_by_id(unsigned short id);

int64_t now_us(void);

#endif
