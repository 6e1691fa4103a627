package pack

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// drawRequest draws small numbers, so that requests are often equal.
func drawRequest(r *rapid.T, profiles []mig.Profile) Request {
	a := Request{CPU: 1000 * rapid.IntRange(0, 6).Draw(r, "cpu"), Memory: rapid.IntRange(0, 6).Draw(r, "memory")}
	switch rapid.IntRange(0, 3).Draw(r, "kind") {
	case 0:
	case 1:
		a.GPUs = rapid.IntRange(1, 3).Draw(r, "gpus")
	case 2:
		a.GPUs = 1
		a.Part = Part{Core: 100 * rapid.IntRange(1, 9).Draw(r, "core"), Memory: 100 * rapid.IntRange(0, 9).Draw(r, "part")}
	default:
		a.GPUs, a.Profile = 1, rapid.SampledFrom(profiles).Draw(r, "profile")
	}
	a.Models = rapid.SampledFrom([]uint64{0, 0, 1, 2, 3}).Draw(r, "models")
	return a
}

func drawNodes(r *rapid.T, geometry *Geometry) []Node {
	var nodes []Node
	for range rapid.IntRange(1, 6).Draw(r, "nodes") {
		model := rapid.IntRange(0, 1).Draw(r, "model")
		n := NewNode(model, 1000*rapid.IntRange(2, 20).Draw(r, "cpu"), rapid.IntRange(2, 20).Draw(r, "memory"), rapid.IntRange(0, 4).Draw(r, "gpus"), nil)
		if model == 1 {
			n = NewNode(model, n.CPU, n.Memory, len(n.GPUs), geometry)
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// TestFleetIsALinearScan: a fleet places as a scan of every node does.
func TestFleetIsALinearScan(t *testing.T) {
	tab := table(t, "A30")
	geometry := NewGeometry(tab)
	rapid.Check(t, func(r *rapid.T) {
		nodes := drawNodes(r, geometry)
		var requests []Request
		for range rapid.IntRange(1, 25).Draw(r, "requests") {
			requests = append(requests, drawRequest(r, tab.Profiles()))
		}
		typical := NewTypical(requests, 0.95)
		policy := rapid.SampledFrom([]Policy{FirstFit{}, NewBestFit(nodes), FGD{typical}, NewExpect(typical, nodes)}).Draw(r, "policy")
		f := NewFleet(nodes, policy)
		nodes = slices.Clone(nodes)
		for _, a := range requests {
			want, cost := -1, math.Inf(1)
			var spot Spot
			for i, n := range nodes {
				if !n.Fits(a) {
					continue
				}
				if c := policy.Weigh(n, a); c.Cost < cost {
					want, cost, spot = i, c.Cost, c.Spot
				}
			}
			got, ok := f.Place(a)
			if ok != (want >= 0) || ok && got != (Placed{want, spot}) {
				r.Fatalf("%+v: placed at %v, %v; want %v, %v", a, got, ok, want, spot)
			}
			if ok {
				nodes[want] = checkTaken(r, nodes[want], a, spot)
			}
		}
		free := 0
		for _, n := range nodes {
			free += n.Free()
		}
		if free != f.Free() {
			r.Fatalf("%d free, the fleet counts %d", free, f.Free())
		}
	})
}

// checkTaken takes a and checks that exactly its request is taken.
func checkTaken(r *rapid.T, n Node, a Request, s Spot) Node {
	after := n.Take(a, s)
	if after.CPU != n.CPU-a.CPU || after.Memory != n.Memory-a.Memory || after.CPU < 0 || after.Memory < 0 {
		r.Fatalf("%+v took %+v and left %+v", a, n, after)
	}
	if !slices.IsSortedFunc(after.GPUs, GPU.compare) {
		r.Fatalf("GPUs are out of order: %+v", after)
	}
	cores, memory, slicesLeft := 0, 0, 0
	for i := range n.GPUs {
		cores += n.GPUs[i].Core - after.GPUs[i].Core
		memory += n.GPUs[i].Memory - after.GPUs[i].Memory
		if after.GPUs[i].Core < 0 || after.GPUs[i].Memory < 0 {
			r.Fatalf("%+v is more than there was on %+v", a, n)
		}
		if n.Geometry != nil {
			slicesLeft += n.Geometry.Free(n.GPUs[i].State) - n.Geometry.Free(after.GPUs[i].State)
		}
	}
	switch {
	case n.Geometry != nil && slicesLeft != a.Profile.Compute+wholeGPUs(a)*n.Geometry.Table().ComputeSlices():
		r.Fatalf("%+v took %d slices of %+v", a, slicesLeft, n)
	case n.Geometry == nil && (cores != a.Part.Core+wholeGPUs(a)*Whole || memory != a.Part.Memory+wholeGPUs(a)*Whole):
		r.Fatalf("%+v took %d, %d of %+v", a, cores, memory, n)
	}
	return after
}

func wholeGPUs(a Request) int {
	if a.whole() {
		return a.GPUs
	}
	return 0
}

func TestPlaceAny(t *testing.T) {
	f := NewFleet([]Node{NewNode(0, 1000, 0, 1, nil), NewNode(0, 1000, 0, 2, nil)}, nil)
	last := func(n int) int { return n - 1 }
	half := Request{GPUs: 1, Part: Part{Core: 500}}
	for _, want := range []Placed{{1, Spot{GPU: 1}}, {1, Spot{GPU: 1}}, {1, Spot{GPU: 1}}, {1, Spot{GPU: 1}}, {0, Spot{}}, {0, Spot{}}} {
		if got, ok := f.PlaceAny(half, last); !ok || got.Node != want.Node {
			t.Errorf("placed at %v, %v; want %v", got, ok, want)
		}
	}
	if got, ok := f.PlaceAny(half, last); ok {
		t.Errorf("a full fleet places at %v", got)
	}
}
