package watch

import (
	"slices"
	"sort"

	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/sandbox/view"
)

// tally counts what happens between successive scenes. It knows no clock.
type tally struct {
	begun bool
	last  Scene

	repartitionsBegun, repartitions  int // the latter succeeded
	scaleUps, scaleDowns, wrongDowns int
}

// see a scene, and what has come, gone, begun and ended since the one before.
func (t *tally) see(s Scene) {
	if t.begun {
		t.compare(s)
	}
	t.begun, t.last = true, s
}

func (t *tally) compare(s Scene) {
	before := map[string]Node{}
	for _, n := range t.last.Nodes {
		before[n.Name] = n
	}
	for _, n := range s.Nodes {
		old, there := before[n.Name]
		delete(before, n.Name)
		if !there {
			t.scaleUps++
		}
		if n.Operation != "" && n.Operation != old.Operation {
			t.repartitionsBegun++
		}
		if old.Operation != "" && n.Operation != old.Operation && !old.Undone && n.State == contract.StateSuccess {
			t.repartitions++
		}
	}
	for name := range before { // gone
		t.scaleDowns++
		if pending(t.last) > 0 || hasPods(t.last, name) {
			t.wrongDowns++
		}
	}
}

// pending counts GPU pods without a node.
func pending(s Scene) (n int) {
	for _, p := range s.Pods {
		if p.Node == "" {
			n++
		}
	}
	return n
}

func hasPods(s Scene, node string) bool {
	return slices.ContainsFunc(s.Pods, func(p Pod) bool { return p.Node == node })
}

// slices of the fleet: how many there are and are allocated, by kind.
func slicesOf(s Scene) []view.Slices {
	kinds := map[string]*view.Slices{}
	kind := func(resource string) *view.Slices {
		if kinds[resource] == nil {
			kinds[resource] = &view.Slices{Name: short(resource)}
		}
		return kinds[resource]
	}
	for _, n := range s.Nodes {
		for resource, count := range n.Allocatable {
			kind(resource).Total += int(count)
		}
	}
	for _, p := range s.Pods {
		if p.Node == "" {
			continue
		}
		for resource, count := range p.Requests {
			kind(resource).Allocated += count
		}
	}
	var out []view.Slices
	for _, k := range kinds {
		if k.Total > 0 || k.Allocated > 0 {
			out = append(out, *k)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name > out[j].Name })
	return out
}
