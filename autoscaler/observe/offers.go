package observe

import (
	"cmp"
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
// complete generation counts here. The result is by node, "" for slices of no node.
func (o *Observer) sliced(all []*foreign.Object) map[string][]*foreign.Devices {
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
	out := map[string][]*foreign.Devices{}
	for _, p := range order {
		if had := o.slices[p]; had != nil && len(latest[p]) < int(latest[p][0].Slices) {
			latest[p] = had
		}
		for _, d := range latest[p] {
			out[d.Node] = append(out[d.Node], d)
		}
	}
	o.slices = latest
	return out
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

// offeredByClaim returns what nodes offer by DRA.
func offeredByClaim(devices map[string][]*foreign.Devices, taints []*foreign.DeviceTaint, inUse map[foreign.DeviceName][]string) map[string]*claimable {
	out := map[string]*claimable{}
	for node, all := range devices {
		if d := claimableOf(all, taints, inUse); node != "" && (!d.Zero() || len(d.gpus) > 0) {
			out[node] = d
		}
	}
	return out
}

// claimableOf returns what the ResourceSlices of a node offer. A device that its slice or a DeviceTaintRule taints counts
// only while it is in use: the pod that has it stays, and takes none of the other devices. Tolerations of pods are not
// considered. A GPU and its MIG devices may be in different slices.
func claimableOf(all []*foreign.Devices, taints []*foreign.DeviceTaint, inUse map[foreign.DeviceName][]string) *claimable {
	out := &claimable{gpus: map[string]bool{}, divides: map[string]bool{}, users: map[string][]string{}, inUse: map[string][]claimedInstance{}}
	type device struct {
		foreign.Device
		driver string
		used   bool
	}
	var counted []device
	for _, d := range all {
		if !demand.IsAccelerator(d.Driver) {
			continue
		}
		out.product = cmp.Or(out.product, d.Product)
		for _, one := range d.Each {
			name := foreign.DeviceName{Driver: d.Driver, Pool: d.Pool, Device: one.Name}
			users, used := inUse[name]
			tainted := one.Tainted || slices.ContainsFunc(taints, func(t *foreign.DeviceTaint) bool { return t.IsOn(name) })
			if one.Claimed {
				out.divides[one.GPU] = out.divides[one.GPU] || !tainted
			}
			if used || !tainted {
				counted = append(counted, device{one, d.Driver, used})
			}
			switch {
			case !used || one.GPU == "":
			case one.Claimed:
				out.inUse[one.GPU] = append(out.inUse[one.GPU], claimedInstance{one, users[0]})
			case one.Profile == "":
				out.users[one.GPU] = users
			}
		}
	}
	for _, one := range counted {
		if one.GPU != "" {
			out.gpus[one.GPU] = true
		}
		if one.Claimed && !one.used || !one.Claimed && out.inUse[one.GPU] != nil {
			continue
		}
		d, err := demand.FromDevices([]demand.Device{{Driver: one.driver, Attributes: map[string]string{"type": one.Type, "profile": one.Profile}, Count: 1}})
		if err != nil {
			continue // of a size that is not known
		}
		if d, err = demand.Sum(out.Demand, d); err == nil { // of one maker: the planner knows no node with two
			out.Demand = d
		}
	}
	return out
}
