package pack

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// Whole is a free GPU, in thousandths.
const Whole = 1000

// Part is a share of one GPU in thousandths of its cores and of its memory. The
// caller converts core percent and MiB; 0 is for a resource that the request
// does not limit.
type Part struct {
	Core, Memory int
}

// holds reports whether p has capacity for q, by cores and by memory.
func (p Part) holds(q Part) bool { return p.Core >= q.Core && p.Memory >= q.Memory }

// Request is what one pod requests of a node. The zero Request requests
// nothing.
type Request struct {
	CPU    int // thousandths of a core
	Memory int // MiB of the node's memory
	// GPUs is the number of whole, free GPUs, 0 for none. With Part or Profile set
	// it is 1.
	GPUs int
	// Part of one GPU that is shared in fractions.
	Part Part
	// Profile of one instance of a MIG GPU.
	Profile mig.Profile
	// Models are the models that fit, one bit each; 0 for any.
	Models uint64
}

// whole reports whether a requests free GPUs.
func (a Request) whole() bool {
	return a.GPUs > 0 && a.Part == (Part{}) && a.Profile == (mig.Profile{})
}

// Compare orders requests, in an arbitrary fixed order.
func (a Request) Compare(b Request) int {
	return cmp.Or(cmp.Compare(a.CPU, b.CPU), cmp.Compare(a.Memory, b.Memory), cmp.Compare(a.GPUs, b.GPUs),
		cmp.Compare(a.Part.Core, b.Part.Core), cmp.Compare(a.Part.Memory, b.Part.Memory),
		a.Profile.Compare(b.Profile), cmp.Compare(a.Models, b.Models))
}

// GPU is what is free of one GPU: a Part of it, or, on a node with a Geometry,
// its state.
type GPU struct {
	Part
	State int
}

// Node is what is free on a node.
type Node struct {
	Model  int   // bit of Ask.Models, 0 … 63
	CPU    int   // thousandths of a core
	Memory int   // MiB
	GPUs   []GPU // ascending
	// Geometry is that of the node's MIG GPUs, nil for others. All nodes of a
	// Model have the same.
	Geometry *Geometry
}

// NewNode returns an empty node; geometry is nil for GPUs that are used whole
// or in fractions.
func NewNode(model, cpu, memory, gpus int, geometry *Geometry) Node {
	n := Node{Model: model, CPU: cpu, Memory: memory, GPUs: make([]GPU, gpus), Geometry: geometry}
	if geometry == nil {
		for i := range n.GPUs {
			n.GPUs[i].Part = Part{Whole, Whole}
		}
	}
	return n
}

// free is what is free of c, in thousandths of its cores.
func (n Node) free(c GPU) int {
	if n.Geometry != nil {
		return n.Geometry.thousandths(n.Geometry.states[c.State].compute)
	}
	return c.Core
}

func (n Node) untouched(c GPU) bool {
	if n.Geometry != nil {
		return c.State == 0
	}
	return c.Core >= Whole && c.Memory >= Whole
}

// Free is what is free of n's GPUs, in thousandths of a GPU's cores.
func (n Node) Free() int {
	sum := 0
	for _, c := range n.GPUs {
		sum += n.free(c)
	}
	return sum
}

// Size is what a would take of n's GPUs, in thousandths of a GPU's cores: an
// instance is as much as its compute slices.
func (n Node) Size(a Request) int {
	switch {
	case a.whole():
		return a.GPUs * Whole
	case a.Profile == (mig.Profile{}):
		return a.Part.Core
	case n.Geometry == nil:
		return 0
	default:
		return n.Geometry.thousandths(a.Profile.Compute)
	}
}

// Fits reports whether a fits n now.
func (n Node) Fits(a Request) bool {
	if a.Models != 0 && a.Models>>n.Model&1 == 0 || a.CPU > n.CPU || a.Memory > n.Memory {
		return false
	}
	free := 0
	for _, c := range n.GPUs {
		if n.onGPU(a, c) {
			free++
		}
	}
	return free >= a.GPUs
}

// onGPU reports whether a can use c as one of its GPUs.
func (n Node) onGPU(a Request, c GPU) bool {
	switch {
	case a.GPUs == 0:
		return false
	case a.whole():
		return n.untouched(c)
	case a.Profile != (mig.Profile{}):
		return n.Geometry != nil && len(n.Geometry.Steps(c.State, a.Profile)) > 0
	default:
		return n.Geometry == nil && c.holds(a.Part)
	}
}

// Spot is where on a node a Request goes. For whole GPUs, which are equal, and
// for requests without GPUs it is zero.
type Spot struct {
	GPU   int // index into Node.GPUs
	Start int // of an instance: its first memory slice
}

// Spots returns the different places on n for a: one for each kind of GPU and
// each start. Precondition: a fits.
func (n Node) Spots(a Request) []Spot {
	if a.GPUs == 0 || a.whole() {
		return []Spot{{}}
	}
	var spots []Spot
	for i, c := range n.GPUs {
		if i > 0 && c == n.GPUs[i-1] || !n.onGPU(a, c) {
			continue
		}
		if n.Geometry == nil {
			spots = append(spots, Spot{GPU: i})
			continue
		}
		for _, s := range n.Geometry.Steps(c.State, a.Profile) {
			spots = append(spots, Spot{GPU: i, Start: s.Start})
		}
	}
	return spots
}

// anySpot draws a GPU that fits, and a start on it.
func (n Node) anySpot(a Request, draw func(n int) int) Spot {
	if a.GPUs == 0 || a.whole() {
		return Spot{}
	}
	var gpus []int
	for i, c := range n.GPUs {
		if n.onGPU(a, c) {
			gpus = append(gpus, i)
		}
	}
	s := Spot{GPU: gpus[draw(len(gpus))]}
	if n.Geometry != nil {
		steps := n.Geometry.Steps(n.GPUs[s.GPU].State, a.Profile)
		s.Start = steps[draw(len(steps))].Start
	}
	return s
}

// Take returns n after a was placed at s, which must be one of n.Spots(a).
func (n Node) Take(a Request, s Spot) Node {
	n.CPU -= a.CPU
	n.Memory -= a.Memory
	if a.GPUs == 0 {
		return n
	}
	n.GPUs = slices.Clone(n.GPUs)
	if a.whole() {
		left := a.GPUs
		for i, c := range n.GPUs {
			if left > 0 && n.untouched(c) {
				n.GPUs[i] = n.used()
				left--
			}
		}
	} else {
		n.GPUs[s.GPU] = n.after(n.GPUs[s.GPU], a, s.Start)
	}
	slices.SortFunc(n.GPUs, GPU.compare)
	return n
}

// used is a GPU without free capacity.
func (n Node) used() GPU {
	if n.Geometry != nil {
		return GPU{State: n.Geometry.full}
	}
	return GPU{}
}

// after is GPU c with a's part or instance on it.
func (n Node) after(c GPU, a Request, start int) GPU {
	if n.Geometry == nil {
		return GPU{Part: Part{c.Core - a.Part.Core, c.Memory - a.Part.Memory}}
	}
	for _, s := range n.Geometry.Steps(c.State, a.Profile) {
		if s.Start == start {
			return GPU{State: s.To}
		}
	}
	return c
}

func (c GPU) compare(d GPU) int {
	return cmp.Or(cmp.Compare(c.Core, d.Core), cmp.Compare(c.Memory, d.Memory), cmp.Compare(c.State, d.State))
}

// key is equal for nodes that are equal.
func (n Node) key() string {
	b := make([]byte, 0, 64)
	b = binary.AppendUvarint(b, uint64(n.Model))
	b = binary.AppendVarint(b, int64(n.CPU))
	b = binary.AppendVarint(b, int64(n.Memory))
	for _, c := range n.GPUs {
		b = binary.AppendVarint(b, int64(c.Core))
		b = binary.AppendVarint(b, int64(c.Memory))
		b = binary.AppendVarint(b, int64(c.State))
	}
	return string(b)
}
