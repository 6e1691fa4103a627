/* What DCGM knows about its fields: fields.h as a table by id. */
#include "engine.h"

#include <string.h>

#define FIELD(number, kind, of, where, name) \
    [number] = { .id = number, .type = kind, .size = kind == 'i' || kind == 'd' ? 8 : 0, .tag = name, .scope = where, .level = of },

static const field_meta table[MAX_FIELD_ID] = {
#include "fields.h"
};

const field_meta *field_by_id(unsigned short id) {
    return id > 0 && id < MAX_FIELD_ID && table[id].type != 0 ? &table[id] : NULL;
}
