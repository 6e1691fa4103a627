package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

func TestPauseDoublesUpToAnHour(t *testing.T) {
	for _, c := range []struct {
		cooldown time.Duration
		failures int
		want     time.Duration
	}{
		{time.Minute, 1, 2 * time.Minute},
		{time.Minute, 2, 4 * time.Minute},
		{time.Minute, 5, 32 * time.Minute},
		{time.Minute, 6, time.Hour},
		{time.Minute, 1 << 40, time.Hour},
		{2 * time.Hour, 1, time.Hour},
		{0, 9, 0},
	} {
		w := newWorld(Snapshot{}, Policy{RepartitionCooldown: c.cooldown})
		if got := w.pauseAfter(c.failures); got != c.want {
			t.Errorf("%d failures, cooldown %s: %s, want %s", c.failures, c.cooldown, got, c.want)
		}
	}
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// TestFailuresAreRecorded follows one GPU through a failure that is observed
// twice, another, and a success.
func TestFailuresAreRecorded(t *testing.T) {
	s := Snapshot{Now: noon, Pools: []Pool{{Name: "p", Max: 1, Size: 1, Target: 1}}, Nodes: []Node{{Name: "n", Pool: "p", Ready: true, Cordoned: true, CordonedBy: "o"}}}
	operation := func(started time.Time, phase Phase) {
		s.Nodes[0].Operation = &Operation{ID: "o", GPU: 3, Phase: phase, Started: started}
	}
	count := func() int {
		t.Helper()
		s.State = Make(s, DefaultPolicy()).State
		if len(s.State.Failures) == 0 {
			return 0
		}
		if len(s.State.Failures) > 1 || s.State.Failures[0].Name != "n/3" {
			t.Fatalf("%+v", s.State.Failures)
		}
		return s.State.Failures[0].Count
	}
	operation(noon.Add(-time.Minute), PhaseFailed)
	if got := count(); got != 1 {
		t.Errorf("failed once, counted %d", got)
	}
	s.Now = noon.Add(time.Second)
	if got := count(); got != 1 {
		t.Errorf("the same failure seen again, counted %d", got)
	}
	operation(noon.Add(time.Minute), PhaseFailed)
	s.Now = noon.Add(2 * time.Minute)
	if got := count(); got != 2 {
		t.Errorf("failed twice, counted %d", got)
	}
	s.Nodes[0].Operation, s.Nodes[0].CordonedBy, s.Nodes[0].Cordoned = nil, "", false
	s.Now = noon.Add(time.Hour)
	if got := count(); got != 2 {
		t.Errorf("dropped within the hour that may pass until the next attempt: %d", got)
	}
	pruned := s.State
	s.Now = noon.Add(3 * time.Hour)
	if got := count(); got != 0 {
		t.Errorf("no attempt for hours, and still counted %d", got)
	}
	s.State, s.Now = pruned, noon.Add(time.Hour)
	operation(noon.Add(50*time.Minute), PhaseSucceeded)
	if got := count(); got != 0 {
		t.Errorf("succeeded, and still counted %d", got)
	}
}

func TestSickSinceEndsWithRecovery(t *testing.T) {
	s := Snapshot{Now: noon, Pools: []Pool{{Name: "p", Min: 1, Max: 2, Size: 1, Target: 1}},
		Nodes: []Node{{Name: "n", Pool: "p", Ready: true, GPUs: []GPU{{Device: gpu.Device{Health: gpu.Sick}, AllocationKnown: true}}}}}
	p := DefaultPolicy()
	s.State = Make(s, p).State
	s.Now = noon.Add(5 * time.Minute)
	s.State = Make(s, p).State
	if at, ok := stampAt(s.State.SickSince, "n"); !ok || !at.Equal(noon) {
		t.Errorf("sick since %v, want %v", s.State.SickSince, noon)
	}
	s.Nodes[0].GPUs[0].Health = gpu.Healthy
	if m := Make(s, p).State; len(m.SickSince) != 0 {
		t.Errorf("healthy, and still sick since %v", m.SickSince)
	}
	s.Nodes[0].GPUs[0].Health, s.Now = gpu.Sick, noon.Add(time.Hour)
	made := Make(s, p)
	if len(made.Actions) != 1 || made.Actions[0].Verb != Replace {
		t.Fatalf("want one replacement:\n%s", made)
	}
	// Its successor is upcoming: the node is not replaced again and none is added.
	s.State, s.Nodes, s.Pools[0].Size = made.State, nil, 0
	s.Pods = []Pod{{Namespace: "a", Name: "p", Unschedulable: true, PendingSince: noon, Demand: demand.Demand{GPUs: 1}}}
	s.Pools[0].Template.GPUs = []GPU{{}}
	if again := Make(s, p); len(again.Actions) != 0 {
		t.Errorf("want nothing:\n%s", again)
	}
}

// hopeless has n nodes of which one of two pods fits elsewhere and the other
// nowhere, one node that could be drained but saves the least, and one with
// free capacity.
func hopeless(n int) Snapshot {
	s := Snapshot{Now: noon, Pools: []Pool{
		{Name: "dear", Max: 1000, Size: n, Target: n, PricePerHour: 90},
		{Name: "cheap", Max: 1000, Size: 2, Target: 2, PricePerHour: 10}}}
	add := func(pool, name string, gpus int, pods ...int) {
		node := Node{Name: name, Pool: pool, Ready: true, Created: noon.Add(-time.Hour)}
		for i := range gpus {
			node.GPUs = append(node.GPUs, GPU{Device: gpu.Device{Index: i}, AllocationKnown: true})
		}
		next := 0
		for i, want := range pods {
			p := Pod{Namespace: "a", Name: fmt.Sprintf("%s-%d", name, i), Node: name, Created: noon, Evictable: pool != "", Demand: demand.Demand{GPUs: want}}
			for range want {
				node.GPUs[next].AllocatedTo = []string{p.Key()}
				next++
			}
			s.Pods = append(s.Pods, p)
		}
		s.Nodes = append(s.Nodes, node)
	}
	for i := range n {
		add("dear", fmt.Sprintf("d%02d", i), 4, 2, 2)
	}
	add("cheap", "c1", 2, 1)
	add("", "other", 4, 2)
	return s
}

// TestTrialsAreBounded: failed trials of a reconcile are bounded, and the nodes
// that save the most are tried first.
func TestTrialsAreBounded(t *testing.T) {
	drained := func(n int) bool {
		return slices.ContainsFunc(Make(hopeless(n), DefaultPolicy()).Actions, func(a Action) bool { return a.Verb == Drain && a.Node == "c1" })
	}
	if !drained(maxTrials - 1) {
		t.Errorf("%d hopeless nodes keep another from being tried", maxTrials-1)
	}
	if drained(maxTrials) {
		t.Errorf("more than %d nodes are tried", maxTrials)
	}
}

// TestUnknownIsUsed: a pod is idle only where all it requests is known to be
// allocated to it and measured.
func TestUnknownIsUsed(t *testing.T) {
	unused := noon.Add(-3 * time.Hour)
	device := func(i int, pod string, since time.Time) GPU {
		return GPU{Device: gpu.Device{Index: i}, AllocationKnown: true, AllocatedTo: []string{pod}, UnusedSince: since}
	}
	s := Snapshot{Now: noon, Pools: []Pool{{Name: "p", Max: 1, Min: 1, Size: 1, Target: 1}},
		Tenants: []Tenant{{ReclaimIdle: 2 * time.Hour}},
		Pods:    []Pod{{Namespace: "a", Name: "p", Node: "n", Tenant: "t", Evictable: true, Demand: demand.Demand{GPUs: 2}}},
		Nodes:   []Node{{Name: "n", Pool: "p", Ready: true}}}
	s.Tenants[0].Name = "t"
	for _, c := range []struct {
		name  string
		gpus  []GPU
		since time.Time
		want  bool
	}{
		{"both unused", []GPU{device(0, "a/p", unused), device(1, "a/p", unused)}, time.Time{}, true},
		{"one used", []GPU{device(0, "a/p", unused), device(1, "a/p", time.Time{})}, time.Time{}, false},
		{"one not attributed", []GPU{device(0, "a/p", unused), {Device: gpu.Device{Index: 1}, AllocationKnown: true}}, time.Time{}, false},
		{"one of unknown allocation", []GPU{device(0, "a/p", unused), device(1, "a/p", unused), {Device: gpu.Device{Index: 2}}}, time.Time{}, false},
		{"not for long enough", []GPU{device(0, "a/p", unused), device(1, "a/p", noon.Add(-time.Hour))}, time.Time{}, false},
		{"the pod is younger", []GPU{device(0, "a/p", unused), device(1, "a/p", unused)}, noon.Add(-time.Hour), false},
	} {
		s.Nodes[0].GPUs, s.Pods[0].Created = c.gpus, c.since
		made := Make(s, DefaultPolicy())
		got := len(made.Actions) == 1 && made.Actions[0].Verb == Reclaim && made.Actions[0].Reason == ReclaimIdle
		if got != c.want {
			t.Errorf("%s: reclaimed %v, want %v\n%s", c.name, got, c.want, made)
		}
	}
}

// TestTidyKeepsEveryInstance adds an instance to every layout of a product that
// lacks one, and removes none.
func TestTidyKeepsEveryInstance(t *testing.T) {
	for _, model := range []string{"A30-24GB", "H100-80GB"} {
		table, ok := mig.ForModel(model)
		if !ok {
			t.Fatal(model)
		}
		tried := 0
		for _, whole := range table.Maximal() {
			for i := range whole {
				part := slices.Delete(slices.Clone(whole), i, i+1)
				made := Make(strandedGPU(table, part), DefaultPolicy())
				if len(made.Actions) != 1 {
					t.Fatalf("%s %s: want one action\n%s", model, table.Format(part), made)
				}
				a := made.Actions[0]
				if a.Verb != Repartition || a.Reason != GPUStranded || len(table.Free(a.Target)) > 0 || table.Legal(a.Target) != nil {
					t.Fatalf("%s %s: %s", model, table.Format(part), a)
				}
				for _, p := range part {
					if !slices.Contains(a.Target, p) {
						t.Fatalf("%s %s is destroyed: %s", model, table.Format(part), a)
					}
				}
				tried++
			}
		}
		if tried == 0 {
			t.Errorf("%s: nothing tried", model)
		}
	}
}

// strandedGPU is a GPU whose first instance is allocated, in a pool where that
// may stay, beside pods elsewhere that run on each of the model's profiles.
func strandedGPU(table *mig.Table, l mig.Layout) Snapshot {
	s := Snapshot{Now: noon, Pools: []Pool{{Name: "p", Min: 1, Max: 1, Size: 1, Target: 1, MIG: PoolMIG{Repartition: true, KeepsBusy: true}}}}
	c := GPU{Device: gpu.Device{Model: gpu.Model{Name: table.Model()}}, MIG: true, AllocationKnown: true, IdleSince: noon.Add(-time.Hour)}
	c.Instances = instances(l, "a/p")
	s.Nodes = []Node{{Name: "n", Pool: "p", Ready: true, GPUs: []GPU{c}}}
	for _, p := range table.Profiles() {
		name := table.Name(p)
		s.Pods = append(s.Pods, Pod{Namespace: "b", Name: fmt.Sprint(p.Compute, p.Memory, p.Attrs), Node: "elsewhere",
			Demand: demand.Demand{MIG: []demand.Instances{{Name: name, Count: 1}}}})
	}
	return s
}
