package fleet_test

import (
	"fmt"
	"io"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/gpuscale/gpuscale/autoscaler/fleet"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/plan"
)

// bigFleet is 1,000 nodes of eight cards in ten pools, a quarter of them cut in
// seven; pods of 100 namespaces and 50 tenants hold nine tenths.
func bigFleet() plan.Snapshot {
	s := plan.Snapshot{Now: epoch}
	table, _ := mig.ForModel("H100-80GB")
	seventh, _ := table.Exact("1g.10gb")
	for p := range 10 {
		s.Pools = append(s.Pools, plan.Pool{Name: fmt.Sprintf("pool-%d", p), Max: 200, PricePerHour: 20, Size: 100, Target: 100})
	}
	pod := func(node string, d demand.Demand) string {
		i := len(s.Pods)
		p := plan.Pod{Namespace: fmt.Sprintf("team-%d", i%100), Name: fmt.Sprintf("pod-%d", i), Owner: "Deployment/x", Node: node,
			Tenant: fmt.Sprintf("tenant-%d", i%50), Demand: d, Created: epoch.Add(-time.Hour)}
		s.Pods = append(s.Pods, p)
		return p.Key()
	}
	for i := range 1000 {
		n := plan.Node{Name: fmt.Sprintf("node-%d", i), Pool: fmt.Sprintf("pool-%d", i%10), Ready: true, Created: epoch.Add(-time.Hour), CPUMilli: 192000, MemoryMi: 2 << 20}
		for k := range 8 {
			c := plan.Card{HoldersKnown: true, Busy: sample.Known(0.5, time.Second)}
			c.Index, c.Model, c.Health = k, gpu.Model{Name: "H100-80GB", Vendor: "nvidia", MemoryMiB: 81559}, gpu.Healthy
			if i%4 == 0 {
				c.MIG = true
				for start := range 7 {
					in := plan.Instance{Placement: mig.Placement{Profile: seventh, Start: start}, Placed: true, Busy: sample.Known(0.3, time.Second)}
					if start < 6 {
						in.Holder = pod(n.Name, demand.Demand{Vendor: "nvidia", MIG: []demand.Instances{{Name: "1g.10gb", Profile: seventh, Count: 1}}})
					}
					c.Instances = append(c.Instances, in)
				}
			} else if k < 7 {
				c.Holders = []string{pod(n.Name, demand.Demand{Vendor: "nvidia", Cards: 1})}
			}
			n.Cards = append(n.Cards, c)
		}
		s.Nodes = append(s.Nodes, n)
	}
	for range 200 {
		pod("", demand.Demand{Vendor: "nvidia", Cards: 8})
	}
	return s
}

// BenchmarkObserve is what a round costs more. "follow" is nine rounds of ten, which
// follow pods and nodes only; "survey" is the tenth; a second's round costs a tenth
// of the one and nine of the other. The goal is 10 ms a round and 5 MiB kept, at
// 1,000 nodes of eight cards and 17,000 pods.
func BenchmarkObserve(b *testing.B) {
	for _, c := range []struct {
		name string
		step time.Duration
	}{{"follow", 0}, {"survey", 10 * time.Second}} {
		b.Run(c.name, func(b *testing.B) {
			s := bigFleet()
			held := heap()
			f := fleet.New()
			f.Lead(true)
			made := plan.Make(s, plan.DefaultPolicy())
			r := fleet.Round{Observation: &observe.Observation{Snapshot: s}, Plan: &made}
			before := heap()
			turn := func() {
				r.Now = r.Now.Add(c.step)
				if err := f.Observe(r); err != nil {
					b.Fatal(err)
				}
			}
			turn()
			turn()
			kept := heap() - before
			b.ReportAllocs()
			begun := used(b)
			for b.Loop() {
				turn()
			}
			b.ReportMetric(float64((used(b)-begun).Microseconds())/1000/float64(b.N), "cpu-ms/op")
			b.ReportMetric(float64(kept)/(1<<20), "MiB-kept")
			runtime.KeepAlive(held)
			runtime.KeepAlive(f)
		})
	}
}

// BenchmarkScrape is gathering and encoding the series of the same fleet.
func BenchmarkScrape(b *testing.B) {
	s := bigFleet()
	f := fleet.New()
	f.Lead(true)
	made := plan.Make(s, plan.DefaultPolicy())
	for i := range 2 {
		s.Now = epoch.Add(time.Duration(i) * time.Minute)
		if err := f.Observe(fleet.Round{Observation: &observe.Observation{Snapshot: s}, Plan: &made}); err != nil {
			b.Fatal(err)
		}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(f)
	series := 0
	for b.Loop() {
		families, err := registry.Gather()
		if err != nil {
			b.Fatal(err)
		}
		series = 0
		encoder := expfmt.NewEncoder(io.Discard, expfmt.NewFormat(expfmt.TypeTextPlain))
		for _, family := range families {
			series += len(family.GetMetric())
			if err := encoder.Encode(family); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(series), "series")
}

// used is the processor's time, which a busy machine does not lengthen.
func used(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// heap is what is in use after a collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
