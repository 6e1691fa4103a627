package dcgm

// #include "shim.h"
import "C"

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// learnEvery is how often the entities and the identity of each GPU and instance are read. A new
// instance, or a new UUID under the same number, is seen within it.
const learnEvery = 5 * time.Second

// identities are what is known of GPUs and instances.
type identities map[entityKey]*collect.Entity

// uuidOf is the UUID of the GPU that the entity is or is a part of; empty where it is not known.
func (known identities) uuidOf(e entity) string {
	if gpu := known[e.root()]; gpu != nil {
		return gpu.UUID
	}
	return ""
}

// learnGPUs reads from the driver what each GPU is, watched or not.
func (r *reader) learnGPUs() error {
	gpus := r.layout.keys(kindGPU)
	fields := []uint16{fieldDriver, fieldName, fieldIndex, fieldUUID, fieldMinor, fieldPCIBusID, fieldMIGMode, fieldMIGMax}
	live, err := r.values("identity of GPUs", []rectangle{{gpus, fields}}, C.SHIM_LIVE, map[string]int{})
	for _, gpu := range gpus {
		r.known[gpu] = identifyGPU(r.known[gpu], gpu.id, live[gpu])
	}
	return err
}

// learnInstances reads what each instance is. It reports whether one was made again under its old
// number, perhaps with another placement.
func (r *reader) learnInstances() (remade bool, err error) {
	live, err := r.values("identity of instances", []rectangle{{r.layout.keys(kindInstance), []uint16{fieldName, fieldUUID}}}, C.SHIM_LIVE, map[string]int{})
	for _, e := range r.layout {
		known, values := r.known[e.entityKey], live[e.entityKey]
		if e.kind != kindInstance || known != nil && len(values) == 0 {
			continue
		}
		now := identifyInstance(*r.known[e.parent], e, r.places, values)
		remade = remade || known != nil && known.InstanceUUID != now.InstanceUUID
		r.known[e.entityKey] = now
	}
	return remade, err
}

// identifyGPU updates what is known of a GPU. Where the driver gives no value, as for a lost GPU, the
// known one stays. If another GPU has the number now, nothing known is kept.
func identifyGPU(known *collect.Entity, id uint32, values []collect.Value) *collect.Entity {
	isOther := func(v collect.Value) bool { return v.Field == fieldUUID && v.Text != known.UUID }
	if known == nil || known.UUID != "" && slices.ContainsFunc(values, isOther) {
		// DCGM's number, NVML's and that of /dev/nvidiaN mostly agree.
		known = &collect.Entity{Kind: collect.GPU, GPU: int(id), Index: int(id), Minor: int(id)}
	}
	for _, v := range values {
		switch v.Field {
		case fieldDriver:
			known.DriverVersion = v.Text
		case fieldName:
			known.Model = v.Text
		case fieldIndex:
			known.Index = int(v.Number)
		case fieldUUID:
			known.UUID = v.Text
		case fieldMinor:
			known.Minor = int(v.Number)
		case fieldPCIBusID:
			known.PCIBusID = v.Text
		case fieldMIGMode:
			known.MIG = v.Number != 0
		case fieldMIGMax:
			known.GPUMaxCompute = int(v.Number)
		}
	}
	return known
}

// profileName is a GPU instance profile: "3g.40gb", "1g.10gb+me",
// "1g.24gb+me.all", "1g.24gb-me", whose suffix names what it lacks.
var profileName = regexp.MustCompile(`^\d+g\.\d+gb([+-][a-z.,]+)*$`)

// identifyInstance returns an instance's identity, which includes that of its GPU. DCGM's values of the
// instance take precedence over those of the driver's library. Older versions of DCGM answer with the GPU's
// own name and UUID: these are known by their form and ignored. Beside a remote host engine there may be no
// library: placement and further compute instances are then unknown.
func identifyInstance(e collect.Entity, i entity, places map[string][]collect.Entity, values []collect.Value) *collect.Entity {
	e.Kind, e.InstanceID, e.ComputeSlices, e.DCGMID, e.Start, e.Lost = collect.Instance, i.number, i.slices, int(i.id), -1, false
	for _, driver := range places[e.UUID] {
		if driver.InstanceID == i.number {
			e.Start, e.Size, e.Profile, e.InstanceUUID, e.MIGDevices = driver.Start, driver.Size, driver.Profile, driver.InstanceUUID, driver.MIGDevices
		}
	}
	for _, v := range values {
		switch {
		case v.Field == fieldUUID && strings.HasPrefix(v.Text, "MIG-"):
			if e.InstanceUUID = v.Text; !slices.Contains(e.MIGDevices, v.Text) {
				e.MIGDevices = append(slices.Clone(e.MIGDevices), v.Text)
			}
		case v.Field == fieldName && profileName.MatchString(v.Text):
			e.Profile = v.Text
		}
	}
	return &e
}
