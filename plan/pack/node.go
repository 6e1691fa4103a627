package pack

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// Whole is a GPU nobody has taken anything of, in thousandths.
const Whole = 1000

// Part is a share of one GPU in thousandths of its cores and of its memory.
// Core percent and memory of the fractional dialects both become thousandths
// before they come here; who does not limit one of the two asks 0 of it.
type Part struct {
	Core, Memory int
}

// holds reports whether p has capacity for q, by cores and by memory.
func (p Part) holds(q Part) bool { return p.Core >= q.Core && p.Memory >= q.Memory }

// Ask is what one pod needs of one node. The zero Ask needs nothing.
type Ask struct {
	CPU    int // thousandths of a core
	Memory int // MiB of the node's memory
	// GPUs is how many whole, untouched GPUs are asked for, 0 for none. With
	// Part or Profile set it is 1.
	GPUs int
	// Part of one GPU that is shared in fractions.
	Part Part
	// Profile of one instance of a MIG GPU.
	Profile mig.Profile
	// Models are the kinds of node that will do, one bit each; 0 for any.
	Models uint64
}

// whole reports whether a asks for untouched GPUs.
func (a Ask) whole() bool { return a.GPUs > 0 && a.Part == (Part{}) && a.Profile == (mig.Profile{}) }

// Compare orders asks, in no order that means anything.
func (a Ask) Compare(b Ask) int {
	return cmp.Or(cmp.Compare(a.CPU, b.CPU), cmp.Compare(a.Memory, b.Memory), cmp.Compare(a.GPUs, b.GPUs),
		cmp.Compare(a.Part.Core, b.Part.Core), cmp.Compare(a.Part.Memory, b.Part.Memory),
		a.Profile.Compare(b.Profile), cmp.Compare(a.Models, b.Models))
}

// GPU is what is free of one GPU: a Part of it, or, on a node with Cuts, what
// the instances of state Cut leave.
type GPU struct {
	Part
	Cut int
}

// Node is what is free on a node.
type Node struct {
	Model  int   // bit of Ask.Models, 0 … 63
	CPU    int   // thousandths of a core
	Memory int   // MiB
	GPUs   []GPU // ascending
	// Cuts are the states of the node's GPUs where they are MIG GPUs. All
	// nodes of a Model have the same.
	Repartitions *Repartitions
}

// NewNode returns an empty node with so many GPUs; cuts is nil for GPUs that
// are used whole or in fractions.
func NewNode(model, cpu, memory, gpus int, repartitions *Repartitions) Node {
	n := Node{Model: model, CPU: cpu, Memory: memory, GPUs: make([]GPU, gpus), Repartitions: repartitions}
	if repartitions == nil {
		for i := range n.GPUs {
			n.GPUs[i].Part = Part{Whole, Whole}
		}
	}
	return n
}

// free is what c has left, in thousandths of its cores.
func (n Node) free(c GPU) int {
	if n.Repartitions != nil {
		return n.Repartitions.thousandths(n.Repartitions.states[c.Cut].compute)
	}
	return c.Core
}

func (n Node) untouched(c GPU) bool {
	if n.Repartitions != nil {
		return c.Cut == 0
	}
	return c.Core >= Whole && c.Memory >= Whole
}

// Free is what n's GPUs have left altogether, in thousandths of a GPU's cores.
func (n Node) Free() int {
	sum := 0
	for _, c := range n.GPUs {
		sum += n.free(c)
	}
	return sum
}

// Size is what a would take of n's GPUs, in thousandths of a GPU's cores: an
// instance is as much as its compute slices.
func (n Node) Size(a Ask) int {
	switch {
	case a.whole():
		return a.GPUs * Whole
	case a.Profile == (mig.Profile{}):
		return a.Part.Core
	case n.Repartitions == nil:
		return 0
	default:
		return n.Repartitions.thousandths(a.Profile.Compute)
	}
}

// Fits reports whether a fits n now.
func (n Node) Fits(a Ask) bool {
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

// onGPU reports whether c will do for a, as one of the GPUs it needs.
func (n Node) onGPU(a Ask, c GPU) bool {
	switch {
	case a.GPUs == 0:
		return false
	case a.whole():
		return n.untouched(c)
	case a.Profile != (mig.Profile{}):
		return n.Repartitions != nil && len(n.Repartitions.Steps(c.Cut, a.Profile)) > 0
	default:
		return n.Repartitions == nil && c.holds(a.Part)
	}
}

// Spot is where on a node an Ask goes. For whole GPUs, which are all alike,
// and for asks without GPUs it says nothing.
type Spot struct {
	GPU   int // index into Node.GPUs
	Start int // of an instance: its first memory slice
}

// Spots returns the places on n that differ for a: one for each kind of GPU
// and each start. a must fit.
func (n Node) Spots(a Ask) []Spot {
	if a.GPUs == 0 || a.whole() {
		return []Spot{{}}
	}
	var spots []Spot
	for i, c := range n.GPUs {
		if i > 0 && c == n.GPUs[i-1] || !n.onGPU(a, c) {
			continue
		}
		if n.Repartitions == nil {
			spots = append(spots, Spot{GPU: i})
			continue
		}
		for _, s := range n.Repartitions.Steps(c.Cut, a.Profile) {
			spots = append(spots, Spot{GPU: i, Start: s.Start})
		}
	}
	return spots
}

// anySpot draws a GPU that will do, and a start on it.
func (n Node) anySpot(a Ask, draw func(n int) int) Spot {
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
	if n.Repartitions != nil {
		steps := n.Repartitions.Steps(n.GPUs[s.GPU].Cut, a.Profile)
		s.Start = steps[draw(len(steps))].Start
	}
	return s
}

// Take returns n after a was placed at s, which must be one of n.Spots(a).
func (n Node) Take(a Ask, s Spot) Node {
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

// used is a GPU that somebody has for himself.
func (n Node) used() GPU {
	if n.Repartitions != nil {
		return GPU{Cut: n.Repartitions.full}
	}
	return GPU{}
}

// after is GPU c with a's part or instance on it.
func (n Node) after(c GPU, a Ask, start int) GPU {
	if n.Repartitions == nil {
		return GPU{Part: Part{c.Core - a.Part.Core, c.Memory - a.Part.Memory}}
	}
	for _, s := range n.Repartitions.Steps(c.Cut, a.Profile) {
		if s.Start == start {
			return GPU{Cut: s.To}
		}
	}
	return c
}

func (c GPU) compare(d GPU) int {
	return cmp.Or(cmp.Compare(c.Core, d.Core), cmp.Compare(c.Memory, d.Memory), cmp.Compare(c.Cut, d.Cut))
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
		b = binary.AppendVarint(b, int64(c.Cut))
	}
	return string(b)
}
