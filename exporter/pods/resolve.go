package pods

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// Claim is one device in one container's hands.
type Claim struct {
	Resource string // "nvidia.com/gpu", "nvidia.com/mig-1g.10gb", …; empty for a DRA claim
	DeviceID string // empty for a DRA claim
	Holder   collect.Holder
	DRA      collect.Claim // zero for a device plugin's device
}

func (c Claim) draName() draName { return draName{c.DRA.Driver, c.DRA.Pool, c.DRA.Device} }

// name is how a claim's device is called in messages.
func (c Claim) name() string {
	if c.DRA == (collect.Claim{}) {
		return c.DeviceID
	}
	return fmt.Sprintf("%s/%s/%s", c.DRA.Driver, c.DRA.Pool, c.DRA.Device)
}

// Resolve finds which entity each claim of a device plugin's id speaks of. The
// result is parallel to entities, each list sorted and without duplicates (a
// container with two replicas of a card holds it once, with two shares).
// unresolved are the ids that name nothing in the reading: a dialect we do not
// know, or an instance made since.
func Resolve(entities []collect.Entity, claims []Claim) (a collect.Attribution, unresolved []string) {
	return resolve(entities, claims, nil)
}

// resolve knows DRA claims too: devices are what the node's drivers offer.
func resolve(entities []collect.Entity, claims []Claim, devices map[draName]Device) (collect.Attribution, []string) {
	var unresolved []string
	a := collect.Attribution{Holders: make([][]collect.Holder, len(entities)), Holds: make([][]collect.Hold, len(entities))}
	for _, claim := range byHolder(claims) {
		d, err := device(claim, devices)
		i := -1
		if err == nil {
			i = d.find(entities)
		}
		if i < 0 {
			unresolved = append(unresolved, claim.name())
			continue
		}
		last := len(a.Holders[i]) - 1
		if last < 0 || a.Holders[i][last] != claim.Holder {
			a.Holders[i] = append(a.Holders[i], claim.Holder)
			a.Holds[i] = append(a.Holds[i], collect.Hold{})
			last++
		}
		take(&a.Holds[i][last], claim, d, &entities[i])
	}
	return a, unresolved
}

// byHolder returns the claims with each holder's in a row.
func byHolder(claims []Claim) []Claim {
	sorted := slices.Clone(claims)
	slices.SortStableFunc(sorted, func(a, b Claim) int { return compareHolders(a.Holder, b.Holder) })
	return sorted
}

func device(c Claim, devices map[draName]Device) (Device, error) {
	if c.DRA == (collect.Claim{}) {
		return ParseDevice(c.DeviceID)
	}
	if d, ok := devices[c.draName()]; ok {
		return d, nil
	}
	return Device{}, fmt.Errorf("no ResourceSlice of this node has %s", c.name())
}

// take notes in a hold what one claim says.
func take(h *collect.Hold, c Claim, d Device, e *collect.Entity) {
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

func compareHolders(a, b collect.Holder) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container))
}
