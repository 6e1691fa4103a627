/* What DCGM knows about its fields: which ids there are and what type each has. */
#include "engine.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* Ids that DCGM 4.5's dcgm_fields.h defines, as ranges. */
static const unsigned short ids[][2] = {
    { 1, 6 },       { 50, 77 },     { 80, 94 },     { 100, 102 },   { 110, 115 },   { 120, 120 },
    { 130, 130 },   { 140, 140 },   { 150, 153 },   { 155, 167 },   { 170, 174 },   { 190, 191 },
    { 200, 207 },   { 230, 230 },   { 235, 238 },   { 240, 247 },   { 250, 254 },   { 285, 287 },
    { 300, 301 },   { 310, 346 },   { 350, 363 },   { 385, 396 },   { 400, 489 },   { 491, 513 },
    { 520, 534 },   { 570, 577 },   { 580, 592 },   { 600, 600 },   { 699, 707 },   { 780, 843 },
    { 856, 897 },   { 899, 899 },   { 1001, 1034 }, { 1040, 1083 }, { 1100, 1104 }, { 1110, 1112 },
    { 1120, 1120 }, { 1130, 1133 }, { 1140, 1141 }, { 1200, 1220 }, { 1300, 1310 }, { 1399, 1442 },
    { 1501, 1503 }, { 1507, 1509 }, { 1523, 1523 },
};

/* The rest are 64-bit integers, which is what most of DCGM's fields are. */
static const unsigned short strings[] = { 1, 2, 3, 50, 51, 53, 54, 56, 57, 68, 80, 81, 82, 83, 84, 85,
                                          1140, 1141 };
static const unsigned short float64s[][2] = {
    { 155, 155 }, { 157, 157 }, { 160, 165 }, { 254, 254 }, { 1001, 1008 }, { 1013, 1034 },
    { 1100, 1112 }, { 1130, 1133 },
};

/* Fields that DCGM measures on MIG instances too; the others are the GPU's. */
static const unsigned short on_instances[][2] = {
    { 50, 50 }, { 54, 54 }, { 68, 68 }, { 90, 92 }, { 250, 254 }, { 1001, 1008 }, { 1013, 1016 },
};

static bool is_in(unsigned short id, const unsigned short (*ranges)[2], size_t n) {
    for (size_t i = 0; i < n; i++)
        if (id >= ranges[i][0] && id <= ranges[i][1])
            return true;
    return false;
}

#define IN(id, ranges) is_in(id, ranges, sizeof(ranges) / sizeof *(ranges))

/* Fields of the other kinds of entity. */
static const struct {
    unsigned short first, last;
    unsigned int level;
} elsewhere[] = {
    { 580, 592, FE_LINK },      { 699, 707, FE_SWITCH },      { 780, 824, FE_LINK },
    { 856, 864, FE_SWITCH },    { 865, 865, FE_LINK },        { 866, 869, FE_SWITCH },
    { 870, 877, FE_LINK },      { 878, 878, FE_SWITCH },      { 1100, 1104, FE_CPU },
    { 1110, 1112, FE_CPU },     { 1120, 1120, FE_CPU_CORE },  { 1130, 1133, FE_CPU },
    { 1140, 1141, FE_CPU },     { 1300, 1310, FE_CONNECTX },
};

static unsigned int level_of(unsigned short id) {
    if (id < 50)
        return FE_NONE;
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (id >= elsewhere[i].first && id <= elsewhere[i].last)
            return elsewhere[i].level;
    return IN(id, on_instances) ? FE_GPU_CI : FE_GPU;
}

static char type_of(unsigned short id) {
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++)
        if (strings[i] == id)
            return 's';
    return IN(id, float64s) ? 'd' : 'i';
}

static field_meta table[MAX_FIELD_ID];

static void fill(void) {
    for (size_t r = 0; r < sizeof ids / sizeof *ids; r++) {
        for (unsigned short id = ids[r][0]; id <= ids[r][1]; id++) {
            field_meta *m = &table[id];
            m->id = id;
            m->type = type_of(id);
            m->size = m->type == 's' ? 0 : 8;
            m->scope = id < 50 ? 0 : 1;
            m->level = level_of(id);
            snprintf(m->tag, sizeof m->tag, "field_%u", id);
        }
    }
}

const field_meta *field_by_id(unsigned short id) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill);
    if (id == 0 || id >= MAX_FIELD_ID || table[id].type == 0)
        return NULL;
    return &table[id];
}
