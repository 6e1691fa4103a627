package pods

import (
	"cmp"
	"slices"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// Claim is one device id in one container's hands.
type Claim struct {
	Resource string // "nvidia.com/gpu", "nvidia.com/mig-1g.10gb", …
	DeviceID string
	Holder   collect.Holder
}

// Resolve finds which entity each claim speaks of. The result is parallel to
// entities, each list sorted and without duplicates (a container with two
// replicas of a card holds it once). unresolved are the ids that name nothing
// in the reading: a dialect we do not know, or an instance made since.
func Resolve(entities []collect.Entity, claims []Claim) (holders [][]collect.Holder, unresolved []string) {
	holders = make([][]collect.Holder, len(entities))
	for _, claim := range claims {
		d, err := ParseDevice(claim.DeviceID)
		i := -1
		if err == nil {
			i = slices.IndexFunc(entities, d.names)
		}
		if i < 0 {
			unresolved = append(unresolved, claim.DeviceID)
			continue
		}
		holders[i] = append(holders[i], claim.Holder)
	}
	for i := range holders {
		slices.SortFunc(holders[i], compareHolders)
		holders[i] = slices.Compact(holders[i])
	}
	return holders, unresolved
}

// names reports whether d is the id of e.
func (d Device) names(e collect.Entity) bool {
	if d.InstanceUUID != "" {
		return e.Kind == collect.Instance && e.InstanceUUID == d.InstanceUUID
	}
	if d.Instance >= 0 {
		if e.Kind != collect.Instance || e.InstanceID != d.Instance {
			return false
		}
	} else if e.Kind != collect.GPU {
		return false
	}
	if d.UUID != "" {
		return e.UUID == d.UUID
	}
	return e.Minor == d.Minor
}

func compareHolders(a, b collect.Holder) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container))
}
