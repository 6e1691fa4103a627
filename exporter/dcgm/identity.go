package dcgm

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/nvml"
)

// deviceIdentity identifies a GPU. Known values stay when the GPU is lost and
// answers blanks.
type deviceIdentity struct {
	attributes
	index      int // NVML's
	minor      int
	mig        bool
	maxCompute int
	lost       bool // as DCGM last reported
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
			// Another GPU under the same number, or a new one. DCGM's number, NVML's and
			// that of /dev/nvidiaN mostly agree, until DCGM reports the others.
			r.devs[gpu] = &deviceIdentity{attributes: a, index: int(gpu), minor: int(gpu)}
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

// take records a value that identifies the GPU.
func (c *deviceIdentity) take(v collect.Value) {
	switch v.Field {
	case fieldIndex:
		c.index = int(v.Number)
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
		Kind: collect.GPU, GPU: int(gpu), Index: c.index, UUID: c.uuid, Model: c.name, PCIBusID: c.pciBusID,
		Minor: c.minor, MIG: c.mig, DriverVersion: c.driver, GPUMaxCompute: c.maxCompute,
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
