#define _GNU_SOURCE
#include "shim.h"

#include <dlfcn.h>
#include <stddef.h>

_Static_assert(sizeof(shim_value) == 4128, "dcgmFieldValue_v2");
_Static_assert(offsetof(shim_value, value) == 32, "dcgmFieldValue_v2.value");

/* FIND(name, arguments) declares call, the function of that name or NULL. The library is loaded globally. */
#define FIND(name, ...)         \
    int (*call)(__VA_ARGS__);   \
    *(void **)&call = dlsym(RTLD_DEFAULT, name)

int shim_latest(uintptr_t handle, shim_entity *entities, unsigned n, uint16_t *fields, unsigned fields_n,
                unsigned flags, shim_value *out) {
    FIND("dcgmEntitiesGetLatestValues", uintptr_t, shim_entity *, unsigned, uint16_t *, unsigned, unsigned, shim_value *);
    return call ? call(handle, entities, n, fields, fields_n, flags, out) : SHIM_NO_SYMBOL;
}

enum { LINK_UP = 3, LINKS_V4 = 18, LINKS_V5 = 36, LINKS_PER_SWITCH = 256, MAX_GPUS = 32, MAX_SWITCHES = 12 };
enum { VERSION_MISMATCH = -12 };

/* dcgmNvLinkStatus_v4 and _v5 are words: the version, the number of GPUs, then for each of
 * 32 GPUs its id and the states of its 18 or 36 links. The number of switches and the same
 * of 12 switches follow. v5 came with DCGM 4.6. */
#define LINK_WORDS(links) (2 + MAX_GPUS * (1 + (links)) + 1 + MAX_SWITCHES * (1 + LINKS_PER_SWITCH))
_Static_assert(4 * LINK_WORDS(LINKS_V4) == 0x39bc, "dcgmNvLinkStatus_v4");
_Static_assert(4 * LINK_WORDS(LINKS_V5) == 0x42bc, "dcgmNvLinkStatus_v5");
_Static_assert(MAX_GPUS * LINKS_V5 + MAX_SWITCHES * LINKS_PER_SWITCH <= SHIM_MAX_LINKS, "space for links");

/* dcgm_link_t */
static uint32_t link_of(uint32_t kind, uint32_t parent, uint32_t index) {
    return kind | index << 8 | parent << 24;
}

int shim_links(uintptr_t handle, uint32_t *out, int *n) {
    FIND("dcgmGetNvLinkLinkStatus", uintptr_t, uint32_t *);
    static const unsigned links_of[] = { LINKS_V5, LINKS_V4 };
    *n = 0;
    int st = call ? VERSION_MISMATCH : SHIM_NO_SYMBOL;
    for (unsigned v = 0; v < 2 && st == VERSION_MISMATCH; v++) {
        uint32_t words[LINK_WORDS(LINKS_V5)] = { 4 * LINK_WORDS(links_of[v]) | (5 - v) << 24 };
        st = call(handle, words);
        if (st != 0)
            continue;
        const uint32_t *at = words + 2, *switches = at + MAX_GPUS * (1 + links_of[v]);
        for (unsigned i = 0; i < words[1] && i < MAX_GPUS; i++, at += 1 + links_of[v])
            for (unsigned k = 0; k < links_of[v]; k++)
                if (at[1 + k] == LINK_UP)
                    out[(*n)++] = link_of(SHIM_GPU, at[0], k);
        at = switches + 1;
        for (unsigned i = 0; i < *switches && i < MAX_SWITCHES; i++, at += 1 + LINKS_PER_SWITCH)
            for (unsigned k = 0; k < LINKS_PER_SWITCH; k++)
                if (at[1 + k] == LINK_UP)
                    out[(*n)++] = link_of(SHIM_SWITCH, at[0], k);
    }
    return st;
}

int shim_watch(uintptr_t handle, uintptr_t group, uintptr_t fields, int64_t every_us, double keep_s) {
    FIND("dcgmWatchFields", uintptr_t, uintptr_t, uintptr_t, long long, double, int);
    return call ? call(handle, group, fields, every_us, keep_s, 0) : SHIM_NO_SYMBOL;
}

const char *shim_error(int code) {
    const char *(*call)(int);
    *(void **)&call = dlsym(RTLD_DEFAULT, "errorString");
    const char *text = call ? call(code) : NULL;
    return text ? text : "unknown error";
}
