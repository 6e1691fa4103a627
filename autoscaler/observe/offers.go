package observe

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/gpu/demand"
)

// claimable is what DRA drivers offer on a node: whole GPUs and MIG devices. They are not among the node's allocatable
// resources.
type claimable struct {
	demand.Demand
	gpus    map[string]bool // UUIDs
	product string
	// By UUID of a GPU on which the driver creates MIG devices when they are claimed: whether more may be claimed, the
	// pods that have the whole GPU, and the MIG devices that exist.
	divides map[string]bool
	users   map[string][]string
	inUse   map[string][]claimedInstance
}

// claimedInstance is a MIG device that was made for a claim.
type claimedInstance struct {
	foreign.Device
	pod string
}

// offeredBy is a label that exists in a Snapshot only, and only in a cluster with DeviceClasses. It states whether a
// device plugin or a DRA driver offers the GPUs of a node or pool. A node where both do has no such label.
const offeredBy, byPlugin, byDRA = "gpuscale.io/gpus-offered-by", "device-plugin", "dra"

// devicePool is a DRA driver's pool of devices.
type devicePool struct{ driver, name string }

// sliced returns the ResourceSlices of DRA drivers. Of each device pool the last generation counts, as for the
// scheduler. While some of its slices are missing, the scheduler allocates none of the pool's devices, and the last
// complete generation counts here.
func (o *Observer) sliced(all []*foreign.Object) (devices []*foreign.Devices) {
	latest, order := map[devicePool][]*foreign.Devices{}, []devicePool{}
	for _, object := range all { // of a node's products the first counts
		d := object.Devices
		if d == nil {
			continue
		}
		p := devicePool{d.Driver, d.Pool}
		switch had := latest[p]; {
		case had == nil:
			latest[p], order = []*foreign.Devices{d}, append(order, p)
		case d.Generation > had[0].Generation:
			latest[p] = []*foreign.Devices{d}
		case d.Generation == had[0].Generation:
			latest[p] = append(had, d)
		}
	}
	for _, p := range order {
		if had := o.slices[p]; had != nil && len(latest[p]) < int(latest[p][0].Slices) {
			latest[p] = had
		}
		devices = append(devices, latest[p]...)
	}
	o.slices = latest
	return devices
}

// taintsOfRules are those of DeviceTaintRules.
func taintsOfRules(rules []*foreign.Object) (out []*foreign.DeviceTaint) {
	for _, r := range rules {
		if r.Taint != nil {
			out = append(out, r.Taint)
		}
	}
	return out
}

// offeredByClaim returns what nodes offer by DRA. A device that its slice or a DeviceTaintRule taints counts only while
// it is in use: the pod that has it stays, and takes none of the other devices. Tolerations of pods are not considered.
func offeredByClaim(devices []*foreign.Devices, taints []*foreign.DeviceTaint, inUse map[foreign.DeviceName][]string) map[string]*claimable {
	out := map[string]*claimable{}
	for _, d := range devices {
		if d.Node == "" || !demand.IsAccelerator(d.Driver) {
			continue
		}
		node := out[d.Node]
		if node == nil {
			node = &claimable{gpus: map[string]bool{}, divides: map[string]bool{}, users: map[string][]string{}, inUse: map[string][]claimedInstance{}}
			out[d.Node] = node
		}
		node.product = cmp.Or(node.product, d.Product)
		named := func(one foreign.Device) foreign.DeviceName {
			return foreign.DeviceName{Driver: d.Driver, Pool: d.Pool, Device: one.Name}
		}
		usersOf := func(one foreign.Device) []string { return inUse[named(one)] }
		isTainted := func(one foreign.Device) bool {
			return one.Tainted || slices.ContainsFunc(taints, func(t *foreign.DeviceTaint) bool { return t.IsOn(named(one)) })
		}
		for _, one := range d.Each {
			users := usersOf(one)
			if one.Claimed {
				node.divides[one.GPU] = node.divides[one.GPU] || !isTainted(one)
			}
			switch {
			case users == nil || one.GPU == "":
			case one.Claimed:
				node.inUse[one.GPU] = append(node.inUse[one.GPU], claimedInstance{one, users[0]})
			case one.Profile == "":
				node.users[one.GPU] = users
			}
		}
		types := map[[2]string]int{} // and profile
		for _, one := range d.Each {
			used := usersOf(one) != nil
			if isTainted(one) && !used {
				continue
			}
			if one.GPU != "" {
				node.gpus[one.GPU] = true
			}
			if one.Claimed && used || !one.Claimed && node.inUse[one.GPU] == nil {
				types[[2]string{one.Type, one.Profile}]++
			}
		}
		for of, n := range types {
			one, err := demand.FromDevices([]demand.Device{{Driver: d.Driver, Attributes: map[string]string{"type": of[0], "profile": of[1]}, Count: n}})
			if err != nil {
				continue // of a size that is not known
			}
			if one, err = demand.Sum(node.Demand, one); err == nil { // of one maker: the planner knows no node with two
				node.Demand = one
			}
		}
	}
	maps.DeleteFunc(out, func(_ string, c *claimable) bool { return c.Zero() && len(c.gpus) == 0 })
	return out
}
