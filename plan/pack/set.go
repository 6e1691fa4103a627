package pack

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// beam is how many ways to fill the cards so far Pack keeps open. One would do
// for most sets; the rest is for those where filling one card to the brim leaves
// instances that do not go together.
const beam = 32

// Pack puts a known set of instances on cards, given by their states, so that
// the most compute slices are served. It returns the placements for each card, in
// the order of cards. One card is packed exactly; several one after the other, with
// the best few ways kept open: compare TestPackGap. Equal questions have equal
// answers.
func (c *Cuts) Pack(cards []int, demand []mig.Count) [][]mig.Placement {
	open := []packing{{left: c.counts(demand)}}
	order := make([]int, len(cards))
	for i := range order {
		order[i] = i
	}
	// The fuller a card, the fewer ways there are to use it.
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(c.Free(cards[i]), c.Free(cards[j])) })
	for _, i := range order {
		seen := map[string]packing{}
		for _, p := range open {
			for key, next := range c.fills(cards[i], p) {
				if _, known := seen[key]; !known {
					seen[key] = next
				}
			}
		}
		open = slices.SortedFunc(maps.Values(seen), packing.compare)
		open = open[:min(beam, len(open))]
	}
	out := make([][]mig.Placement, len(cards))
	for k, i := range order {
		out[i] = open[0].fills[k]
	}
	return out
}

// packing is one way to fill the cards so far.
type packing struct {
	left   []int // instances still wanted, by profile
	served int   // compute slices
	fills  [][]mig.Placement
}

// compare puts what serves more first, then what leaves the smaller instances
// for the cards to come, then any fixed order.
func (p packing) compare(q packing) int {
	if p.served != q.served {
		return q.served - p.served
	}
	for k := len(p.left) - 1; k >= 0; k-- {
		if p.left[k] != q.left[k] {
			return p.left[k] - q.left[k]
		}
	}
	return 0
}

// counts of demand by profile. What the card does not have is not served.
func (c *Cuts) counts(demand []mig.Count) []int {
	out := make([]int, len(c.profiles))
	for _, d := range demand {
		if k, ok := c.index[d.Profile]; ok {
			out[k] += max(0, d.N)
		}
	}
	return out
}

// fills returns p with one card more, in every way to which nothing that is
// wanted can be added, by what they leave wanted.
func (c *Cuts) fills(state int, p packing) map[string]packing {
	f := filler{cuts: c, left: slices.Clone(p.left), seen: map[string]bool{}, out: map[string]packing{}, from: p}
	f.extend(state)
	return f.out
}

type filler struct {
	cuts *Cuts
	from packing
	left []int
	now  []mig.Placement
	seen map[string]bool
	out  map[string]packing
}

// extend adds one instance in every way. States that were reached with the same
// instances already are not looked at again.
func (f *filler) extend(state int) {
	left := key(f.left)
	at := string(binary.AppendVarint([]byte(left), int64(state)))
	if f.seen[at] {
		return
	}
	f.seen[at] = true
	full := true
	for k := len(f.left) - 1; k >= 0; k-- {
		if f.left[k] == 0 {
			continue
		}
		for _, step := range f.cuts.states[state].steps[k] {
			full = false
			f.left[k]--
			f.now = append(f.now, mig.Placement{Profile: f.cuts.profiles[k], Start: step.Start})
			f.extend(step.To)
			f.now = f.now[:len(f.now)-1]
			f.left[k]++
		}
	}
	if _, known := f.out[left]; full && !known {
		next := packing{left: slices.Clone(f.left), served: f.from.served, fills: slices.Clone(f.from.fills)}
		for _, p := range f.now {
			next.served += p.Profile.Compute
		}
		next.fills = append(next.fills, mig.NewLayout(f.now...))
		f.out[left] = next
	}
}

// key is equal for equal counts.
func key(counts []int) string {
	var b []byte
	for _, n := range counts {
		b = binary.AppendVarint(b, int64(n))
	}
	return string(b)
}
