package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// kind is what pods have in common that are alike to the planner: it is looked
// at once for all of them.
type kind struct {
	pod   *Pod // one of them
	wants string
	eq    float64 // card equivalents
	// static remembers per class of nodes whether the pod may go there.
	static []verdictOnce
	// needs remembers per model what the demand means there.
	needs []need
	// waiting is how many of the kind nobody has served yet.
	waiting int
	// now, way and cuts are the nodes that may serve it: as they are, when they
	// have come, and with a card cut anew.
	now, way, cuts shelf
	// blocked is what stood against cutting cards when the first pod of the kind
	// could not be served; explained is set once that is known.
	blocked   blockers
	explained bool
	// fewest remembers, for its rules, the place that has the fewest.
	fewest map[Rule]fewest
	// inVain is the trial in which nothing could be taken back for it, see there.
	inVain int
	// bounded is set once a card could be cut and the round's actions are used up.
	bounded bool
}

type verdictOnce uint8 // 0 for not known yet

const (
	fits verdictOnce = iota + 1
	fitsNot
	fitsUntainted // but for its taints
)

// need is a MIG demand in one model's profiles.
type need struct {
	model  string
	ok     bool
	id     int // the same for equal counts on the same model
	counts []mig.Count
}

// kindKey tells pods apart that differ in anything placement depends on. Of the
// groups it is in, only those count that a rule asks for.
func (w *world) kindKey(p *Pod) string {
	var b strings.Builder
	d := p.Demand
	fmt.Fprintf(&b, "%d|%s|%d|%d", d.Cards, d.Vendor, p.CPUMilli, p.MemoryMi)
	for _, i := range d.MIG {
		fmt.Fprintf(&b, "|%q*%d", i.Name, i.Count)
	}
	if d.Fraction != nil {
		fmt.Fprintf(&b, "|f%d,%d,%d,%d", d.Fraction.CoreMilli, d.Fraction.MemoryMiB, d.Fraction.MemoryMilli, d.Fraction.Cards)
	}
	if len(p.NodeSelector) > 0 {
		b.WriteString("|s")
		for _, k := range sortedKeys(p.NodeSelector) {
			fmt.Fprintf(&b, "%q=%q,", k, p.NodeSelector[k])
		}
	}
	if len(p.Affinity) > 0 {
		fmt.Fprintf(&b, "|a%q", p.Affinity)
	}
	for _, o := range p.Others {
		fmt.Fprintf(&b, "|o%q=%d", o.Name, o.Amount)
	}
	for _, s := range p.Spread {
		fmt.Fprintf(&b, "|d%q,%q,%d", s.Key, s.Group, s.MaxSkew)
	}
	for _, g := range p.Groups {
		if w.ruledOn[g] {
			fmt.Fprintf(&b, "|g%q", g)
		}
	}
	if len(p.Apart)+len(p.Near) > 0 {
		fmt.Fprintf(&b, "|r%q%q", p.Apart, p.Near)
	}
	if len(p.Tolerations) > 0 {
		fmt.Fprintf(&b, "|t%q", p.Tolerations)
	}
	return b.String()
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// wantsText names a demand for people: "3g.40gb", "2 × 1g.10gb + 1 × 3g.40gb",
// "2 cards".
func wantsText(p *Pod) string {
	d := p.Demand
	var parts []string
	switch {
	case d.Cards == 1:
		parts = append(parts, "a card")
	case d.Cards > 1:
		parts = append(parts, fmt.Sprintf("%d cards", d.Cards))
	}
	for _, i := range d.MIG {
		if i.Count == 1 {
			parts = append(parts, i.Name)
			continue
		}
		parts = append(parts, fmt.Sprintf("%d × %s", i.Count, i.Name))
	}
	if d.Fraction != nil {
		parts = append(parts, "part of a card")
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, " + ")
}

// cardSlices is how many compute slices count as one card where no product's
// table is at hand.
const cardSlices = 7

// slicesOf returns a demand in compute slices of a seven-slice card.
func slicesOf(p *Pod) int {
	n := clampCount(p.Demand.Cards) * cardSlices
	for _, i := range p.Demand.MIG {
		n += clampCount(i.Count) * min(max(i.Profile.Compute, 0), cardSlices)
	}
	if f := p.Demand.Fraction; f != nil {
		n += int(math.Ceil(fractionOfCard(f)*cardSlices)) * clampCount(max(f.Cards, 1))
	}
	return n
}

// clampCount keeps nonsense from overflowing; no pod asks for more.
func clampCount(n int) int { return min(max(n, 0), 1<<20) }

// referenceMemoryMiB is the card a memory fraction is measured against where
// only memory is stated and no card is at hand.
const referenceMemoryMiB = 80 * 1024

func fractionOfCard(f *demand.Fraction) float64 { return fractionOf(f, referenceMemoryMiB) }

// fractionOf is the larger of a fraction's shares of a card with so much memory, 1
// at most.
func fractionOf(f *demand.Fraction, cardMiB int) float64 {
	core := float64(max(f.CoreMilli, f.MemoryMilli, 1)) / 1000
	memory := float64(max(f.MemoryMiB, 0)) / float64(cardMiB)
	return min(max(core, memory), 1)
}

// waiting is what a pod's waiting costs: card equivalents × hours × the policy's
// price, more for urgent pods.
func (w *world) waiting(k *kind, priority int32, d time.Duration) float64 {
	return w.policy.WaitCostPerHour * k.eq * urgency(priority) * max(d, 0).Hours()
}

// urgency weighs costs by priority: a tenfold priority adds a third.
func urgency(priority int32) float64 { return 1 + math.Log10(1+float64(max(priority, 0)))/3 }

// sameAge is how close pods that begin to wait must be to count as equally old.
// A burst is then taken largest first, which fills what is bought for it best.
const sameAge = time.Minute

// orderPending sorts the most urgent first: priority, then age to the minute,
// then size, then age and name.
func orderPending(pods []*Pod) {
	type keyed struct {
		*Pod
		slices int
		minute int64
	}
	all := make([]keyed, len(pods))
	for i, p := range pods {
		all[i] = keyed{p, slicesOf(p), p.PendingSince.Truncate(sameAge).UnixNano()}
	}
	slices.SortFunc(all, func(a, b keyed) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.minute, b.minute), cmp.Compare(b.slices, a.slices),
			a.PendingSince.Compare(b.PendingSince), byKey(a.Pod, b.Pod))
	})
	for i := range all {
		pods[i] = all[i].Pod
	}
}
