/* The pretended host engine: groups, watches and samples of one connection. All
 * functions but engine_serve want the engine's lock. */
#ifndef FAKEDCGM_ENGINE_H
#define FAKEDCGM_ENGINE_H

#include "abi.h"
#include "state.h"
#include "wire.h"

/* Serves one call: hangs as long as the state says, and answers into out. It is
 * what a host engine's process runs, and the library for an embedded one. */
status_t engine_serve(int call, buffer *in, buffer *out);
/* Waits as a call does; gives CONNECTION_NOT_VALID when the engine is dead. */
status_t engine_greet(void);
/* Notes which XIDs there are already: a host engine that starts knows those of the kernel
 * log only. */
void engine_begin(void);
/* Appends a line to the log. */
void engine_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Forgets groups and watches, as at the end of a connection. */
void engine_forget(void);

/* What serves each call, in machine.c, values.c and health.c. */
typedef status_t handler(const state *s, buffer *in, buffer *out);
#define DECLARE_HANDLER(name) handler serve_##name;
CALLS(DECLARE_HANDLER)
#undef DECLARE_HANDLER

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

/* What there is. */
const GPU *find_gpu(const state *s, unsigned int gpu);
/* The k-th instance of a GPU. */
const instance *instance_of(const state *s, const GPU *c, int k);
const instance *find_instance(const state *s, unsigned int entity, const GPU **parent);
const instance *find_compute(const state *s, unsigned int entity, const GPU **parent);
const thing *find_thing(const state *s, entity_t e);
bool entity_exists(const state *s, entity_t e);
/* The profiling fields of a GPU; NULL with *n 0 when it cannot be profiled. */
const unsigned short *profiled_fields(const state *s, const GPU *c, int *n);
/* What the state says of a field; NULL where it says nothing. */
const field_value *find_value(const state *s, span of, unsigned short field);

/* One value. DCGM's own structs carry 4 KB each, so only the API uses them. */
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

/* Watches and samples. A sample is due when the last one is older than the
 * watch interval; it is then taken from the state of that moment. */
void xids_begin(const state *s);
status_t watch_add(entity_t e, unsigned short field, int64_t every_us);
void watch_remove(entity_t e, unsigned short field);
void watches_clear(void);
void watches_update(const state *s);

/* The last sample of a watch, a new one when it is due; NOT_WATCHED without. */
void sample_latest(const state *s, entity_t e, unsigned short field, sample *out);
/* Reads the state itself, as DCGM does for live data and attributes. */
void sample_live(const state *s, entity_t e, unsigned short field, sample *out);
/* The kept samples of a watch since a time, oldest first, up to MAX_HISTORY. */
enum { MAX_HISTORY = 128 };
int samples_since(const state *s, entity_t e, unsigned short field, int64_t from, sample *out);

void put_sample(buffer *b, const sample *v);

/* Field metadata; NULL where DCGM knows no such field. */
const field_meta *field_by_id(unsigned short id);

int64_t now_us(void);

#endif
