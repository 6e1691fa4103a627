package dcgm

// #include <stdlib.h>
// #include "placement.h"
import "C"

import "unsafe"

// place is an instance's placement, which the driver knows and DCGM does not.
type place struct {
	start, size   int // memory slices; -1 and 0 where not known
	uuid, profile string
}

// readPlaces asks the driver about a GPU's instances, by GPU instance id.
// Without a driver library, as beside a remote host engine, placements are
// unknown.
func readPlaces(gpuUUID string, instanceIDs []int) map[int]place {
	if gpuUUID == "" || len(instanceIDs) == 0 {
		return nil
	}
	list := make([]C.placement, len(instanceIDs))
	for i, id := range instanceIDs {
		list[i].instance_id = C.uint(id)
	}
	uuid := C.CString(gpuUUID)
	defer C.free(unsafe.Pointer(uuid))
	if C.placement_read(uuid, &list[0], C.int(len(list))) != 0 {
		return nil
	}
	places := make(map[int]place, len(list))
	for i := range list {
		places[instanceIDs[i]] = place{
			start: int(list[i].start), size: int(list[i].size),
			uuid: C.GoString(&list[i].uuid[0]), profile: C.GoString(&list[i].profile[0]),
		}
	}
	return places
}
