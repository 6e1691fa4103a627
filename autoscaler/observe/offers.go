package observe

import (
	"cmp"
	"maps"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/gpu/demand"
)

// claimable is what DRA's drivers offer on a node: whole GPUs and MIG devices, which are no allocatable resources.
type claimable struct {
	demand.Demand
	gpus    map[string]bool // UUIDs
	product string
}

// offeredBy is a label that nodes and pools have in a Snapshot alone, where there are DeviceClasses: what offers their GPUs.
// A node where both do has none.
const offeredBy, byPlugin, byDRA = "gpuscale.io/gpus-offered-by", "device-plugin", "dra"

// devicePool is a DRA driver's pool of devices.
type devicePool struct{ driver, name string }

// offeredByClaim returns what nodes offer, without devices that their slice or a DeviceTaintRule taints, unless they are in
// use: a pod that had one before stays, and leaves the others free. Pods that tolerate the taint are not known. Of a
// driver's pool the slices of the last generation count, as for the scheduler. It allocates none of the pool's devices
// until it has all of these slices: meanwhile those of the last complete generation count.
func (o *Observer) offeredByClaim(all, rules []*foreign.Object, inUse map[foreign.DeviceName]bool) map[string]*claimable {
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
	var devices []*foreign.Devices
	for _, p := range order {
		if had := o.slices[p]; had != nil && len(latest[p]) < int(latest[p][0].Slices) {
			latest[p] = had
		}
		devices = append(devices, latest[p]...)
	}
	o.slices = latest
	out := map[string]*claimable{}
	for _, d := range devices {
		if d.Node == "" || !demand.IsAccelerator(d.Driver) {
			continue
		}
		node := out[d.Node]
		if node == nil {
			node = &claimable{gpus: map[string]bool{}}
			out[d.Node] = node
		}
		node.product = cmp.Or(node.product, d.Product)
		tainted := map[string]bool{} // by name, "" for all
		for _, r := range rules {
			if t := r.Taint; t != nil && cmp.Or(t.Driver, d.Driver) == d.Driver && cmp.Or(t.Pool, d.Pool) == d.Pool {
				tainted[t.Device] = true
			}
		}
		divided := map[string]bool{} // GPUs of which a MIG device is in use that the driver made for a claim
		for _, one := range d.Each {
			if one.Claimed && one.GPU != "" && inUse[foreign.DeviceName{Driver: d.Driver, Pool: d.Pool, Device: one.Name}] {
				divided[one.GPU] = true
			}
		}
		types := map[[2]string]int{} // and profile
		for _, one := range d.Each {
			if (one.Tainted || tainted[""] || tainted[one.Name]) && !inUse[foreign.DeviceName{Driver: d.Driver, Pool: d.Pool, Device: one.Name}] {
				continue
			}
			if one.GPU != "" {
				node.gpus[one.GPU] = true
			}
			if !one.Claimed && !divided[one.GPU] {
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
