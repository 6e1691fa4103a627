package pack

import (
	"math"
	"testing"
)

func part(cpu, core int) Request { return Request{CPU: cpu, GPUs: 1, Part: Part{Core: core}} }

func gpus(cpu, n int) Request { return Request{CPU: cpu, GPUs: n} }

// shared is a node whose GPUs have cores free.
func shared(cpu int, cores ...int) Node {
	n := Node{CPU: cpu}
	for _, c := range cores {
		n.GPUs = append(n.GPUs, GPU{Part: Part{c, c}})
	}
	return n
}

func TestTypical(t *testing.T) {
	requests := []Request{part(1, 500), part(1, 500), part(1, 500), gpus(1, 1), gpus(1, 1), gpus(1, 8)}
	if got := NewTypical(requests, 0.8); len(got) != 2 || got[0] != (Share{part(1, 500), 0.6}) || got[1] != (Share{gpus(1, 1), 0.4}) {
		t.Errorf("four fifths are %+v", got)
	}
	if got := NewTypical(requests, 1); len(got) != 3 {
		t.Errorf("all are %+v", got)
	}
	if got := NewTypical(nil, 1); len(got) != 0 {
		t.Errorf("nothing has %+v", got)
	}
}

func TestFragmentation(t *testing.T) {
	tab := table(t, "H100-80GB")
	geometry := NewGeometry(tab)
	three, _ := tab.Exact("3g.40gb")
	migNode := NewNode(0, 8000, 0, 1, geometry)
	half := Typical{{part(4000, 500), 0.5}, {gpus(4000, 1), 0.5}}
	tests := []struct {
		name    string
		typical Typical
		node    Node
		want    float64
	}{
		{"an empty node is of use to all", half, shared(8000, 1000), 0},
		{"half a GPU is of use to one of two", half, shared(8000, 500), 250},
		{"less than half to none", half, shared(8000, 400), 400},
		{"GPUs that are too small do not count", half, shared(8000, 300, 500), 0.5*300 + 0.5*800},
		{"without CPU there is no use", half, shared(3999, 1000), 1000},
		{"a request for no GPU uses none", Typical{{Request{CPU: 1}, 1}}, shared(8000, 1000), 1000},
		{"two 3g leave one slice of seven", Typical{{Request{GPUs: 1, Profile: three}, 1}}, migNode, 1000 - 6*1000/7},
		{"by memory as well", Typical{{Request{GPUs: 1, Part: Part{500, 600}}, 1}}, Node{GPUs: []GPU{{Part: Part{500, 500}}}}, 500},
		{"nothing free, nothing lost", half, shared(8000, 0), 0},
	}
	for _, test := range tests {
		if got := test.typical.Fragmentation(test.node); math.Abs(got-test.want) > 1 {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// TestExpectChooses: the fragmentation gradient decides each of these wrongly,
// or not at all.
func TestExpectChooses(t *testing.T) {
	spec := gpus(1000, 1)
	spec.Models = 2
	other := shared(8000, 1000)
	other.Model = 1
	tests := []struct {
		name    string
		typical Typical
		nodes   []Node
		request Request
		want    int // index of the node
	}{
		{"cores go where GPUs do not need them",
			Typical{{gpus(10000, 1), 1}}, []Node{shared(40000, 0, 1000, 1000, 1000), shared(40000, 0, 0, 0, 1000)}, Request{CPU: 20000}, 1},
		{"cores that run out before the GPUs",
			Typical{{gpus(10000, 1), 1}}, []Node{shared(45000, 1000, 1000, 1000, 1000), shared(95000, 1000, 1000, 1000, 1000)}, Request{CPU: 15000}, 1},
		{"a remainder that a request fits exactly",
			Typical{{part(1000, 800), 0.5}, {part(1000, 200), 0.5}}, []Node{shared(90000, 1000), shared(90000, 200)}, part(1000, 200), 1},
		{"GPUs that restricted requests will use are spared",
			Typical{{spec, 0.5}, {gpus(1000, 1), 0.5}}, []Node{other, shared(8000, 1000)}, gpus(1000, 1), 1},
		{"a request for several GPUs keeps its empty node",
			Typical{{gpus(1000, 2), 0.3}, {gpus(1000, 1), 0.7}}, []Node{shared(2000, 1000, 1000), shared(90000, 0, 1000)}, gpus(1000, 1), 1},
	}
	for _, test := range tests {
		p := NewExpect(test.typical, test.nodes)
		if got, ok := NewFleet(test.nodes, p).Place(test.request); !ok || got.Node != test.want {
			t.Errorf("%s: on node %v, %v; want %d", test.name, got, ok, test.want)
		}
	}
}

func TestExpectStranded(t *testing.T) {
	tab := table(t, "H100-80GB")
	geometry := NewGeometry(tab)
	three, _ := tab.Exact("3g.40gb")
	one := Typical{{gpus(10000, 1), 1}}
	tests := []struct {
		name    string
		typical Typical
		node    Node
		want    float64
	}{
		{"GPUs for four, cores for two", one, shared(20000, 1000, 1000, 1000, 1000), 2000},
		{"everything fits in the end", one, shared(40000, 1000, 1000, 1000, 1000), 0},
		{"nothing fits", one, shared(9999, 1000), 1000},
		{"remainders", Typical{{part(0, 300), 1}}, shared(0, 1000), 100},
		{"a slice that has no memory left", Typical{{Request{GPUs: 1, Profile: three}, 1}}, NewNode(0, 0, 0, 1, geometry), 142},
		{"no demand is expected", nil, shared(40000, 1000), 1000},
	}
	for _, test := range tests {
		if got := NewExpect(test.typical, []Node{test.node}).stranded(test.node); got != test.want {
			t.Errorf("%s: %v thousandths stay empty, want %v", test.name, got, test.want)
		}
	}
	mixed := NewExpect(Typical{{part(0, 810), 0.6}, {part(0, 190), 0.4}}, nil)
	if got := mixed.stranded(shared(0, 1000)); got <= 0 || got >= 190 {
		t.Errorf("of a GPU where 190 follows 810 sooner or later, %v stay empty", got)
	}
}
