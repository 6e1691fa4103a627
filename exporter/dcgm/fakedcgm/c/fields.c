/* What DCGM knows of its fields. */
#include "fake.h"

#include <stdlib.h>

/* The fields of DCGM 4.6.0 as its own library reports them, more than go-dcgm's headers have: the level of
 * entity that has them, type, and ids. Facts of NVIDIA DCGM (Apache-2.0). */
enum { MAX_FIELDS = 1534 };
static const struct {
    int level;
    char type;
    const char *ids;
} fields[] = {
    { DCGM_FE_NONE, 'b', "362" },
    { DCGM_FE_NONE, 'i', "4-6 350-361 363 1503" },
    { DCGM_FE_NONE, 's', "1-3 1502" },
    { DCGM_FE_GPU, 'b', "60-62 75-77 91 130 165-167 205 220-221 506-508" },
    { DCGM_FE_GPU, 'd', "155 157 160-164 210-211 1017-1034 1216 1218 1428-1432 1434-1436 1439-1441" },
    { DCGM_FE_GPU, 'i', "52 55 58-59 63-67 69-74 83-84 86-89 94 100-102 110-115 120 140 150-153 156 158-159 170-171 173-175 190-191 200-204 "
      "206-207 235-238 240-247 285-287 300-301 310-346 385-396 400-489 491-500 573-577 825-843 879-897 1009-1012 1040-1096 "
      "1200-1215 1217 1219-1220 1400-1427 1433 1437-1438 1442 1501 1507 1523" },
    { DCGM_FE_GPU, 's', "51 53 56-57 80-82 85 172 571-572" },
    { DCGM_FE_VGPU, 'b', "501-505 509-513 528-531" },
    { DCGM_FE_VGPU, 'i', "522 525-527 534" },
    { DCGM_FE_VGPU, 's', "520-521 523-524 532-533" },
    { DCGM_FE_SWITCH, 'i', "701-707 856-864 866-869" },
    { DCGM_FE_SWITCH, 's', "1524" },
    { DCGM_FE_GPU_I, 'd', "1005" },
    { DCGM_FE_GPU_CI, 'd', "254 1001-1004 1006-1008 1013-1016" },
    { DCGM_FE_GPU_CI, 'i', "90 92-93 230 250-253" },
    { DCGM_FE_GPU_CI, 's', "50 54 68" },
    { DCGM_FE_LINK, 'i', "580-592 780-824 865 870-876 1508-1509 1525-1533" },
    { DCGM_FE_LINK, 's', "877-878" },
    { DCGM_FE_CPU, 'd', "1110-1112 1130-1133" },
    { DCGM_FE_CPU, 's', "1140-1141" },
    { DCGM_FE_CPU_CORE, 'd', "1100-1104" },
    { DCGM_FE_CPU_CORE, 'i', "1120" },
    { DCGM_FE_CONNECTX, 'd', "1310" },
    { DCGM_FE_CONNECTX, 'i', "1300-1309" },
};

static dcgm_field_meta_t table[MAX_FIELDS];

__attribute__((constructor)) static void fill_table(void) {
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        for (char *at = (char *)fields[i].ids; *at;) {
            const long first = strtol(at, &at, 10), last = *at == '-' ? strtol(at + 1, &at, 10) : first;
            for (long id = first; id <= last; id++)
                table[id] = (dcgm_field_meta_t){ .fieldId = (unsigned short)id, .fieldType = fields[i].type, .entityLevel = (unsigned)fields[i].level,
                                                 .size = fields[i].type == 'i' || fields[i].type == 'd' ? 8 : 0, .scope = fields[i].level != DCGM_FE_NONE };
        }
}

int DcgmFieldsInit(void) { return 0; }

dcgm_field_meta_p DcgmFieldGetById(unsigned short id) { return id < MAX_FIELDS && table[id].fieldType != 0 ? &table[id] : NULL; }
