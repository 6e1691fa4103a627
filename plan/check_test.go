package plan

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/quota"
)

func TestCheckNamesEveryField(t *testing.T) {
	three := mig.Placement{Profile: mig.Profile{Compute: 3, Memory: 4}}
	s := Snapshot{
		Pools: []Pool{{Name: "p", Min: 3, Max: 1, ReadyAfter: -1}, {Name: "p"}},
		Nodes: []Node{{Name: "n", Pool: "q", CPUMilli: -1, Operation: &Operation{Phase: "odd"}, GPUs: []GPU{
			{Device: gpu.Device{Model: gpu.Model{Name: "H100-80GB"}}, MIG: true,
				Instances: []Instance{{Placement: three, Placed: true}, {Placement: three, Placed: true}}},
			{Instances: []Instance{{}}},
		}}},
		Pods: []Pod{{Namespace: "a", Name: "b", Node: "m", Demand: demand.Demand{GPUs: -1,
			MIG: []demand.Instances{{Name: "3g.40gb"}}}}, {}},
	}
	wantErrors(t, s.Check(),
		"now: is not set", "pools[p].min: 3 is more than max 1", "pools[p].readyAfter: is negative", "pools[p]: is there twice",
		`nodes[n].pool: there is no pool "q"`, "nodes[n].cpuMilli: is negative", "nodes[n].operation.phase:",
		"nodes[n].gpus[0].instances:", "nodes[n].gpus[0]: is there twice", "has instances without MIG",
		`pods[a/b].node: there is no node "m"`, "pods[a/b].demand.gpus: is negative", "pods[a/b].demand.mig[3g.40gb]: count is 0",
		"is not what its name says", "pods[/]: has no name")
	if err := (Snapshot{Now: time.Unix(1, 0)}).Check(); err != nil {
		t.Errorf("an empty snapshot: %v", err)
	}
}

// TestCheckNamesEveryFieldOfShares covers tenants, gangs, drains, evictions and
// forecasts.
func TestCheckNamesEveryFieldOfShares(t *testing.T) {
	nan, now := math.NaN(), time.Unix(1000, 0)
	pod := func(name string, change func(*Pod)) Pod {
		p := Pod{Namespace: "a", Name: name}
		change(&p)
		return p
	}
	forecast := func(name string, change func(*Forecast)) Forecast {
		f := Forecast{Name: "a/" + name, Like: Pod{Namespace: "a", Name: name}, At: now}
		change(&f)
		return f
	}
	tenant := func(name, parent string) Tenant {
		return Tenant{Tenant: quota.Tenant{Name: name, Parent: parent, Limit: quota.All(), Borrow: quota.All(), Lend: quota.All()}}
	}
	idle := tenant("idle", "")
	idle.ReclaimIdle = -1
	s := Snapshot{
		Now:   now,
		Pools: []Pool{{Name: "p", InterruptionsPerHour: nan}, {Name: "q", InterruptionsPerHour: -1}},
		Nodes: []Node{{Name: "n", Drain: &Draining{Started: now, Reason: NodeBusy}}},
		Pods: []Pod{
			pod("unmade", func(p *Pod) { p.Node, p.Unmade = "n", true }),
			pod("leaving", func(p *Pod) { p.Leaving = true }),
			pod("leaves", func(p *Pod) { p.LeavesAt = now }),
			pod("gangless", func(p *Pod) { p.GangMin = 1 }),
			pod("gang", func(p *Pod) { p.Gang = "a/g" }),
			pod("odd", func(p *Pod) { p.Gang, p.GangMin = "g", 1 }),
			pod("budgets", func(p *Pod) { p.Budgets = []Budget{{Name: "a/b", Allowed: -1}, {Name: "a/b"}, {}} }),
			pod("part", func(p *Pod) {
				p.Demand.Fraction = &demand.Fraction{CoreMilli: 1001, MemoryMilli: -1, MemoryMiB: -1, GPUs: -1}
			}),
		},
		Tenants: []Tenant{tenant("x", "none"), idle},
		Forecasts: []Forecast{
			forecast("order", func(f *Forecast) { f.Low, f.Expected, f.High = 3, 2, 4 }),
			forecast("nan", func(f *Forecast) { f.Low, f.Expected, f.High, f.Error = nan, -1, math.Inf(1), nan }),
			forecast("when", func(f *Forecast) { f.At, f.Have = time.Time{}, -1 }),
			forecast("when", func(f *Forecast) {}),
			forecast("like", func(f *Forecast) { f.Like.Name, f.Like.Node, f.Like.GangMin, f.Like.CPUMilli = "other", "n", 1, -1 }),
		},
		State: State{Grown: []Growth{{Pool: "p", Nodes: -1}}, Failures: []Failure{{Name: "n/0", Count: -1}}},
	}
	wantErrors(t, s.Check(), "pools[p].interruptionsPerHour: want a number from 0: NaN", "pools[q].interruptionsPerHour:",
		"nodes[n].drain.reason: is none of NodeUnderused, NodeSick", "nodes[n].drain.deadline: is before it started",
		"pods[a/unmade].unmade: is not made yet, and runs on n", "pods[a/leaving].leaving: is leaving, and runs nowhere",
		"pods[a/leaves].leavesAt: is set", "pods[a/gangless].gangMin: is 1, of no gang", "pods[a/gang].gangMin: want 1 or more",
		`pods[a/odd].gang: want namespace/name: "g"`, "pods[a/budgets].budgets[a/b].allowed: is negative",
		"pods[a/budgets].budgets[a/b]: is there twice", "pods[a/budgets].budgets[]: has no name",
		"pods[a/part].demand.fraction.coreMilli: want a share", "pods[a/part].demand.fraction.memoryMilli: want a share",
		"pods[a/part].demand.fraction.memoryMiB: is negative", "pods[a/part].demand.fraction.gpus: is negative",
		`tenants: tenant "x": no parent "none"`, "tenants[idle].reclaimIdle: is negative",
		"forecasts[a/order]: want low ≤ expected ≤ high: 3, 2, 4", "forecasts[a/nan].low: want a number", "forecasts[a/nan].expected:",
		"forecasts[a/nan].high:", "forecasts[a/nan].error:", "forecasts[a/when].at: is not set", "forecasts[a/when].have: is negative",
		"forecasts[a/when]: is there twice", "forecasts[a/like].like: is called a/other", "forecasts[a/like].like: runs or is leaving",
		"forecasts[a/like].like.gangMin:", "forecasts[a/like].like.cpuMilli:",
		"state.grown[p].nodes: is negative", "state.failures[n/0].count: is negative")

	circle := Snapshot{Now: now, Tenants: []Tenant{tenant("a", "b"), tenant("b", "a")}}
	wantErrors(t, circle.Check(), "tenants: tenants are in a cycle of parents")
	unsure := Snapshot{Now: now, Forecasts: []Forecast{{Name: "a/f", Like: Pod{Namespace: "a", Name: "f"}, Unsure: "short"}}}
	if err := unsure.Check(); err != nil {
		t.Errorf("no forecast, and why: %v", err)
	}
}

func TestCheckPolicy(t *testing.T) {
	if err := DefaultPolicy().Check(); err != nil {
		t.Error(err)
	}
	p := Policy{MaxDrains: -1, SickAfter: -1, MaxRemovalShare: 1.1, HeadroomWeight: math.NaN(), MaxSickShare: -0.1, MaxUnready: 2,
		EvictionCost: -1, WaitCostPerHour: math.Inf(1), DisruptionCost: math.NaN(), Headroom: "some"}
	wantErrors(t, p.Check(), "maxDrains: is negative", "sickAfter: is negative", "maxRemovalShare: want a share", "headroomWeight: want a share",
		"maxSickShare: want a share", "maxUnready: want a share", "evictionCost: want a number", "waitCostPerHour: want a number",
		"disruptionCost: want a number", `headroom: is none of none, low, expected, high: "some"`)
}

// TestCheckTakesPublishedTables: a layout that a node has published is legal,
// whatever the built-in table of the product.
func TestCheckTakesPublishedTables(t *testing.T) {
	own, _ := mig.ForModel("B300")
	spec := own.Spec()
	for i, p := range spec.Profiles {
		if p.Compute == 3 {
			spec.Profiles[i].Starts = []int{0, 2, 4}
		}
	}
	tables, err := mig.NewTables(spec)
	if err != nil {
		t.Fatal(err)
	}
	s := Snapshot{Now: time.Unix(1, 0), Nodes: []Node{{Name: "n", GPUs: []GPU{{Device: gpu.Device{Model: gpu.Model{Name: "B300"}}, MIG: true,
		Instances: []Instance{{Placement: mig.Placement{Profile: mig.Profile{Compute: 3, Memory: 4}, Start: 2}, Placed: true}}}}}}}
	wantErrors(t, s.Check(), "may start at")
	s.Tables = tables
	if err := s.Check(); err != nil {
		t.Errorf("by the published one: %v", err)
	}
}

func wantErrors(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("nothing found")
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("missing %q in\n%v", w, err)
		}
	}
}
