package dcgm

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// deviceIdentity identifies a GPU. Known values stay when the GPU is lost and
// answers blanks.
type deviceIdentity struct {
	attributes
	minor      int
	mig        bool
	maxCompute int
	away       bool // DCGM last reported the GPU as lost
}

// learnGPUs reads each GPU's attributes. A GPU that fails keeps its known ones.
func (r *reader) learnGPUs() {
	for _, gpu := range r.layout.gpus {
		a, err := readAttributes(gpu)
		if err != nil {
			r.options.Log.Warn("dcgm: GPU attributes not read", "gpu", gpu, "error", err)
		}
		old := r.devs[gpu]
		if old == nil || a.uuid != "" && a.uuid != old.uuid {
			// Another GPU under the same number, or a new one. /dev/nvidiaN and
			// DCGM's number mostly agree, until DCGM reports the minor number.
			r.devs[gpu] = &deviceIdentity{attributes: a, minor: int(gpu)}
			continue
		}
		old.attributes = attributes{
			uuid: cmp.Or(a.uuid, old.uuid), name: cmp.Or(a.name, old.name),
			pciBusID: cmp.Or(a.pciBusID, old.pciBusID), driver: cmp.Or(a.driver, old.driver),
		}
	}
}

// uuidOf is a GPU's UUID, empty where it is not known.
func (r *reader) uuidOf(gpu uint32) string {
	if dev := r.devs[gpu]; dev != nil {
		return dev.uuid
	}
	return ""
}

// strangers reports whether any GPU is not identified.
func (r *reader) strangers() bool {
	return slices.ContainsFunc(r.layout.gpus, func(gpu uint32) bool { return r.devs[gpu].uuid == "" })
}

// detectRemade forgets an instance's placement when its UUID changed: it was
// made again under its old number, perhaps elsewhere on the GPU.
func (r *reader) detectRemade(key entityKey, uuid string) {
	before, seen := r.uuids[key]
	r.uuids[key] = uuid
	if seen && before != uuid {
		r.learnPlaces()
	}
}

// learnPlaces reads the instances' placement from the driver.
func (r *reader) learnPlaces() {
	r.places = map[entityKey]place{}
	for _, gpu := range r.layout.gpus {
		var ids []int
		for _, p := range r.layout.instances {
			if p.gpu == gpu {
				ids = append(ids, p.instanceID)
			}
		}
		places := readPlaces(r.devs[gpu].uuid, ids)
		for _, p := range r.layout.instances {
			if found, ok := places[p.instanceID]; ok && p.gpu == gpu {
				r.places[p.key] = found
			}
		}
	}
}

// take records a value that identifies the GPU.
func (c *deviceIdentity) take(v collect.Value) {
	switch v.Field {
	case fieldMinor:
		c.minor = int(v.Number)
	case fieldMIGMode:
		c.mig = v.Number != 0
	case fieldMIGMax:
		c.maxCompute = int(v.Number)
	}
}

func (c *deviceIdentity) entity(gpu uint32) collect.Entity {
	return collect.Entity{
		Kind: collect.GPU, GPU: int(gpu), UUID: c.uuid, Model: c.name, PCIBusID: c.pciBusID,
		Minor: c.minor, MIG: c.mig, DriverVersion: c.driver, GPUMaxCompute: c.maxCompute,
	}
}

// profileName is a GPU instance profile: "3g.40gb", "1g.10gb+me",
// "1g.24gb+me.all", "1g.24gb-me", whose suffix names what it lacks.
var profileName = regexp.MustCompile(`^\d+g\.\d+gb([+-][a-z.,]+)*$`)

// instanceEntity completes an instance with its GPU's identity. DCGM's values
// of the instance come before the driver's; older versions answer with the
// GPU's own name and UUID, which their form shows.
func instanceEntity(dev collect.Entity, p placed, driver place, known bool, values []collect.Value) collect.Entity {
	e := dev
	e.Kind, e.InstanceID, e.ComputeSlices, e.DCGMID = collect.Instance, p.instanceID, p.computeSlices, int(p.key.id)
	e.Start, e.Size, e.Values = -1, 0, nil
	if known {
		e.Start, e.Size, e.InstanceUUID, e.Profile = driver.start, driver.size, driver.uuid, driver.profile
	}
	for _, v := range values {
		switch {
		case v.Field == fieldUUID && strings.HasPrefix(v.Text, "MIG-"):
			e.InstanceUUID = v.Text
		case v.Field == fieldName && profileName.MatchString(v.Text):
			e.Profile = v.Text
		}
	}
	return e
}
