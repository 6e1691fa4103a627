package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/internal/require"
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

// With a Score a pod goes to the node with the highest one that fits, and of equals to the first by name.
func TestScore(t *testing.T) {
	for _, c := range []struct {
		sign int64
		want string
	}{{1, "n1"}, {-1, "n2"}, {0, "n1"}} {
		w := &World{Score: func(_ *plan.Pod, _ *plan.Node, cpu, _ int64) int64 { return c.sign * cpu }}
		w.State.Nodes = []plan.Node{{Name: "n1", Ready: true, CPUMilli: 4000}, {Name: "n2", Ready: true, CPUMilli: 4000}}
		w.State.Pods = []plan.Pod{{Namespace: "a", Name: "old", Node: "n1", CPUMilli: 1000}, {Namespace: "a", Name: "new", CPUMilli: 1000}}
		events := w.Schedule()
		if got := w.State.Pods[1].Node; got != c.want || len(events) != 1 {
			t.Errorf("sign %d: bound to %q, want %s; %v", c.sign, got, c.want, events)
		}
	}
}

// A pod that comes after the nomination of a larger one leaves that pod its node. The nomination ends once it was
// tried.
func TestNominated(t *testing.T) {
	w := empty(1)
	w.State.Nodes[0].Ready = false
	w.request("small", whole, func(p *plan.Pod) { p.PendingSince = p.PendingSince.Add(-time.Second) })
	w.request("large", demand.Demand{GPUs: 2}, func(*plan.Pod) {})
	if err := w.Apply(plan.Plan{Nominations: []plan.Nomination{{Pod: "a/large", Node: "n0"}}}); err != nil {
		t.Fatal(err)
	}
	w.Schedule()
	w.State.Nodes[0].Ready = true
	if w.Schedule(); w.where()["large"] != "n0" || w.where()["small"] != "" || len(w.nominated) > 0 {
		t.Errorf("bound to %v, still nominated: %v", w.where(), w.nominated)
	}
}

// A pod goes to its nominated node, although another node that fits comes first. It goes elsewhere if it does not fit
// there.
func TestNominatedFirst(t *testing.T) {
	for gpus, want := range map[int]string{2: "n1", 1: "n0"} {
		w := empty(2)
		w.State.Nodes[1].GPUs = w.State.Nodes[1].GPUs[:gpus]
		w.request("p", demand.Demand{GPUs: 2}, func(*plan.Pod) {})
		require.NoError(t, w.Apply(plan.Plan{Nominations: []plan.Nomination{{Pod: "a/p", Node: "n1"}}}))
		if w.Schedule(); w.where()["p"] != want {
			t.Errorf("n1 has %d GPUs: bound to %q, want %s", gpus, w.where()["p"], want)
		}
	}
}

// An unmade pod is created when it is bound.
func TestUnmade(t *testing.T) {
	w := empty(1)
	w.request("p", whole, func(p *plan.Pod) { p.Unmade, p.Created = true, time.Time{} })
	if w.Schedule(); w.State.Pods[0].Unmade || !w.State.Pods[0].Created.Equal(w.State.Now) {
		t.Errorf("not made: %+v", w.State.Pods[0])
	}
}
