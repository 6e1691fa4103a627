package dcgm

// #include "shim.h"
import "C"

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/nvml"
)

// learnGPUs reads from the driver what each GPU is, before anything of it is watched. Known GPUs stay
// when they fail, or are lost and answer blanks.
func (r *reader) learnGPUs() {
	for _, gpu := range r.layout.gpus {
		// DCGM's number, NVML's and that of /dev/nvidiaN mostly agree, until DCGM reports the others.
		a := collect.Entity{Kind: collect.GPU, GPU: int(gpu), Index: int(gpu), Minor: int(gpu)}
		texts := map[uint16]*string{fieldDriver: &a.DriverVersion, fieldName: &a.Model, fieldUUID: &a.UUID, fieldPCIBusID: &a.PCIBusID}
		err := r.buffer.read([]entityKey{{kindGPU, gpu}}, slices.Collect(maps.Keys(texts)), C.SHIM_LIVE, func(_ int, raw *C.shim_value) {
			v, dropped := judge(raw, time.UnixMicro(int64(raw.ts)))
			if into := texts[v.Field]; into != nil && dropped == "" {
				*into = v.Text
			}
		})
		r.complain(fmt.Sprint("attributes of GPU ", gpu), err)
		old := r.devs[gpu]
		if old == nil || a.UUID != "" && a.UUID != old.UUID { // another GPU under the same number, or a new one
			r.devs[gpu] = &a
			continue
		}
		old.UUID, old.Model = cmp.Or(a.UUID, old.UUID), cmp.Or(a.Model, old.Model)
		old.PCIBusID, old.DriverVersion = cmp.Or(a.PCIBusID, old.PCIBusID), cmp.Or(a.DriverVersion, old.DriverVersion)
	}
}

// uuidOf is a GPU's UUID, empty where it is not known.
func (r *reader) uuidOf(gpu uint32) string {
	if dev := r.devs[gpu]; dev != nil {
		return dev.UUID
	}
	return ""
}

// strangers reports whether any GPU is not identified.
func (r *reader) strangers() bool {
	return slices.ContainsFunc(r.layout.gpus, func(gpu uint32) bool { return r.devs[gpu].UUID == "" })
}

// detectRemade forgets what is known of an instance when its UUID changed: it was made again
// under its old number, perhaps elsewhere on the GPU.
func (r *reader) detectRemade(key entityKey, uuid string) {
	before, seen := r.uuids[key]
	r.uuids[key] = uuid
	if seen && before != uuid {
		r.hierarchy.read = time.Time{}
		r.learnPlaces()
	}
}

// learnPlaces reads from the driver what it knows of instances and DCGM does not: placement
// and the MIG devices in them. Without a driver library, as beside a remote host engine,
// that stays unknown.
func (r *reader) learnPlaces() {
	r.places = map[entityKey]nvml.MIGInstance{}
	if len(r.layout.instances) == 0 {
		return
	}
	found, err := nvml.MIGInstances()
	r.complain("placement of MIG instances", err)
	for _, p := range r.layout.instances {
		for _, i := range found[r.uuidOf(p.gpu)] {
			if i.ID == p.instanceID {
				r.places[p.key] = i
			}
		}
	}
}

// identify records a value that identifies a GPU.
func identify(dev *collect.Entity, v collect.Value) {
	switch v.Field {
	case fieldIndex:
		dev.Index = int(v.Number)
	case fieldMinor:
		dev.Minor = int(v.Number)
	case fieldMIGMode:
		dev.MIG = v.Number != 0
	case fieldMIGMax:
		dev.GPUMaxCompute = int(v.Number)
	}
}

// profileName is a GPU instance profile: "3g.40gb", "1g.10gb+me",
// "1g.24gb+me.all", "1g.24gb-me", whose suffix names what it lacks.
var profileName = regexp.MustCompile(`^\d+g\.\d+gb([+-][a-z.,]+)*$`)

// instanceEntity completes an instance with its GPU's identity. DCGM's values
// of the instance come before the driver's; older versions answer with the
// GPU's own name and UUID, which their form shows.
func instanceEntity(dev collect.Entity, p placed, driver nvml.MIGInstance, known bool, values []collect.Value) collect.Entity {
	e := dev
	e.Kind, e.InstanceID, e.ComputeSlices, e.DCGMID = collect.Instance, p.instanceID, p.computeSlices, int(p.key.id)
	e.Start, e.Size, e.Values = -1, 0, nil
	if known {
		e.Start, e.Size, e.Profile, e.MIGDevices = driver.Start, driver.Size, driver.Profile, driver.UUIDs
		if len(driver.UUIDs) > 0 {
			e.InstanceUUID = driver.UUIDs[0]
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
	return e
}
