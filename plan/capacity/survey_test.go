package capacity_test

import (
	"fmt"
	"math/rand"
	"reflect"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/capacity"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { testall.Main(m) }

// TestSharesAreWhole: every slice of every product is a whole number of shares.
func TestSharesAreWhole(t *testing.T) {
	for _, model := range mig.Models() {
		table, _ := mig.ForModel(model)
		if capacity.GPUShares%table.ComputeSlices() != 0 || capacity.GPUShares%table.MemorySlices() != 0 {
			t.Errorf("%s: %d and %d slices do not divide %d", model, table.ComputeSlices(), table.MemorySlices(), capacity.GPUShares)
		}
	}
}

func oneGPU(model string, allocated mig.Layout) plan.Snapshot {
	m, _ := gpu.ParseProduct(model)
	c := plan.GPU{Device: gpu.Device{Model: m}, MIG: true, AllocationKnown: true}
	for i, p := range allocated {
		c.Instances = append(c.Instances, plan.Instance{Placement: p, Placed: true, AllocatedTo: fmt.Sprintf("a/x-%d", i)})
	}
	return plan.Snapshot{Now: epoch, Nodes: []plan.Node{{Name: "n1", Ready: true, GPUs: []plan.GPU{c}}}}
}

// TestUnplaced: where only counts are known, the best placement is assumed.
func TestUnplaced(t *testing.T) {
	table, _ := mig.ForModel("H100-80GB")
	one, _ := table.Exact("1g.10gb")
	for _, allocated := range []string{"a/x", ""} {
		s := oneGPU("H100-80GB", nil)
		for i := range 4 {
			in := plan.Instance{Placement: mig.Placement{Profile: one}}
			if i == 0 {
				in.AllocatedTo = allocated
			}
			s.Nodes[0].GPUs[0].Instances = append(s.Nodes[0].GPUs[0].Instances, in)
		}
		sv := capacity.NewSurvey(s, capacity.DefaultRules())
		checkSurvey(t, sv)
		// Three of seven compute slices and four of eight memory slices are in no
		// instance; a 3g, or a 2g and a 1g, could cover them.
		if got := sv.Stranded()[0]; got.Cause != capacity.Unpartitioned || got.Size != (capacity.Size{Compute: 360, Memory: 420}) {
			t.Errorf("allocated to %q: %+v", allocated, got)
		}
	}
}

// TestIllegible: impossible data is unknown, never free.
func TestIllegible(t *testing.T) {
	table, _ := mig.ForModel("H100-80GB")
	seven, _ := table.Exact("7g.80gb")
	whole := plan.Instance{Placement: mig.Placement{Profile: seven}, Placed: true}
	for name, spoil := range map[string]func(c *plan.GPU){
		"two whole instances": func(c *plan.GPU) { c.Instances = []plan.Instance{whole, whole} },
		"two whole instances, somewhere": func(c *plan.GPU) {
			c.Instances = []plan.Instance{{Placement: whole.Placement}, {Placement: whole.Placement}}
		},
		"no table":              func(c *plan.GPU) { c.Model = gpu.Model{Name: "H9000"} },
		"instances without MIG": func(c *plan.GPU) { c.MIG, c.Instances = false, []plan.Instance{whole} },
		"a MIG GPU allocated":   func(c *plan.GPU) { c.AllocatedTo = []string{"a/x"} },
		"allocation unknown":    func(c *plan.GPU) { c.AllocationKnown = false },
	} {
		s := oneGPU("H100-80GB", nil)
		spoil(&s.Nodes[0].GPUs[0])
		sv := capacity.NewSurvey(s, capacity.DefaultRules())
		checkSurvey(t, sv)
		if c := sv.GPUs[0]; c.State != capacity.Unknown || len(c.Parts) != 1 || c.Parts[0].State != capacity.Unknown {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// TestSickAndUnknown: a sick GPU of unknown allocation is allocated to no pod.
func TestSickAndUnknown(t *testing.T) {
	s := oneGPU("L40S", nil)
	c := &s.Nodes[0].GPUs[0]
	c.MIG, c.AllocatedTo, c.Health, c.AllocationKnown = false, []string{"a/x"}, gpu.Sick, false
	if got := capacity.NewSurvey(s, capacity.DefaultRules()).GPUs[0]; got.State != capacity.Sick || got.Parts[0].AllocatedTo != "" {
		t.Errorf("%+v", got)
	}
}

// TestManySharers: eleven pods share a GPU, and no share is lost to rounding.
func TestManySharers(t *testing.T) {
	s := oneGPU("L40S", nil)
	c := &s.Nodes[0].GPUs[0]
	c.MIG = false
	for i := range 11 {
		c.AllocatedTo = append(c.AllocatedTo, fmt.Sprint("a/x-", i))
	}
	sv := capacity.NewSurvey(s, capacity.DefaultRules())
	checkSurvey(t, sv)
	for _, p := range sv.GPUs[0].Parts {
		if p.State != capacity.Allocated || p.Size.Compute < 76 || p.Size.Compute > 77 {
			t.Errorf("%+v", p)
		}
	}
}

// TestDrains: a node being drained counts as cordoned.
func TestDrains(t *testing.T) {
	s := oneGPU("H100-80GB", nil)
	n := &s.Nodes[0]
	n.Cordoned, n.CordonedBy, n.Drain = true, "op", &plan.Draining{}
	if got := capacity.NewSurvey(s, capacity.DefaultRules()).GPUs[0].State; got != capacity.Cordoned {
		t.Errorf("on a node being drained: %s", got)
	}
}

// TestStaleBusy: a ratio that is too old is unknown.
func TestStaleBusy(t *testing.T) {
	s := oneGPU("L40S", nil)
	c := &s.Nodes[0].GPUs[0]
	c.MIG, c.AllocatedTo = false, []string{"a/x"}
	for age, want := range map[time.Duration]bool{4 * time.Minute: true, 6 * time.Minute: false} {
		c.Busy = sample.Known(0.5, age)
		sv := capacity.NewSurvey(s, capacity.DefaultRules())
		if _, known := sv.GPUs[0].Parts[0].Busy.Get(); known != want {
			t.Errorf("%s old: known is %v", age, known)
		}
	}
}

// world draws a cluster in any state, some of it impossible.
func world(t *rapid.T, now time.Time) plan.Snapshot {
	s := plan.Snapshot{Now: now, Pools: []plan.Pool{{Name: "p", PricePerHour: 8, Target: 3, Size: 2, Template: plan.Template{GPUs: make([]plan.GPU, 2)},
		MIG: plan.PoolMIG{Repartition: true, KeepsBusy: rapid.Bool().Draw(t, "keeps")}}}}
	flag := func(name string, of int) bool { return rapid.IntRange(0, of).Draw(t, name) == 0 }
	for n := range rapid.IntRange(0, 4).Draw(t, "nodes") {
		node := plan.Node{Name: fmt.Sprint("n", n), Pool: rapid.SampledFrom([]string{"", "p"}).Draw(t, "pool"), Ready: !flag("unready", 5),
			Cordoned: flag("cordoned", 5), Created: now.Add(-time.Duration(rapid.IntRange(0, 60).Draw(t, "age")) * time.Minute),
			CPUMilli: int64(rapid.IntRange(0, 4).Draw(t, "cpu")) * 1000, MemoryMi: int64(rapid.IntRange(0, 2).Draw(t, "memory"))}
		if flag("repartitioned", 4) {
			node.Cordoned, node.CordonedBy, node.Operation = true, "op", &plan.Operation{ID: "op"}
		}
		if flag("tainted", 5) {
			node.Taints = []plan.Taint{{Key: "k", Effect: "NoSchedule"}}
		}
		for c := range rapid.IntRange(0, 3).Draw(t, "GPUs") {
			node.GPUs = append(node.GPUs, drawGPU(t, flag, c))
		}
		s.Nodes = append(s.Nodes, node)
	}
	for i := range rapid.IntRange(0, 5).Draw(t, "pods") {
		p := plan.Pod{Namespace: "a", Name: fmt.Sprint("x-", i), Tenant: rapid.SampledFrom([]string{"", "red"}).Draw(t, "tenant"),
			CPUMilli: int64(rapid.IntRange(0, 3).Draw(t, "pod cpu")) * 1000, MemoryMi: int64(rapid.IntRange(0, 2).Draw(t, "pod memory")), PendingSince: now}
		if flag("bound", 1) {
			p.Node = "n0"
		}
		switch rapid.IntRange(0, 3).Draw(t, "demand") {
		case 0:
			p.Demand = demand.Demand{GPUs: rapid.IntRange(0, 3).Draw(t, "wanted"), Vendor: "nvidia"}
		case 1:
			p.Demand.MIG = []demand.Instances{{Name: "3g.40gb", Profile: mig.Profile{Compute: 3}, MemoryGB: 40, Count: rapid.IntRange(1, 2).Draw(t, "count")}}
		case 2:
			p.Demand.Fraction = &demand.Fraction{CoreMilli: rapid.IntRange(0, 1200).Draw(t, "core"), MemoryMiB: rapid.IntRange(0, 50000).Draw(t, "mib")}
		}
		s.Pods = append(s.Pods, p)
	}
	return s
}

func drawGPU(t *rapid.T, flag func(string, int) bool, index int) plan.GPU {
	m, _ := gpu.ParseProduct(rapid.SampledFrom([]string{"H100-80GB", "A30-24GB", "RTX-PRO-6000", "L40S"}).Draw(t, "model"))
	c := plan.GPU{Device: gpu.Device{Index: index, Model: m, Health: gpu.Health(rapid.IntRange(0, 2).Draw(t, "health"))}, AllocationKnown: !flag("unknown", 6)}
	table, ok := mig.ForModel(m.Name)
	if c.MIG = ok && flag("mig", 1); !c.MIG {
		for i := range rapid.IntRange(0, 3).Draw(t, "allocated to") {
			c.AllocatedTo = append(c.AllocatedTo, fmt.Sprint("a/x-", i))
		}
		return c
	}
	placed := !flag("unplaced", 4)
	for _, p := range rapid.SampledFrom(table.Maximal()).Draw(t, "layout") {
		in := plan.Instance{Placement: p, Placed: placed}
		if flag("gone", 4) {
			continue
		}
		if flag("allocated", 1) {
			in.AllocatedTo, in.Busy = "a/x-0", sample.Known(rapid.Float64Range(0, 1).Draw(t, "busy"), 0)
		}
		c.Instances = append(c.Instances, in)
		if flag("impossible", 30) {
			c.Instances = append(c.Instances, in)
		}
	}
	return c
}

// TestWorlds surveys random clusters, one after the other, and adds them up:
// the parts are the GPUs, the places are the capacity, the order of a
// snapshot's slices does not matter, and what is unknown is not free.
func TestWorlds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := capacity.NewLedger(capacity.LedgerOptions{})
		now, gpus, want := epoch, 0, int64(0)
		for range rapid.IntRange(1, 6).Draw(rt, "observations") {
			passed := time.Duration(rapid.IntRange(1, 1000000).Draw(rt, "ms")) * time.Millisecond
			now = now.Add(passed)
			s := world(rt, now)
			sv := capacity.NewSurvey(s, capacity.DefaultRules())
			checkSurvey(t, sv)
			want += int64(gpus) * capacity.GPUShares * passed.Milliseconds()
			gpus = 0
			for _, n := range s.Nodes {
				gpus += len(n.GPUs)
				if len(n.GPUs) == 0 && n.Pool == "p" {
					gpus += 2
				}
			}
			must(rt, l.Add(sv.Observation()))
			must(rt, check(l))
			if got := l.Capacity(); int64(got) != want {
				rt.Fatalf("capacity %d, want %d", got, want)
			}
			if text := tables(sv); text != tables(capacity.NewSurvey(shuffled(s), capacity.DefaultRules())) {
				rt.Fatalf("in another order the tables differ from\n%s", text)
			}
		}
	})
}

func tables(sv capacity.Survey) string {
	return printed(sv.Supply()) + printed(sv.Pending(nil)) + printed(sv.Stranded())
}

func shuffled(s plan.Snapshot) plan.Snapshot {
	r := rand.New(rand.NewSource(1))
	mix := func(list any) {
		swap := reflect.Swapper(list)
		r.Shuffle(reflect.ValueOf(list).Len(), swap)
	}
	s.Nodes = append([]plan.Node(nil), s.Nodes...)
	s.Pods = append([]plan.Pod(nil), s.Pods...)
	mix(s.Nodes)
	mix(s.Pods)
	for n := range s.Nodes {
		s.Nodes[n].GPUs = append([]plan.GPU(nil), s.Nodes[n].GPUs...)
		mix(s.Nodes[n].GPUs)
	}
	return s
}
