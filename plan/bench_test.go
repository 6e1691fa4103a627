package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// BenchmarkMake plans for 1,000 nodes of 8 cards with 2,000 pending pods of 40
// kinds. Goal on two cores: 250 ms; the full-size goal is 10,000 nodes, 80,000
// cards and 10,000 pending pods within a second.
func BenchmarkMake(b *testing.B) {
	s := largeWorld(b, 1000, 2000)
	p := DefaultPolicy()
	p.MaxActionsPerRound = 100
	b.ReportAllocs()
	for b.Loop() {
		Make(s, p)
	}
}

// BenchmarkMakeQuiet plans for the same nodes with nothing pending: what every
// round costs. Goal: 50 ms at 10,000 nodes.
func BenchmarkMakeQuiet(b *testing.B) {
	s := largeWorld(b, 1000, 0)
	p := DefaultPolicy()
	b.ReportAllocs()
	for b.Loop() {
		Make(s, p)
	}
}

// largeWorld has half its nodes whole and held, half cut: every card of those
// has some of its slices held, but for one in sixteen.
func largeWorld(tb testing.TB, nodes, pending int) Snapshot {
	tb.Helper()
	t, ok := mig.ForModel("H100-80GB")
	if !ok {
		tb.Fatal("no table for H100-80GB")
	}
	ones, err := mig.ParseLayout(t, "1g.10gb@0 1g.10gb@1 1g.10gb@2 1g.10gb@3 3g.40gb@4")
	if err != nil {
		tb.Fatal(err)
	}
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
			card := Card{Device: gpu.Device{Index: c, Model: model}, MIG: p.Name == "mig"}
			if card.MIG {
				card.Instances = instances(ones, "")
			}
			p.Template.Cards = append(p.Template.Cards, card)
		}
	}
	for n := range nodes {
		p := &s.Pools[n%2]
		node := Node{Name: fmt.Sprintf("n%05d", n), Pool: p.Name, Labels: p.Template.Labels, Ready: true,
			Created: now.Add(-time.Hour), CPUMilli: 128000, MemoryMi: 1 << 20}
		for c := range 8 {
			pod := Pod{Namespace: "run", Name: fmt.Sprintf("p%05d-%d", n, c), Node: node.Name, CPUMilli: 1000}
			card := Card{Device: gpu.Device{Index: c, Model: model}, MIG: p.Name == "mig", HoldersKnown: true, IdleSince: now.Add(-time.Hour)}
			switch {
			case !card.MIG:
				card.Holders, card.IdleSince = []string{pod.Key()}, time.Time{}
				pod.Demand = demand.Demand{Cards: 1, Vendor: "nvidia"}
			case (n*8+c)%16 == 0:
				card.Instances = instances(ones, "")
				pod.Demand = demand.Demand{}
			default:
				card.Instances = instances(ones, pod.Key())
				pod.Demand = asks("1g.10gb", 1, 10)
			}
			node.Cards = append(node.Cards, card)
			s.Pods = append(s.Pods, pod)
		}
		s.Nodes = append(s.Nodes, node)
	}
	for i := range pending {
		s.Pods = append(s.Pods, waitingPod(i, now))
	}
	return s
}

func instances(l mig.Layout, holder string) []Instance {
	var out []Instance
	for i, p := range l {
		in := Instance{Placement: p, Placed: true}
		if i == 0 {
			in.Holder = holder
		}
		out = append(out, in)
	}
	return out
}

func asks(name string, compute, gb int) demand.Demand {
	return demand.Demand{MIG: []demand.Instances{{Name: name, Profile: mig.Profile{Compute: compute}, MemoryGB: gb, Count: 1}}}
}

func waitingPod(i int, now time.Time) Pod {
	p := Pod{Namespace: "wait", Name: fmt.Sprintf("p%05d", i), Unschedulable: true, CPUMilli: int64(1000 * (1 + i%10)),
		PendingSince: now.Add(-time.Duration(i) * time.Second)}
	switch i % 4 {
	case 0:
		p.Demand = demand.Demand{Cards: 1 + i%8, Vendor: "nvidia"}
	case 1:
		p.Demand = asks("4g.40gb", 4, 40)
	case 2:
		p.Demand = asks("3g.40gb", 3, 40)
	default:
		p.Demand = asks("2g.20gb", 2, 20)
	}
	return p
}
