package fleet_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"pgregory.net/rapid"

	"github.com/gpuscale/gpuscale/autoscaler/fleet"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/plan"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// TestUsesAddUpToTheCapacity: through restarts, gaps, repartitions, changes of nodes and
// clocks that are set back, every second of a GPU has one use: the uses add up to the
// capacity, and the capacity to the number of GPUs over time.
func TestUsesAddUpToTheCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, begun := epoch, time.Time{}
		var f *fleet.Fleet
		var before map[string]float64
		want, gpus, surveyed, counted, fresh := 0.0, 0, time.Time{}, time.Time{}, true
		restart := func() {
			f, before = fleet.New(), nil
			f.Lead(true)
			begun, want, gpus, fresh = time.Time{}, 0, 0, true
		}
		restart()
		for range rapid.IntRange(2, 12).Draw(t, "reconciles") {
			switch rapid.IntRange(0, 12).Draw(t, "what") {
			case 0:
				restart()
			case 1:
				now = now.Add(-time.Hour) // the clock is set back
			}
			now = now.Add(time.Duration(rapid.IntRange(1, 1200).Draw(t, "seconds")) * time.Second)
			s := drawSnapshot(t, now)
			err := f.Observe(fleet.Reconcile{Observation: &observe.Observation{Snapshot: s}, Plan: &plan.Plan{}})
			took := now.Sub(surveyed)
			switch {
			case err != nil && (begun.IsZero() || took > 0):
				t.Fatal(err)
			case err != nil: // the clock was set back: it restarts at zero
				begun, want, before = now, 0, nil
			case begun.IsZero():
				begun = now
			default:
				want += float64(gpus) * now.Sub(counted).Seconds()
			}
			counted = now
			if took >= 10*time.Second || took < 0 || fresh { // a survey is due
				surveyed, gpus, fresh = now, countGPUs(s), false
			}
			before = checkUses(t, f, want, before)
		}
	})
}

// checkUses checks the counters and returns them; none may be less than before.
func checkUses(t *rapid.T, f *fleet.Fleet, want float64, before map[string]float64) map[string]float64 {
	uses, capacity, now := map[string]float64{}, map[string]float64{}, map[string]float64{}
	total := 0.0
	for _, family := range gather(t, f) {
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			key := labels["pool"] + " " + labels["model"]
			switch family.GetName() {
			case "gpuscale_autoscaler_gpu_seconds_total":
				uses[key] += m.GetCounter().GetValue()
				now[fmt.Sprint(m.GetLabel())] = m.GetCounter().GetValue()
			case "gpuscale_autoscaler_capacity_gpu_seconds_total":
				capacity[key] = m.GetCounter().GetValue()
				total += m.GetCounter().GetValue()
			}
		}
	}
	for key, v := range capacity {
		if math.Abs(uses[key]-v) > 1e-6 {
			t.Fatalf("%s: the uses add up to %v, the capacity is %v", key, uses[key], v)
		}
		delete(uses, key)
	}
	if len(uses) > 0 {
		t.Fatalf("uses without a capacity: %v", uses)
	}
	if math.Abs(total-want) > 1e-6 {
		t.Fatalf("the capacity is %v, want %v", total, want)
	}
	for key, v := range before {
		if now[key] < v {
			t.Fatalf("%s went from %v to %v", key, v, now[key])
		}
	}
	return now
}

func gather(t interface{ Fatal(...any) }, c prometheus.Collector) []*dto.MetricFamily {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

func countGPUs(s plan.Snapshot) int {
	n := 0
	for i := range s.Nodes {
		n += len(s.Nodes[i].GPUs)
	}
	return n
}

// drawSnapshot is any cluster, independent of the one before.
func drawSnapshot(t *rapid.T, now time.Time) plan.Snapshot {
	s := plan.Snapshot{Now: now, Pools: []plan.Pool{{Name: "a", Max: 9}, {Name: "b", Max: 9, PricePerHour: 2}}}
	table, _ := mig.ForModel("H100-80GB")
	layouts := table.Maximal()
	for i := range rapid.IntRange(0, 4).Draw(t, "nodes") {
		n := plan.Node{Name: fmt.Sprintf("n%d", i), Pool: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "pool"),
			Ready: rapid.IntRange(0, 4).Draw(t, "ready") > 0, Cordoned: rapid.IntRange(0, 5).Draw(t, "cordoned") == 0, Created: now.Add(-time.Hour)}
		for k := range rapid.IntRange(1, 3).Draw(t, "gpus") {
			c := plan.GPU{AllocationKnown: rapid.IntRange(0, 5).Draw(t, "known") > 0}
			c.Index, c.Model = k, gpu.Model{Name: "H100-80GB", Vendor: "nvidia"}
			c.Busy = drawBusy(t)
			if rapid.Bool().Draw(t, "mig") {
				c.MIG = true
				for _, p := range rapid.SampledFrom(layouts).Draw(t, "layout") {
					in := plan.Instance{Placement: p, Placed: true, Busy: drawBusy(t)}
					in.AllocatedTo = drawPod(t)
					c.Instances = append(c.Instances, in)
				}
			} else if h := drawPod(t); h != "" {
				c.AllocatedTo = []string{h}
			}
			n.GPUs = append(n.GPUs, c)
		}
		s.Nodes = append(s.Nodes, n)
	}
	return s
}

func drawPod(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "", "chat/a", "chat/b", "train/c"}).Draw(t, "pod")
}

func drawBusy(t *rapid.T) sample.Value {
	if rapid.IntRange(0, 3).Draw(t, "measured") == 0 {
		return sample.Unknown()
	}
	return sample.Known(float64(rapid.IntRange(0, 100).Draw(t, "busy"))/100, time.Second)
}

// TestSeriesOfAPoolThatIsGone: the series of a deleted pool are deleted.
func TestSeriesOfAPoolThatIsGone(t *testing.T) {
	f := fleet.New()
	f.Lead(true)
	for i, pools := range [][]plan.Pool{{{Name: "p"}, {Name: "q"}}, {{Name: "q"}}} {
		s := plan.Snapshot{Now: epoch.Add(time.Duration(i) * time.Minute), Pools: pools}
		if err := f.Observe(fleet.Reconcile{Observation: &observe.Observation{Snapshot: s}, Plan: &plan.Plan{}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, family := range gather(t, f) {
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "pool" && l.GetValue() == "p" {
					t.Errorf("%s %v", family.GetName(), m)
				}
			}
		}
	}
}
