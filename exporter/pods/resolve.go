package pods

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// Claim is one device allocated to one container.
type Claim struct {
	DeviceID   string // empty for a DRA claim
	Allocation collect.Allocation
	DRA        collect.Claim // zero for a device plugin's device
}

// name is the name of a claim's device in messages.
func (c Claim) name() string {
	if c.DRA == (collect.Claim{}) {
		return c.DeviceID
	}
	return fmt.Sprintf("%s/%s/%s", c.DRA.Driver, c.DRA.Pool, c.DRA.Device)
}

// Resolve finds the entities of each claim; devices are what the node's DRA drivers offer. The result
// is parallel to entities, each list sorted and without duplicates (a container with two replicas
// of a GPU has one allocation with two shares). unresolved are the devices that are not in the
// reading: their ids are of an unknown dialect, or the instance was made since.
func Resolve(entities []collect.Entity, claims []Claim, devices map[draName]Device) (collect.Attribution, []string) {
	var unresolved []string
	a := collect.Attribution{Allocations: make([][]collect.Allocated, len(entities))}
	claims = slices.SortedStableFunc(slices.Values(claims), func(a, b Claim) int { return compareAllocations(a.Allocation, b.Allocation) })
	for _, claim := range claims {
		d, known := device(claim, devices)
		var found []int
		if known {
			found = d.find(entities)
		}
		if len(found) == 0 {
			unresolved = append(unresolved, claim.name())
		}
		for _, i := range found {
			list := a.Allocations[i]
			if n := len(list); n == 0 || list[n-1].Allocation != claim.Allocation {
				list = append(list, collect.Allocated{Allocation: claim.Allocation})
			}
			take(&list[len(list)-1], claim, d, &entities[i])
			a.Allocations[i] = list
		}
	}
	return a, unresolved
}

func device(c Claim, devices map[draName]Device) (Device, bool) {
	if c.DRA == (collect.Claim{}) {
		return parseDevice(c.DeviceID)
	}
	d, known := devices[draName{c.DRA.Driver, c.DRA.Pool, c.DRA.Device}]
	return d, known
}

// take records one claim in the usage of an allocation.
func take(h *collect.Allocated, c Claim, d Device, e *collect.Entity) {
	if d.Replica != "" && !slices.Contains(h.Shares, d.Replica) {
		h.Shares = append(h.Shares, d.Replica)
		slices.SortFunc(h.Shares, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	}
	if c.DRA != (collect.Claim{}) {
		h.Claim = c.DRA
		if e.Kind == collect.Instance {
			h.Claim.MIGProfile, h.Claim.MIGUUID = e.Profile, e.InstanceUUID
		}
	}
}

func compareAllocations(a, b collect.Allocation) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container))
}

// Attribute joins a reading with the newest usable answers: the kubelet's, the
// API server's and the driver's about processes. unresolved are devices that
// are allocated to containers and not in the reading.
func (w *Watcher) Attribute(r *collect.Reading, now time.Time) (a collect.Attribution, unresolved []string) {
	answer := w.Snapshot(now)
	if answer == nil {
		if last := w.last.Load(); last != nil {
			a.Taken = last.Taken
		}
		return a, nil
	}
	known := w.cluster.now.Load()
	a, unresolved = Resolve(r.Entities, known.amend(answer.Claims), known.devices)
	a.Taken, a.Pods = answer.Taken, known.texts
	for i, list := range a.Allocations {
		// Some kubelets list a pod until it is deleted, but allocate its device to the next pod
		// earlier. A device that an ended pod shares with another pod is therefore not the
		// ended pod's.
		if slices.ContainsFunc(list, func(h collect.Allocated) bool { return !known.over(h) }) {
			a.Allocations[i] = slices.DeleteFunc(list, known.over)
		}
	}
	if w.users != nil {
		w.users.fill(r.Entities, &a, now, w.opts.Interval)
	}
	return a, unresolved
}
