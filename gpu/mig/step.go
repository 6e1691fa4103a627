package mig

import (
	"cmp"
	"fmt"
	"slices"
)

// Step is one create or destroy on a GPU. Steps are applied in order.
type Step struct {
	Create bool // false: destroy
	Placement
}

// String returns "create 3g@0:4" or "destroy 1g@4:1".
func (s Step) String() string {
	if s.Create {
		return "create " + s.Placement.String()
	}
	return "destroy " + s.Placement.String()
}

// Diff returns the steps from one layout to another. Instances in both are left
// alone. Destroys come first, by start; then creates, the largest first, so that
// an actuator that chooses placements by itself finds them. busy reports the
// instances of from that must stay; nil is none. The error names a busy one that
// would be destroyed.
func Diff(from, to Layout, busy func(Placement) bool) ([]Step, error) {
	var steps []Step
	for _, p := range sub(from, to) {
		if busy != nil && busy(p) {
			return nil, fmt.Errorf("%s is busy and has no place in %s", p, to)
		}
		steps = append(steps, Step{Placement: p})
	}
	creates := sub(to, from)
	slices.SortStableFunc(creates, func(a, b Placement) int { return cmp.Compare(b.Profile.Memory, a.Profile.Memory) })
	for _, p := range creates {
		steps = append(steps, Step{Create: true, Placement: p})
	}
	return steps, nil
}

// sub returns the placements of l that m does not have, sorted.
func sub(l, m Layout) []Placement {
	var left []Placement
	for _, p := range l {
		if !slices.Contains(m, p) {
			left = append(left, p)
		}
	}
	slices.SortFunc(left, Placement.Compare)
	return left
}
