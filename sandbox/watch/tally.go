package watch

import (
	"slices"
	"sort"
	"time"

	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/sandbox/view"
)

// tally accumulates numbers over successive scenes. It has no clock.
type tally struct {
	begun bool
	last  Scene
	at    time.Duration

	repartitionsBegun, repartitions  int
	scaleUps, scaleDowns, wrongDowns int

	pendingSeconds float64
	gpuSeconds     float64
	busySeconds    float64 // busy GPU-seconds, over GPUs whose use was known
	knownSeconds   float64

	firstPending  sample.Value // seconds after the start
	byRepartition sample.Value // seconds after the first pending pod
	byNode        sample.Value
}

// see adds a scene at a time since the start. busy is the measured work as a number of busy GPUs.
func (t *tally) see(s Scene, at time.Duration, busy sample.Value) {
	if t.begun {
		t.add(s, max(0, at-t.at).Seconds(), busy)
		t.compare(s, at)
	}
	if pending(s) > 0 && !isKnown(t.firstPending) {
		t.firstPending = sample.Known(at.Seconds(), 0)
	}
	t.begun, t.last, t.at = true, s, at
}

func (t *tally) add(s Scene, passed float64, busy sample.Value) {
	t.pendingSeconds += float64(pending(s)) * passed
	gpus := 0
	for _, n := range s.Nodes {
		if n.Ready {
			gpus += n.GPUs
		}
	}
	t.gpuSeconds += float64(gpus) * passed
	if b, ok := busy.Get(); ok {
		t.busySeconds += b * passed
		t.knownSeconds += float64(gpus) * passed
	}
}

// compare compares a scene with the previous one: which nodes came and went, and which operations began and
// ended.
func (t *tally) compare(s Scene, at time.Duration) {
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
		if there && old.Operation != "" && n.Operation != old.Operation {
			t.ended(old, n, at)
		}
		if n.Ready && !n.Given && !old.Ready {
			t.first(&t.byNode, at)
		}
	}
	for name := range before { // gone
		t.scaleDowns++
		if pending(t.last) > 0 || hasPods(t.last, name) {
			t.wrongDowns++
		}
	}
}

func (t *tally) ended(old, now Node, at time.Duration) {
	if !old.Undone && now.State == "success" {
		t.repartitions++
		t.first(&t.byRepartition, at)
	}
}

// first records the time since the first pending pod, only once.
func (t *tally) first(v *sample.Value, at time.Duration) {
	since, ok := t.firstPending.Get()
	if ok && !isKnown(*v) {
		*v = sample.Known(at.Seconds()-since, 0)
	}
}

func isKnown(v sample.Value) bool {
	_, ok := v.Get()
	return ok
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

// slicesOf counts the fleet's devices and the allocated ones, by kind.
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
