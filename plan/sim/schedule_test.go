package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/plan"
)

// empty is nodes of two free GPUs each, of 1000 MiB.
func empty(nodes int) *World {
	w := &World{State: plan.Snapshot{Now: time.Unix(1000, 0)}}
	for i := range nodes {
		device := plan.GPU{AllocationKnown: true, Device: gpu.Device{Model: gpu.Model{MemoryMiB: 1000}}, IdleSince: time.Unix(1, 0)}
		n := plan.Node{Name: fmt.Sprintf("n%d", i), Ready: true, CPUMilli: 4000, GPUs: []plan.GPU{device, device}}
		n.GPUs[1].Index = 1
		w.State.Nodes = append(w.State.Nodes, n)
	}
	return w
}

func (w *World) request(name string, d demand.Demand, change func(*plan.Pod)) {
	p := plan.Pod{Namespace: "a", Name: name, Demand: d, Created: w.State.Now, PendingSince: w.State.Now}
	change(&p)
	w.State.Pods = append(w.State.Pods, p)
}

// where is the node of each pod, by name.
func (w *World) where() map[string]string {
	at := map[string]string{}
	for _, p := range w.State.Pods {
		at[p.Name] = p.Node
	}
	return at
}

var whole = demand.Demand{GPUs: 1}

func ofGang(min int, unmade bool) func(*plan.Pod) {
	return func(p *plan.Pod) { p.Gang, p.GangMin, p.Unmade = "a/g", min, unmade }
}

// TestGangAllOrNone: four GPUs are too few for five members; with the fifth GPU
// all run at once, and unmade ones are created.
func TestGangAllOrNone(t *testing.T) {
	w := empty(2)
	for i := range 5 {
		w.request(fmt.Sprint("g", i), whole, ofGang(5, i > 2))
	}
	w.request("single", whole, func(p *plan.Pod) { p.PendingSince = w.State.Now.Add(time.Second) })
	before := w.State.Nodes[1].GPUs[1].IdleSince
	if events := w.Schedule(); len(events) != 1 || events[0].Text != "a/single runs on n0/0" {
		t.Fatalf("half a gang runs: %v", events)
	}
	if got := w.State.Nodes[1].GPUs[1]; len(got.AllocatedTo) > 0 || !got.IdleSince.Equal(before) {
		t.Errorf("a GPU is not as it was: %+v", got)
	}
	if !w.State.Pods[4].Unmade || !w.State.Pods[4].Unschedulable {
		t.Errorf("created though it is pending: %+v", w.State.Pods[4])
	}
	more := empty(3)
	w.State.Nodes = append(w.State.Nodes, more.State.Nodes[2])
	w.State.Now = w.State.Now.Add(time.Minute)
	if events := w.Schedule(); len(events) != 5 {
		t.Fatalf("events %v, at %v", events, w.where())
	}
	if p := w.State.Pods[4]; p.Unmade || !p.Created.Equal(w.State.Now) {
		t.Errorf("not made: %+v", p)
	}
}

// TestGangGrows: running members count towards the minimum, and beyond it
// members come one by one; the largest minimum holds.
func TestGangGrows(t *testing.T) {
	w := empty(1)
	w.request("old", demand.Demand{}, ofGang(1, false))
	w.State.Pods[0].Node = "n0"
	for i := range 3 {
		w.request(fmt.Sprint("g", i), whole, ofGang(3, false))
	}
	if events := w.Schedule(); len(events) != 2 || w.where()["g2"] != "" {
		t.Fatalf("events %v", events)
	}
	w.State.Pods[0].Leaving = true
	again := empty(1)
	again.State.Pods = w.State.Pods
	for i := range again.State.Pods[1:] {
		again.State.Pods[i+1].Node = ""
	}
	if events := again.Schedule(); len(events) > 0 {
		t.Errorf("one that leaves does not count: %v", events)
	}
}

func partDemand(core, mib, milli, gpus int) demand.Demand {
	return demand.Demand{Fraction: &demand.Fraction{CoreMilli: core, MemoryMiB: mib, MemoryMilli: milli, GPUs: gpus}}
}

// TestFractionsShareGPUs: by compute and by memory, on the fullest GPU that
// fits, on as many different GPUs as requested.
func TestFractionsShareGPUs(t *testing.T) {
	for _, c := range []struct {
		name string
		pods []demand.Demand
		gpus [2]int // pods on each
		left int    // pending pods
	}{
		{"two halves", []demand.Demand{partDemand(500, 0, 0, 0), partDemand(500, 0, 0, 0)}, [2]int{2, 0}, 0},
		{"three halves", []demand.Demand{partDemand(500, 0, 0, 0), partDemand(500, 0, 0, 0), partDemand(500, 0, 0, 0)}, [2]int{2, 1}, 0},
		{"by memory", []demand.Demand{partDemand(1, 600, 0, 0), partDemand(1, 600, 0, 0), partDemand(1, 600, 0, 0)}, [2]int{1, 1}, 1},
		{"by a share of memory", []demand.Demand{partDemand(0, 0, 600, 0), partDemand(0, 401, 0, 0)}, [2]int{1, 1}, 0},
		{"one fills the gap", []demand.Demand{partDemand(300, 0, 0, 0), partDemand(800, 0, 0, 0), partDemand(200, 0, 0, 0)}, [2]int{1, 2}, 0},
		{"of two GPUs", []demand.Demand{partDemand(500, 0, 0, 2), partDemand(600, 0, 0, 0)}, [2]int{1, 1}, 1},
		{"beside a whole GPU", []demand.Demand{whole, partDemand(10, 0, 0, 0), whole}, [2]int{1, 1}, 1},
		{"a place, whatever size", []demand.Demand{partDemand(0, 0, 0, 0), partDemand(0, 0, 0, 0), partDemand(1000, 0, 0, 0)}, [2]int{3, 0}, 0},
		{"a whole GPU and a part", []demand.Demand{{GPUs: 1, Fraction: &demand.Fraction{CoreMilli: 1}}, partDemand(1, 0, 0, 0)}, [2]int{1, 1}, 1},
	} {
		w := empty(1)
		for i, d := range c.pods {
			w.request(fmt.Sprint("p", i), d, func(*plan.Pod) {})
		}
		w.Schedule()
		left := 0
		for _, p := range w.State.Pods {
			if p.Node == "" {
				left++
			}
		}
		gpus := w.State.Nodes[0].GPUs
		if got := [2]int{len(gpus[0].AllocatedTo), len(gpus[1].AllocatedTo)}; got != c.gpus || left != c.left {
			t.Errorf("%s: holders %v, %d left, want %v, %d", c.name, got, left, c.gpus, c.left)
		}
	}
}

// TestUnknownPodsTakeWholeGPUs: a GPU allocated to an unknown pod has no free
// part.
func TestUnknownPodsTakeWholeGPUs(t *testing.T) {
	w := empty(1)
	w.State.Nodes[0].GPUs[0].AllocatedTo = []string{"x/unknown"}
	w.request("p", partDemand(1, 0, 0, 0), func(*plan.Pod) {})
	if w.Schedule(); len(w.State.Nodes[0].GPUs[1].AllocatedTo) != 1 {
		t.Errorf("got %+v", w.State.Nodes[0].GPUs)
	}
}

func TestCPUIsCountedOnce(t *testing.T) {
	w := empty(2)
	for i := range 3 {
		w.request(fmt.Sprint("p", i), demand.Demand{}, func(p *plan.Pod) { p.CPUMilli = 2500 })
	}
	w.Schedule()
	if got := fmt.Sprint(w.where()); got != "map[p0:n0 p1:n1 p2:]" {
		t.Error(got)
	}
}

// With a Score a pod goes to the highest that fits, and to the first by name of
// equals.
func TestScore(t *testing.T) {
	for _, c := range []struct {
		sign int64
		want string
	}{{1, "n1"}, {-1, "n2"}, {0, "n1"}} {
		w := &World{Score: func(_ *plan.Pod, _ *plan.Node, cpu, _ int64) int64 { return c.sign * cpu }}
		for _, n := range []string{"n1", "n2"} {
			w.State.Nodes = append(w.State.Nodes, plan.Node{Name: n, Ready: true, CPUMilli: 4000})
		}
		w.State.Pods = []plan.Pod{{Namespace: "a", Name: "old", Node: "n1", CPUMilli: 1000}, {Namespace: "a", Name: "new", CPUMilli: 1000}}
		events := w.Schedule()
		if got := w.State.Pods[1].Node; got != c.want || len(events) != 1 || events[0].Bound != "a/new" {
			t.Errorf("sign %d: bound to %q, want %s; %v", c.sign, got, c.want, events)
		}
	}
}
