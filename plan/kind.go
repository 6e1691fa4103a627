package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

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
	// noneNow is set once nothing usable now fits, scan is the first node on its
	// way that may: capacity only shrinks, but for what the plan itself adds.
	noneNow bool
	scan    int
	// cutFrom is the first node with cards that may be cut for the kind, blocked
	// what stands against those before it.
	cutFrom int
	blocked blockers
	// bounded is set once a card could be cut and the round's actions are used up.
	bounded bool
}

type verdictOnce uint8 // 0 unknown, 1 fits, 2 does not

// need is a MIG demand in one model's profiles.
type need struct {
	model  string
	ok     bool
	counts []mig.Count
}

// kindKey tells pods apart that differ in anything placement depends on.
func kindKey(p *Pod) string {
	var b strings.Builder
	d := p.Demand
	fmt.Fprintf(&b, "%d|%s|%d|%d", d.Cards, d.Vendor, p.CPUMilli, p.MemoryMi)
	for _, i := range d.MIG {
		fmt.Fprintf(&b, "|%q*%d", i.Name, i.Count)
	}
	if d.Fraction != nil {
		fmt.Fprintf(&b, "|f%d,%d", d.Fraction.CoreMilli, d.Fraction.MemoryMiB)
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
		n += int(math.Ceil(fractionOfCard(f.CoreMilli, f.MemoryMiB) * cardSlices))
	}
	return n
}

// clampCount keeps nonsense from overflowing; no pod asks for more.
func clampCount(n int) int { return min(max(n, 0), 1<<20) }

// referenceMemoryMiB is the card a memory fraction is measured against where
// only memory is stated and no card is at hand.
const referenceMemoryMiB = 80 * 1024

func fractionOfCard(coreMilli, memoryMiB int) float64 {
	core := float64(max(coreMilli, 0)) / 1000
	memory := float64(max(memoryMiB, 0)) / referenceMemoryMiB
	return min(max(core, memory), 1)
}

// waiting is what a pod's waiting costs: card equivalents × hours × the policy's
// price, more for urgent pods: a tenfold priority adds a third.
func (w *world) waiting(k *kind, priority int32, d time.Duration) float64 {
	weight := 1 + math.Log10(1+float64(max(priority, 0)))/3
	return w.policy.WaitCostPerHour * k.eq * weight * max(d, 0).Hours()
}

// orderPending sorts the most urgent first: priority, then age, then name.
func orderPending(pods []*Pod) {
	slices.SortFunc(pods, func(a, b *Pod) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.PendingSince.Compare(b.PendingSince),
			strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}
