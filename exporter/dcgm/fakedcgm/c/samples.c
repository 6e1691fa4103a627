/* What DCGM reads of the machine. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- XIDs ----------------------------------------------------------------- */

int xids_since(entity e, int64_t from, dcgmFieldValue_v1 out[MAX_HISTORY]) {
    const part *p = part_of(e);
    const char *on;
    char own[16] = "";
    int found = 0;
    if (p && p->gi >= 0)
        snprintf(own, sizeof own, p->ci < 0 ? "%d" : "%d/%d", p->gi, p->ci);
    for (int k = 0; p && found < MAX_HISTORY && (on = value_at("GPUs.%d.XIDs.%d.On", p->gpu, k)) != NULL; k++) {
        const int64_t at = number_at("GPUs.%d.XIDs.%d.At", p->gpu, k);
        if (strcmp(on, own) == 0 && at >= from)
            out[found++] = (dcgmFieldValue_v1){ .version = dcgmFieldValue_version1, .fieldId = XID_ERRORS, .fieldType = 'i', .ts = at,
                                                .value.i64 = number_at("GPUs.%d.XIDs.%d.Code", p->gpu, k) };
    }
    return found;
}

/* --- values --------------------------------------------------------------- */

enum { BLANK, NOT_SUPPORTED = DCGM_INT32_NOT_SUPPORTED - DCGM_INT32_BLANK };

static void set_blank(sample *out, int kind) {
    if (out->fieldType == 's')
        strcpy(out->value.str, kind == BLANK ? DCGM_STR_BLANK : DCGM_STR_NOT_SUPPORTED);
    else if (out->fieldType == 'd')
        out->value.dbl = DCGM_FP64_BLANK + kind;
    else
        out->value.i64 = DCGM_INT64_BLANK + kind;
}

void sample_blank(entity e, unsigned short field, int status, sample *out) {
    const dcgm_field_meta_p meta = DcgmFieldGetById(field);
    out->version = dcgmFieldValue_version2;
    out->entityGroupId = e.entityGroupId;
    out->entityId = e.entityId;
    out->fieldId = field;
    out->fieldType = meta ? (unsigned short)meta->fieldType : 'i';
    out->status = meta ? status : DCGM_ST_UNKNOWN_FIELD;
    out->unused = 0;
    out->ts = 0;
    set_blank(out, BLANK);
}

/* What the rest of the machine says of a field; NULL where nothing does. */
static const char *implied(const part *p, unsigned short field) {
    static profile whole;
    const bool of_instance = p->is.entityGroupId == DCGM_FE_GPU_I;
    if (of_instance && field == DCGM_FI_DEV_NAME)
        return instance_at(p->gpu, p->gi, &whole) ? whole.name : NULL;
    if (of_instance && field == DCGM_FI_DEV_UUID)
        return value_at("%s.Computes.0.UUID", p->path);
    if (field == DCGM_FI_DRIVER_VERSION)
        return value_at("Driver");
    if (p->is.entityGroupId != DCGM_FE_GPU)
        return NULL;
    switch (field) {
    case DCGM_FI_DEV_NVML_INDEX: return path("%d", p->gpu);
    case DCGM_FI_DEV_NAME: return value_at("%s.Name", p->path);
    case DCGM_FI_DEV_UUID: return value_at("%s.UUID", p->path);
    case DCGM_FI_DEV_PCI_BUSID: return value_at("%s.PCIBusID", p->path);
    case DCGM_FI_DEV_MINOR_NUMBER: return value_at("%s.Minor", p->path);
    case DCGM_FI_DEV_FB_TOTAL: return value_at("%s.MemoryMiB", p->path);
    case DCGM_FI_DEV_MIG_MODE: return path("%lld", number_at("%s.MIG", p->path));
    case DCGM_FI_DEV_MIG_MAX_SLICES: return number_at("%s.MIG", p->path) ? value_at("%s.Spec.ComputeSlices", p->path) : "0";
    }
    return NULL;
}

/* Which entity answers. The GPU answers for a field that DCGM measures on GPUs only. A
 * compute instance has the values of its GPU instance. */
static const part *answering(const part *p, unsigned level) {
    const bool of_instance = level == DCGM_FE_GPU_I || level == DCGM_FE_GPU_CI;
    while (p->ci >= 0 || (p->gi >= 0 && !of_instance)) /* each follows what it is a part of */
        p--;
    return p;
}

void sample_live(entity e, unsigned short field, sample *out) {
    const dcgm_field_meta_p meta = DcgmFieldGetById(field);
    const part *p = part_of(e);
    sample_blank(e, field, p ? DCGM_ST_OK : DCGM_ST_NO_DATA, out);
    if (meta == NULL || p == NULL)
        return;
    out->ts = now_us();
    /* A lost GPU has only blanks, for its last XID too. A detached GPU keeps its name, UUID and bus id. */
    const bool is_named = field == DCGM_FI_DEV_NAME || field == DCGM_FI_DEV_UUID || field == DCGM_FI_DEV_PCI_BUSID;
    if (meta->entityLevel != DCGM_FE_NONE && (p->status == DcgmEntityStatusLost || (p->status == DcgmEntityStatusDetached && !is_named)))
        return;
    const part *of = answering(p, meta->entityLevel);
    const char *v = value_at("%s.Values.f.%u", of->path, field);
    if (v == NULL)
        v = implied(of, field);
    if (field == XID_ERRORS && v == NULL) { /* before the first one DCGM has no data */
        static dcgmFieldValue_v1 xids[MAX_HISTORY];
        sample_blank(e, field, DCGM_ST_NO_DATA, out);
        for (int k = 0, n = xids_since(e, 0, xids); k < n; k++) {
            if (xids[k].ts < out->ts)
                continue;
            out->status = DCGM_ST_OK;
            out->ts = xids[k].ts;
            out->value.i64 = xids[k].value.i64;
        }
        return;
    }
    if (v == NULL)
        return;
    if (strcmp(v, "!unsupported") == 0)
        set_blank(out, NOT_SUPPORTED);
    else if (sscanf(v, "!status:%d", &out->status) == 1)
        return;
    else if (out->fieldType == 's')
        snprintf(out->value.str, sizeof out->value.str, "%s", v);
    else if (out->fieldType == 'd')
        out->value.dbl = strtod(v, NULL);
    else
        out->value.i64 = (int64_t)strtod(v, NULL);
}
