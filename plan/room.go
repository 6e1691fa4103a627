package plan

import (
	"math"
	"slices"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// room is what a node has left for pods, counted as the scheduler counts: by
// resource, not by place.
type room struct {
	cpu, memory int64
	vendor      string      // of the whole cards
	whole       int         // whole cards, or equal instances under the single strategy
	cardMiB     int         // memory of one whole card, 0 for not known
	parts       []part      // cards that are shared by fractions
	model       string      // of the MIG cards, empty for none
	free        []mig.Count // instances by profile
}

// part is what is left of a shared card.
type part struct{ core, memory int }

// unstated stands for CPU or memory that nobody stated: it limits nothing.
const unstated = math.MaxInt64 / 4

func stated(v int64) int64 {
	if v <= 0 {
		return unstated
	}
	return v
}

// strategySingle is the GFD label of nodes whose MIG devices are advertised as
// plain cards.
const strategySingle = "nvidia.com/mig.strategy"

// supply adds a card's whole capacity, held or not. layout is the card's
// instances, which differ from card.Instances while it is being cut.
func (r *room) supply(card *Card, layout mig.Layout, single bool) {
	switch {
	case card.Health == gpu.Sick:
	case !card.MIG:
		r.addWhole(card, 1)
	case single:
		r.addWhole(card, len(layout))
	case r.model == "" || r.model == card.Model.Name:
		r.model = card.Model.Name
		for _, p := range layout {
			r.free = added(r.free, p.Profile, 1)
		}
	}
}

func (r *room) addWhole(card *Card, n int) {
	if r.vendor == "" {
		r.vendor, r.cardMiB = card.Model.Vendor, card.Model.MemoryMiB
	}
	if r.vendor == card.Model.Vendor {
		r.whole += n
	}
}

// lacks names the first thing that keeps a pod of the kind out: "cpu",
// "memory", "cards", "slices", "part of a card"; empty when it fits.
func (w *world) lacks(k *kind, r *room) string {
	p := k.pod
	switch {
	case p.CPUMilli > r.cpu:
		return "cpu"
	case p.MemoryMi > r.memory:
		return "memory"
	case p.Demand.Cards > 0 && (r.whole < p.Demand.Cards || !sameVendor(p.Demand.Vendor, r.vendor)):
		return "cards"
	case p.Demand.Fraction != nil && !r.hasPart(p):
		return "part of a card"
	case len(p.Demand.MIG) > 0 && !w.hasSlices(k, r):
		return "slices"
	}
	return ""
}

func sameVendor(want, have string) bool { return want == "" || have == "" || want == have }

func (w *world) hasSlices(k *kind, r *room) bool {
	need, ok := w.needOf(k, r.model)
	if !ok {
		return false
	}
	for _, c := range need {
		if countOf(r.free, c.Profile) < c.N {
			return false
		}
	}
	return true
}

// take gives a pod of the kind its share; what is not there goes below zero,
// which only a running pod can bring about.
func (w *world) take(k *kind, r *room) {
	p := k.pod
	r.cpu -= max(p.CPUMilli, 0)
	r.memory -= max(p.MemoryMi, 0)
	if p.Demand.Cards > 0 && sameVendor(p.Demand.Vendor, r.vendor) {
		r.whole -= clampCount(p.Demand.Cards)
	}
	if p.Demand.Fraction != nil {
		r.takePart(p)
	}
	need, _ := w.needOf(k, r.model)
	for _, c := range need {
		r.free = added(r.free, c.Profile, -c.N)
	}
}

func (r *room) hasPart(p *Pod) bool {
	return r.partFor(p) >= 0 || r.whole-clampCount(p.Demand.Cards) > 0
}

// partFor returns the tightest shared card that has room, -1 for none.
func (r *room) partFor(p *Pod) int {
	f, best := p.Demand.Fraction, -1
	for i, s := range r.parts {
		if s.core >= f.CoreMilli && s.memory >= f.MemoryMiB && (best < 0 || s.core < r.parts[best].core) {
			best = i
		}
	}
	return best
}

func (r *room) takePart(p *Pod) {
	i := r.partFor(p)
	if i < 0 {
		memory := r.cardMiB
		if memory <= 0 {
			memory = math.MaxInt32
		}
		r.whole--
		r.parts = append(r.parts, part{core: 1000, memory: memory})
		i = len(r.parts) - 1
	}
	r.parts[i].core -= max(p.Demand.Fraction.CoreMilli, 0)
	r.parts[i].memory -= max(p.Demand.Fraction.MemoryMiB, 0)
}

// left is the room in compute slices, to tell the tighter of two nodes.
func (r *room) left() int {
	n := r.whole * cardSlices
	for _, c := range r.free {
		n += max(c.N, 0) * c.Profile.Compute
	}
	return n
}

func (r room) clone() room {
	r.parts, r.free = slices.Clone(r.parts), slices.Clone(r.free)
	return r
}

func countOf(cs []mig.Count, p mig.Profile) int {
	for _, c := range cs {
		if c.Profile == p {
			return c.N
		}
	}
	return 0
}

// added changes a count in place; a new profile goes to the end.
func added(cs []mig.Count, p mig.Profile, n int) []mig.Count {
	for i := range cs {
		if cs[i].Profile == p {
			cs[i].N += n
			return cs
		}
	}
	return append(cs, mig.Count{Profile: p, N: n})
}
