/* Compiled, never run: the fake's shapes and the shim's against NVIDIA's own
 * headers, which come with go-dcgm. */
#include "dcgm_agent.h"
#include "dcgm_fields.h"
#include "dcgm_structs.h"
/* The fake's own names follow. */
#include "../c/abi.h"
#include "../../shim.h"

#define SAME_SIZE(theirs, ours) _Static_assert(sizeof(theirs) == sizeof(ours), #theirs)
#define SAME_PLACE(theirs, field, ours, our_field) \
    _Static_assert(offsetof(theirs, field) == offsetof(ours, our_field), #theirs "." #field)

SAME_SIZE(dcgmConnectV2Params_v2, connect_v2);
SAME_PLACE(dcgmConnectV2Params_v2, addressIsUnixSocket, connect_v2, is_unix);
SAME_SIZE(dcgmGroupEntityPair_t, entity_t);
SAME_SIZE(dcgmGroupEntityPair_t, shim_entity);
SAME_SIZE(dcgmFieldValue_v1, value_v1);
SAME_PLACE(dcgmFieldValue_v1, ts, value_v1, ts);
SAME_PLACE(dcgmFieldValue_v1, value, value_v1, value);
SAME_SIZE(dcgmFieldValue_v2, value_v2);
SAME_PLACE(dcgmFieldValue_v2, status, value_v2, status);
SAME_PLACE(dcgmFieldValue_v2, value, value_v2, value);
SAME_SIZE(dcgmFieldValue_v2, shim_value);
SAME_PLACE(dcgmFieldValue_v2, fieldId, shim_value, field);
SAME_PLACE(dcgmFieldValue_v2, fieldType, shim_value, type);
SAME_PLACE(dcgmFieldValue_v2, status, shim_value, status);
SAME_PLACE(dcgmFieldValue_v2, ts, shim_value, ts);
SAME_PLACE(dcgmFieldValue_v2, value, shim_value, value);
SAME_SIZE(dcgm_field_meta_t, field_meta);
SAME_PLACE(dcgm_field_meta_t, tag, field_meta, tag);
SAME_PLACE(dcgm_field_meta_t, entityLevel, field_meta, level);
SAME_SIZE(dcgmMigHierarchy_v2, hierarchy_v2);
SAME_SIZE(dcgmMigHierarchyInfo_v2, hierarchy_entry);
SAME_PLACE(dcgmMigHierarchy_v2, entityList[3].info.nvmlInstanceId, hierarchy_v2, list[3].nvml_gi);
SAME_PLACE(dcgmMigHierarchy_v2, entityList[3].info.nvmlProfileSlices, hierarchy_v2, list[3].slices);
SAME_SIZE(dcgmDeviceAttributes_v3, attributes_v3);
SAME_PLACE(dcgmDeviceAttributes_v3, identifiers.uuid, attributes_v3, identifiers.uuid);
SAME_PLACE(dcgmDeviceAttributes_v3, settings, attributes_v3, settings);
SAME_SIZE(dcgmDeviceAttributes_v3, shim_attributes);
SAME_PLACE(dcgmDeviceAttributes_v3, identifiers.deviceName, shim_attributes, name);
SAME_PLACE(dcgmDeviceAttributes_v3, identifiers.pciBusId, shim_attributes, pci_bus_id);
SAME_PLACE(dcgmDeviceAttributes_v3, identifiers.uuid, shim_attributes, uuid);
SAME_PLACE(dcgmDeviceAttributes_v3, identifiers.driverVersion, shim_attributes, driver_version);
SAME_SIZE(dcgmProfGetMetricGroups_v3, prof_groups_v3);
SAME_PLACE(dcgmProfGetMetricGroups_v3, metricGroups[1].fieldIds, prof_groups_v3, groups[1].fields);
SAME_SIZE(dcgmCpuHierarchy_v1, cpu_hierarchy_v1);
SAME_PLACE(dcgmCpuHierarchy_v1, cpus[3].ownedCores.bitmask, cpu_hierarchy_v1, cpus[3].cores.bitmask);
_Static_assert(sizeof(dcgmNvLinkStatus_v4) == 4 * LINK_WORDS(18), "dcgmNvLinkStatus_v4");
_Static_assert(offsetof(dcgmNvLinkStatus_v4, gpus[2].linkState) == 4 * (2 + 2 * 19 + 1), "dcgmNvLinkStatus_v4.gpus");
_Static_assert(offsetof(dcgmNvLinkStatus_v4, nvSwitches[2].linkState) == 4 * (2 + 32 * 19 + 1 + 2 * 257 + 1), "dcgmNvLinkStatus_v4.nvSwitches");
SAME_SIZE(dcgmNvLinkP2PStatus_v1, p2p_status_v1);
SAME_PLACE(dcgmNvLinkP2PStatus_v1, gpus[2].linkStatus, p2p_status_v1, gpu[2].status);
SAME_SIZE(dcgmHealthResponse_v5, health_v5);
SAME_PLACE(dcgmHealthResponse_v5, incidents[2].error.code, health_v5, list[2].error.code);
SAME_PLACE(dcgmHealthResponse_v5, incidents[2].entityInfo, health_v5, list[2].entity);

_Static_assert(dcgmFieldValue_version2 == VERSION(value_v2, 2), "dcgmFieldValue_version2");
_Static_assert(dcgmMigHierarchy_version2 == VERSION(hierarchy_v2, 2), "dcgmMigHierarchy_version2");
_Static_assert((int)ST_VER_MISMATCH == (int)DCGM_ST_VER_MISMATCH, "DCGM_ST_VER_MISMATCH");
_Static_assert((int)ST_NOT_WATCHED == (int)DCGM_ST_NOT_WATCHED, "DCGM_ST_NOT_WATCHED");
_Static_assert((int)ST_CONNECTION_NOT_VALID == (int)DCGM_ST_CONNECTION_NOT_VALID, "DCGM_ST_CONNECTION_NOT_VALID");
_Static_assert((int)ST_NOT_CONFIGURED == (int)DCGM_ST_NOT_CONFIGURED, "DCGM_ST_NOT_CONFIGURED");
_Static_assert((int)ST_PROFILING_NOT_SUPPORTED == (int)DCGM_ST_PROFILING_NOT_SUPPORTED, "DCGM_ST_PROFILING_NOT_SUPPORTED");
_Static_assert((int)ST_NVML_NOT_LOADED == (int)DCGM_ST_NVML_NOT_LOADED, "DCGM_ST_NVML_NOT_LOADED");
_Static_assert((int)ST_GPU_IS_LOST == (int)DCGM_ST_GPU_IS_LOST, "DCGM_ST_GPU_IS_LOST");
_Static_assert(dcgmHealthResponse_version5 == VERSION(health_v5, 5), "dcgmHealthResponse_version5");
_Static_assert(dcgmNvLinkStatus_version4 == LINKS_VERSION(4, 18), "dcgmNvLinkStatus_version4");
_Static_assert(dcgmNvLinkP2PStatus_version1 == VERSION(p2p_status_v1, 1), "dcgmNvLinkP2PStatus_version1");
_Static_assert(dcgmCpuHierarchy_version1 == VERSION(cpu_hierarchy_v1, 1), "dcgmCpuHierarchy_version1");
_Static_assert(dcgmDeviceAttributes_version3 == VERSION(attributes_v3, 3), "dcgmDeviceAttributes_version3");
_Static_assert(dcgmProfGetMetricGroups_version3 == VERSION(prof_groups_v3, 3), "dcgmProfGetMetricGroups_version3");
_Static_assert(dcgmConnectV2Params_version2 == VERSION(connect_v2, 2), "dcgmConnectV2Params_version2");
_Static_assert((int)LINK_UP == (int)DcgmNvLinkLinkStateUp, "DcgmNvLinkLinkStateUp");
_Static_assert((int)FE_LINK == (int)DCGM_FE_LINK && (int)FE_CPU_CORE == (int)DCGM_FE_CPU_CORE, "entity groups");
_Static_assert(INT32_BLANK + 3 == DCGM_INT32_NOT_PERMISSIONED && INT64_BLANK + 3 == DCGM_INT64_NOT_PERMISSIONED, "blanks");
_Static_assert((int)FE_GPU_I == (int)DCGM_FE_GPU_I && (int)FE_GPU_CI == (int)DCGM_FE_GPU_CI, "entity groups");
_Static_assert((int)ENTITY_LOST == (int)DcgmEntityStatusLost, "DcgmEntityStatusLost");
_Static_assert(INT64_BLANK == DCGM_INT64_BLANK && FP64_BLANK == DCGM_FP64_BLANK, "blanks");
_Static_assert(MAX_FIELD_ID == DCGM_FI_MAX_FIELDS, "DCGM_FI_MAX_FIELDS");
_Static_assert(MAX_ENTITIES == DCGM_GROUP_MAX_ENTITIES_V2, "DCGM_GROUP_MAX_ENTITIES_V2");
_Static_assert(MAX_FIELDS_IN_GROUP == DCGM_MAX_FIELD_IDS_PER_FIELD_GROUP, "DCGM_MAX_FIELD_IDS_PER_FIELD_GROUP");
