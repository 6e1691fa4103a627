package plan

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/quota"
	"github.com/gpuscale/gpuscale/internal/require"
)

// BenchmarkMake plans for 10,000 nodes of 8 GPUs with 100,000 pods, 10,000 of
// them pending in 200 kinds. Goal on two cores: 1 s and 1 GiB.
func BenchmarkMake(b *testing.B) { benchmarkMake(b, 10000, 10000) }

// BenchmarkMakeIdle plans for the same nodes with nothing pending: an idle
// reconcile. Goal: 50 ms.
func BenchmarkMakeIdle(b *testing.B) { benchmarkMake(b, 10000, 0) }

// BenchmarkCheck checks the snapshot of an idle reconcile, as the loop does before a plan.
func BenchmarkCheck(b *testing.B) {
	s := largeWorld(b, 10000, 0)
	b.ReportAllocs()
	defer processor(b)()
	for b.Loop() {
		require.NoError(b, s.Check())
	}
}

// BenchmarkMakeRich is BenchmarkMake with everything at once: busy instances
// that stay, a hundred tenants that lend to each other, gangs of eight, parts
// of GPUs, forecasts and topology rules. The goal is the same.
func BenchmarkMakeRich(b *testing.B) {
	s := largeWorld(b, 10000, 10000)
	enrich(&s)
	benchmarkWorld(b, s)
}

// BenchmarkMakeSpread plans 4,000 pods on as many nodes: plain, spread over three
// zones, one of a group on a host, and 500 sets of which each wants a zone without any
// other. Goal: rules at most double the time.
func BenchmarkMakeSpread(b *testing.B) {
	for _, rule := range []string{"plain", "zone", "host", "apart", "sets"} {
		b.Run(rule, func(b *testing.B) { benchmarkWorld(b, spreadWorld(4000, rule)) })
	}
}

func spreadWorld(n int, rule string) Snapshot {
	s := Snapshot{Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Pools: []Pool{{Name: "p", Max: n, Size: n, Target: n, PricePerHour: 4}}}
	for i := range n {
		s.Nodes = append(s.Nodes, Node{Name: fmt.Sprintf("n%05d", i), Pool: "p", Ready: true, Labels: map[string]string{"zone": fmt.Sprintf("z%d", i%3)},
			GPUs: []GPU{{Device: gpu.Device{Model: gpu.Model{Name: "L40S", Vendor: "nvidia", MemoryMiB: 49152}}, AllocationKnown: true}}})
		p := Pod{Namespace: "a", Name: fmt.Sprintf("p%05d", i), Unschedulable: true, PendingSince: s.Now, Demand: demand.Demand{GPUs: 1}, Groups: []string{"g"}}
		switch rule {
		case "zone":
			p.Spread = []Spread{{Rule: Rule{Key: "zone", Group: "g"}, MaxSkew: 1}}
		case "host":
			p.Spread = []Spread{{Rule: Rule{Key: hostnameLabel, Group: "g"}, MaxSkew: 1}}
		case "apart":
			p.Apart = []Apart{{Rule: Rule{hostnameLabel, "g"}}}
		case "sets":
			p.Gang, p.GangMin = fmt.Sprintf("set %d", i%500), n/500
			p.Groups, p.Near, p.Apart = []string{"sets", p.Gang}, []Rule{{Key: "zone", Group: p.Gang}}, []Apart{{Rule{"zone", "sets"}, p.Gang}}
		}
		s.Pods = append(s.Pods, p)
	}
	return s
}

// enrich changes a large world in place.
func enrich(s *Snapshot) {
	s.Pools[0].MIG.KeepsBusy = true
	for i := range 10 {
		s.Tenants = append(s.Tenants, Tenant{Tenant: quota.Tenant{Name: fmt.Sprintf("org-%d", i), Limit: quota.All(), Borrow: quota.All(), Lend: quota.All()}})
	}
	for i := range 100 {
		s.Tenants = append(s.Tenants, Tenant{Tenant: quota.Tenant{Name: fmt.Sprintf("team-%02d", i), Parent: fmt.Sprintf("org-%d", i%10),
			Guarantee: quota.Amount{Compute: 7 * 700, Memory: 8 * 700}, Limit: quota.All(), Borrow: quota.All(), Lend: quota.All()}})
	}
	for i := range s.Pods {
		p := &s.Pods[i]
		p.Tenant = fmt.Sprintf("team-%02d", i*7%100)
		p.Evictable = i%3 == 0
		p.Groups = []string{fmt.Sprintf("g%d", i%50)}
		switch {
		case p.Node != "":
		case i%4 == 0:
			p.Gang, p.GangMin = fmt.Sprintf("wait/gang-%03d", i/32), 8
		case i%50 == 1:
			p.Demand = demand.Demand{Vendor: "nvidia", Fraction: &demand.Fraction{CoreMilli: 300, MemoryMiB: 20000}}
		case i%100 == 2:
			p.Spread = []Spread{{Rule: Rule{Key: "zone", Group: p.Groups[0]}, MaxSkew: 2}}
		}
	}
	for i := range s.Nodes {
		labels := map[string]string{"zone": fmt.Sprintf("z%d", i%3)}
		for k, v := range s.Nodes[i].Labels {
			labels[k] = v
		}
		s.Nodes[i].Labels = labels
	}
	for i := range 50 {
		s.Forecasts = append(s.Forecasts, Forecast{Name: fmt.Sprintf("wait/f%02d", i), Like: pendingPod(i, s.Now), Have: 3, Low: 4, Expected: 8, High: 12,
			At: s.Now.Add(3 * time.Minute), Error: 0.1})
	}
}

func benchmarkMake(b *testing.B, nodes, pending int) {
	benchmarkWorld(b, largeWorld(b, nodes, pending))
}

func benchmarkWorld(b *testing.B, s Snapshot) {
	p := DefaultPolicy()
	p.MaxActionsPerReconcile, p.MaxNodesPerScaleUp, p.MaxNodesPerHour = 1000, 10000, 10000
	b.ReportAllocs()
	defer processor(b)()
	for b.Loop() {
		Make(s, p)
	}
}

// processor reports the processor time of an operation, garbage collection
// included: it does not depend on other load, as elapsed time does.
func processor(b *testing.B) (report func()) {
	used := func() float64 {
		var u syscall.Rusage
		require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6
	}
	before := used()
	return func() { b.ReportMetric((used()-before)/float64(b.N), "cpu-ms/op") }
}

// largeWorld has half its nodes whole and allocated, half partitioned: every
// GPU of those has some allocated slices, except one in sixteen.
func largeWorld(tb testing.TB, nodes, pending int) Snapshot {
	tb.Helper()
	t, ok := mig.ForModel("H100-80GB")
	if !ok {
		tb.Fatal("no table for H100-80GB")
	}
	ones, err := mig.ParseLayout(t, "1g.10gb@0 1g.10gb@1 1g.10gb@2 1g.10gb@3 3g.40gb@4")
	require.NoError(tb, err)
	model := gpu.Model{Name: "H100-80GB", Vendor: "nvidia", MemoryMiB: 81559}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := Snapshot{Now: now, Pools: []Pool{
		{Name: "mig", Max: nodes, PricePerHour: 8, ReadyAfter: 2 * time.Minute, IdleAfter: 10 * time.Minute,
			MIG: PoolMIG{Repartition: true, IdleAfter: time.Minute, Duration: 10 * time.Second}},
		{Name: "whole", Max: 2 * nodes, PricePerHour: 9, ReadyAfter: 2 * time.Minute, IdleAfter: 10 * time.Minute},
	}}
	for i := range s.Pools {
		p := &s.Pools[i]
		p.Template.Labels = map[string]string{"pool": p.Name}
		p.Template.CPUMilli, p.Template.MemoryMi = 128000, 1<<20
		p.Size, p.Target = nodes/2, nodes/2
		for c := range 8 {
			device := GPU{Device: gpu.Device{Index: c, Model: model}, MIG: p.Name == "mig"}
			if device.MIG {
				device.Instances = instances(ones, "")
			}
			p.Template.GPUs = append(p.Template.GPUs, device)
		}
	}
	for n := range nodes {
		p := &s.Pools[n%2]
		node := Node{Name: fmt.Sprintf("n%05d", n), Pool: p.Name, Labels: p.Template.Labels, Ready: true,
			Created: now.Add(-time.Hour), CPUMilli: 128000, MemoryMi: 1 << 20}
		for c := range 8 {
			pod := Pod{Namespace: "run", Name: fmt.Sprintf("p%05d-%d", n, c), Node: node.Name, CPUMilli: 1000}
			device := GPU{Device: gpu.Device{Index: c, Model: model}, MIG: p.Name == "mig", AllocationKnown: true, IdleSince: now.Add(-time.Hour)}
			switch {
			case !device.MIG:
				device.AllocatedTo, device.IdleSince = []string{pod.Key()}, time.Time{}
				pod.Demand = demand.Demand{GPUs: 1, Vendor: "nvidia"}
			case (n*8+c)%16 == 0:
				device.Instances = instances(ones, "")
				pod.Demand = demand.Demand{}
			default:
				device.Instances = instances(ones, pod.Key())
				pod.Demand = requests("1g.10gb", 1, 10)
			}
			node.GPUs = append(node.GPUs, device)
			s.Pods = append(s.Pods, pod)
		}
		s.Nodes = append(s.Nodes, node)
	}
	for n := range nodes { // pods without accelerators, one a node
		s.Pods = append(s.Pods, Pod{Namespace: "web", Name: fmt.Sprintf("p%05d", n), Node: s.Nodes[n].Name, CPUMilli: 500})
	}
	for i := range pending {
		s.Pods = append(s.Pods, pendingPod(i, now))
	}
	slices.SortFunc(s.Pods, func(a, b Pod) int { return strings.Compare(a.Key(), b.Key()) })
	return s
}

func instances(l mig.Layout, pod string) []Instance {
	var out []Instance
	for i, p := range l {
		in := Instance{Placement: p, Placed: true}
		if i == 0 {
			in.AllocatedTo = pod
		}
		out = append(out, in)
	}
	return out
}

func requests(name string, compute, gb int) demand.Demand {
	return demand.Demand{MIG: []demand.Instances{{Name: name, Profile: mig.Profile{Compute: compute}, MemoryGB: gb, Count: 1}}}
}

func pendingPod(i int, now time.Time) Pod {
	p := Pod{Namespace: "wait", Name: fmt.Sprintf("p%05d", i), Unschedulable: true, CPUMilli: int64(1000 * (1 + i%50)),
		PendingSince: now.Add(-time.Duration(i) * time.Second)}
	switch i % 4 {
	case 0:
		p.Demand = demand.Demand{GPUs: 1 + i%8, Vendor: "nvidia"}
	case 1:
		p.Demand = requests("4g.40gb", 4, 40)
	case 2:
		p.Demand = requests("3g.40gb", 3, 40)
	default:
		p.Demand = requests("2g.20gb", 2, 20)
	}
	return p
}
