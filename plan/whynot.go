package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// reasonRank orders the reasons why no pool adds a node: the nearest to adding
// one first.
var reasonRank = []Reason{BoundReached, CapacityKept, AllocationUnknown, PoolAtMax, BackingOff, Frozen, TooManyUnready, PoolFixed, NoPoolFits}

// whyNoScaleUp is the reason of the pools that came nearest to adding a node. Beside
// pools at their maximum it names those that back off or are frozen, and those that
// only topology rules exclude. It is empty where a pool can add one.
func (w *world) whyNoScaleUp(p *pending) (Reason, string) {
	best, detail, beside := len(reasonRank), []string{}, []string(nil)
	for _, ps := range w.pools {
		reason, why := w.cannotScaleUp(p, ps)
		if reason == "" {
			return "", ""
		}
		if reason == BackingOff || reason == Frozen || strings.HasSuffix(why, excludedByRules) {
			beside = append(beside, why)
		}
		rank := slices.Index(reasonRank, reason) // which has all of cannotScaleUp's
		if rank < best {
			best, detail = rank, nil
		}
		if rank == best {
			detail = append(detail, strings.TrimSuffix(why, ": "))
		}
	}
	if best == len(reasonRank) {
		return NoPoolFits, "there is no pool"
	}
	if reasonRank[best] == PoolAtMax {
		detail = append(beside[:min(len(beside), 2)], detail...)
	}
	return reasonRank[best], strings.Join(detail[:min(len(detail), 3)], "; ")
}

// excludedByRules is why a pod may not be in a place: its own topology rules exclude it, or
// those of other pods.
const excludedByRules = "pod affinity or topology spread excludes it"

const cannotReclaim = "reclaiming borrowed capacity would not free enough for it, or is not allowed"

// unserved is the reason of a pod that nothing serves.
func (w *world) unserved(p *pending) (Reason, string) {
	reason, detail := w.whyNoScaleUp(p)
	switch bound := w.actions.evictionBound(1); {
	case !w.policy.mayScaleUp(p) && reason != NoPoolFits: // what no pool has gives its quota back
		t := &w.quotas.tenants[w.quotas.tenantIndex(p.pod)]
		reason = BorrowedWaits
		detail = fmt.Sprintf("%s is guaranteed %s, and no node is added for borrowed demand", t.Name, t.Guarantee)
	case bound != "" && p.charged && !p.borrowed && w.evictions.reclaimable() && w.policy.MaxEvictionsPerReconcile > 0:
		reason, detail = BoundReached, bound+"; "+detail
	case p.charged && !p.borrowed && w.evictions.reclaimable():
		detail += "; " + cannotReclaim
	}
	if !p.kind.explained {
		p.kind.blocked, p.kind.ruledOut, p.kind.explained = w.blockersOf(p), w.ruledOut(p.kind), true
	}
	if p.kind.ruledOut != "" {
		detail += "; " + p.kind.ruledOut
	}
	if len(p.kind.blocked) > 0 {
		detail += "; no GPU can be repartitioned: " + p.kind.blocked.String()
		if reason == NoPoolFits {
			reason = RepartitionExhausted
		}
	}
	return reason, detail
}

// ruledOut names a node that has free GPUs for the kind, and what else keeps the kind from it; empty for none. It names
// a cordoned or unready node only where there is no other.
func (w *world) ruledOut(k *kind) string {
	outOfService := ""
	for _, n := range w.eachNode() {
		gpus := n.capacity
		gpus.ports, gpus.cpu, gpus.memory, gpus.pods = nil, unstated, unstated, unstated
		_, tainted := untolerated(k.pod, n.Taints)
		if n.virtual || tainted || k.judgeOn(n) == fitsNot || w.models.lacks(k, &gpus) != "" {
			continue
		}
		text := "GPUs are free on " + n.name + ", "
		switch why := w.keepsOut(k, n); {
		case why == "":
		case n.tier == tierNow:
			return text + why
		case outOfService == "" && (n.since == NodeCordoned || n.since == NodeUnready):
			outOfService = text + why
		}
	}
	return outOfService
}

// alternativeText names the node that an action was weighed against.
func (w *world) alternativeText(p *pending, all []option) string {
	if node, ok := optionOf(all, OptionNode); ok {
		return fmt.Sprintf(", a node costs %.2f", node.cost)
	}
	reason, _ := w.whyNoScaleUp(p)
	if !w.policy.mayScaleUp(p) {
		reason = BorrowedWaits
	}
	return fmt.Sprintf("; no node can be added (%s)", reason)
}

// blocker is what prevents the repartition of a GPU, empty for nothing.
type blocker string

const (
	blockAllocated   blocker = "allocated"
	blockIdle        blocker = "with an unknown idle time"
	blockUnknown     blocker = "with unknown allocation"
	blockSick        blocker = "sick"
	blockRepartition blocker = "being repartitioned"
	blockBusyNode    blocker = "on a node that is not in service"
	blockPromised    blocker = "about to be used"
	blockCapacity    blocker = "on a node without free capacity"
	blockLayout      blocker = "without a layout for it"
	blockFrozen      blocker = "in a frozen pool"
)

// causes counts nodes or GPUs by what is in the way, with one example of each.
type causes []cause

type cause struct {
	why, example string
	n            int
}

func (c *causes) add(more cause) {
	i := slices.IndexFunc(*c, func(one cause) bool { return one.why == more.why })
	if i < 0 {
		*c = append(*c, more)
		return
	}
	(*c)[i].n += more.n
}

// maxCauses bounds the causes that a text lists.
const maxCauses = 6

// String is "3 allocated (n1/0 …), 1 sick (n2/0)", the most frequent first.
func (c causes) String() string {
	all := slices.Clone(c)
	slices.SortStableFunc(all, func(a, b cause) int { return cmp.Compare(b.n, a.n) })
	var parts []string
	for _, one := range all[:min(len(all), maxCauses)] {
		more := ""
		if one.n > 1 {
			more = " …"
		}
		parts = append(parts, fmt.Sprintf("%d %s (%s%s)", one.n, one.why, one.example, more))
	}
	if len(all) > maxCauses {
		parts = append(parts, "others")
	}
	return strings.Join(parts, ", ")
}
