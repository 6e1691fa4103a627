/* Compiled, never run: the shim's shapes against NVIDIA's own headers, which come with go-dcgm. */
#include "dcgm_fields.h"
#include "dcgm_structs.h"

#include "../../shim.c"

#define SIZE(theirs, ours) _Static_assert(sizeof(theirs) == sizeof(ours), #theirs)
#define PLACE(theirs, field, ours, our_field) _Static_assert(offsetof(theirs, field) == offsetof(ours, our_field), #theirs "." #field)

SIZE(dcgmGroupEntityPair_t, shim_entity);
SIZE(dcgmFieldValue_v2, shim_value);
PLACE(dcgmFieldValue_v2, fieldId, shim_value, field);
PLACE(dcgmFieldValue_v2, fieldType, shim_value, type);
PLACE(dcgmFieldValue_v2, status, shim_value, status);
PLACE(dcgmFieldValue_v2, ts, shim_value, ts);
PLACE(dcgmFieldValue_v2, value, shim_value, value);
_Static_assert(sizeof(dcgmNvLinkStatus_v4) == 4 * LINK_WORDS(LINKS_V4), "dcgmNvLinkStatus_v4");
_Static_assert(DCGM_FV_FLAG_LIVE_DATA == SHIM_LIVE, "flags");
