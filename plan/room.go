package plan

import (
	"math"
	"slices"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
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
	others      []Resource  // shared with the node until something is taken
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

// supply adds a card's whole capacity, held or not.
func (r *room) supply(card *Card, single bool) {
	switch {
	case card.Health == gpu.Sick:
	case !card.MIG:
		r.addWhole(card, 1)
	case single:
		r.addWhole(card, len(card.Instances))
	case r.model == "" || r.model == card.Model.Name:
		r.model = card.Model.Name
		for i := range card.Instances {
			r.free = added(r.free, card.Instances[i].Profile, 1)
		}
	}
}

// supplyCut adds a card that is being cut, with what it will have.
func (r *room) supplyCut(card *Card, target mig.Layout, single bool) {
	cut := *card
	cut.Instances = make([]Instance, len(target))
	for i, p := range target {
		cut.Instances[i].Placement = p
	}
	r.supply(&cut, single)
}

func (r *room) addWhole(card *Card, n int) {
	if r.vendor == "" {
		r.vendor, r.cardMiB = card.Model.Vendor, card.Model.MemoryMiB
	}
	if r.vendor == card.Model.Vendor {
		r.whole += n
	}
}

// partOfCard is what a node lacks that has cards, and not enough of them.
const partOfCard = "part of a card"

// lacks names the first thing that keeps a pod of the kind out: "cpu", "memory",
// "cards", partOfCard, another resource by its name, and last "slices", which
// cutting a card can mend; empty when it fits.
func (w *world) lacks(k *kind, r *room) string {
	p := k.pod
	switch {
	case p.CPUMilli > r.cpu:
		return "cpu"
	case p.MemoryMi > r.memory:
		return "memory"
	case p.Demand.Cards > 0 && (r.whole < p.Demand.Cards || !sameVendor(p.Demand.Vendor, r.vendor)):
		return "cards"
	case p.Demand.Fraction != nil && !r.hasParts(p):
		return partOfCard
	}
	if other := r.lacksOther(p.Others); other != "" {
		return other
	}
	if len(p.Demand.MIG) > 0 && !w.hasSlices(k, r) {
		return "slices"
	}
	return ""
}

// lacksOther names the first resource of which there is too little.
func (r *room) lacksOther(want []Resource) string {
	for _, o := range want {
		i := slices.IndexFunc(r.others, func(have Resource) bool { return have.Name == o.Name })
		if o.Amount > 0 && (i < 0 || r.others[i].Amount < o.Amount) {
			return o.Name
		}
	}
	return ""
}

// takeOthers takes by times what a pod wants: 1 to take, -1 to put back.
func (r *room) takeOthers(want []Resource, times int64) {
	if len(want) == 0 {
		return
	}
	r.others = slices.Clone(r.others)
	for _, o := range want {
		for i := range r.others {
			if r.others[i].Name == o.Name {
				r.others[i].Amount -= times * max(min(o.Amount, unstated), 0)
			}
		}
	}
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
	need, _ := w.needOf(k, r.model)
	for _, c := range need {
		r.free = added(r.free, c.Profile, -c.N)
	}
	r.takePlain(k.pod)
}

// takeRunning does the same for a pod that runs.
func (w *world) takeRunning(p *Pod, r *room) {
	for i := range p.Demand.MIG {
		in := &p.Demand.MIG[i]
		if profile, ok := w.profile(r.model, in.Name); ok {
			r.free = added(r.free, profile, -clampCount(in.Count))
		}
	}
	r.takePlain(p)
}

// putBack takes a running pod's share off again, as if it had left. Parts of
// cards stay taken: whose they are is not known.
func (w *world) putBack(p *Pod, r *room) {
	for i := range p.Demand.MIG {
		in := &p.Demand.MIG[i]
		if profile, ok := w.profile(r.model, in.Name); ok {
			r.free = added(r.free, profile, clampCount(in.Count))
		}
	}
	r.cpu += max(p.CPUMilli, 0)
	r.memory += max(p.MemoryMi, 0)
	r.takeOthers(p.Others, -1)
	if p.Demand.Cards > 0 && sameVendor(p.Demand.Vendor, r.vendor) {
		r.whole += clampCount(p.Demand.Cards)
	}
}

func (r *room) takePlain(p *Pod) {
	r.cpu -= max(p.CPUMilli, 0)
	r.memory -= max(p.MemoryMi, 0)
	r.takeOthers(p.Others, 1)
	if p.Demand.Cards > 0 && sameVendor(p.Demand.Vendor, r.vendor) {
		r.whole -= clampCount(p.Demand.Cards)
	}
	if p.Demand.Fraction != nil {
		r.takeParts(p.Demand.Fraction)
	}
}

// hasParts reports whether a fraction finds as many different cards as it wants,
// shared ones or whole ones that the pod does not take besides.
func (r *room) hasParts(p *Pod) bool {
	need := r.partOf(p.Demand.Fraction)
	if need.core > 1000 || need.memory > r.partMemory() || !sameVendor(p.Demand.Vendor, r.vendor) || r.unmeasured(p) {
		return false
	}
	left := clampCount(max(p.Demand.Fraction.Cards, 1)) - max(r.whole-clampCount(p.Demand.Cards), 0)
	for _, s := range r.parts {
		if left <= 0 {
			break
		}
		if s.core >= need.core && s.memory >= need.memory {
			left--
		}
	}
	return left <= 0
}

// unmeasured reports a pod that asks for MiB of cards of which nobody knows how many
// they have: however many such pods were put on one, it would never be full.
func (r *room) unmeasured(p *Pod) bool {
	return p.Demand.Fraction != nil && p.Demand.Fraction.MemoryMiB > 0 && r.cardMiB <= 0
}

// partOf is a fraction in a card's thousandths and MiB.
func (r *room) partOf(f *demand.Fraction) part {
	share := int64(r.partMemory()) * int64(max(min(f.MemoryMilli, 1000), 0))
	return part{core: max(f.CoreMilli, 0), memory: max(f.MemoryMiB, 0, int((share+999)/1000))}
}

// partMemory is a card's memory. Where it is not known it is a number to take shares
// of, and what runs already is believed to fit.
func (r *room) partMemory() int {
	if r.cardMiB > 0 {
		return r.cardMiB
	}
	return math.MaxInt32
}

// takeParts takes the tightest shared cards that have room, and opens whole ones
// for what is left.
func (r *room) takeParts(f *demand.Fraction) {
	need := r.partOf(f)
	var used []int
	for range min(clampCount(max(f.Cards, 1)), maxCardsOfNode) {
		i := r.partFor(need, used)
		if i < 0 {
			r.whole--
			r.parts = append(r.parts, part{core: 1000, memory: r.partMemory()})
			i = len(r.parts) - 1
		}
		r.parts[i].core -= need.core
		r.parts[i].memory -= need.memory
		used = append(used, i)
	}
}

// maxCardsOfNode bounds nonsense.
const maxCardsOfNode = 1024

// partFor returns the tightest shared card that has room and is none of those
// used, -1 for none.
func (r *room) partFor(need part, used []int) int {
	best := -1
	for i, s := range r.parts {
		if s.core < need.core || s.memory < need.memory || slices.Contains(used, i) {
			continue
		}
		if best < 0 || s.core < r.parts[best].core || s.core == r.parts[best].core && s.memory < r.parts[best].memory {
			best = i
		}
	}
	return best
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
