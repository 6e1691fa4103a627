package scenario

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gpuscale/gpuscale/plan"
)

func readPolicy(r *reader, p *plan.Policy) {
	r.flag("freeze", &p.Freeze)
	r.off("thaw", &p.Freeze)
	r.int("max-actions", &p.MaxActionsPerReconcile)
	r.int("max-nodes", &p.MaxNodesPerScaleUp)
	r.int("max-nodes-per-hour", &p.MaxNodesPerHour)
	r.int("max-removals", &p.MaxRemovalsPerReconcile)
	r.float("max-removal-share", &p.MaxRemovalShare)
	r.int("max-removals-per-ten-minutes", &p.MaxRemovalsPerTenMinutes)
	r.duration("removal-interval", &p.RemovalInterval)
	r.flag("soft-taints", &p.SoftTaints)
	r.off("no-soft-taints", &p.SoftTaints)
	r.duration("scale-down-cooldown", &p.ScaleDownCooldown)
	r.duration("repartition-cooldown", &p.RepartitionCooldown)
	r.duration("repartition-timeout", &p.RepartitionTimeout)
	r.float("max-unready", &p.MaxUnready)
	r.int("ok-unready", &p.OKUnready)
	r.float("max-idle-at-once", &p.MaxIdleAtOnce)
	r.int("ok-idle", &p.OKIdle)
	r.duration("idle-hold", &p.IdleHold)
	r.float("wait-cost", &p.WaitCostPerHour)
	r.float("disruption-cost", &p.DisruptionCost)
	r.duration("node-life", &p.NodeLife)
	r.duration("node-overdue", &p.NodeOverdue)
	r.flag("scale-up-borrowed", &p.ScaleUpBorrowed)
	r.off("no-scale-up-borrowed", &p.ScaleUpBorrowed)
	r.flag("reclaim-borrowed", &p.ReclaimBorrowed)
	r.off("no-reclaim-borrowed", &p.ReclaimBorrowed)
	r.int("max-evictions", &p.MaxEvictionsPerReconcile)
	r.float("eviction-cost", &p.EvictionCost)
	r.flag("skip-nodes-with-local-storage", &p.SkipNodesWithLocalStorage)
	r.off("drain-local-storage", &p.SkipNodesWithLocalStorage)
	r.int("expendable-cutoff", &p.ExpendablePodsPriorityCutoff)
	r.flag("balance", &p.BalanceSimilarNodeGroups)
	r.off("no-balance", &p.BalanceSimilarNodeGroups)
	r.int("max-drains", &p.MaxDrains)
	r.duration("drain-timeout", &p.DrainTimeout)
	r.duration("drain-cooldown", &p.DrainCooldown)
	r.text("headroom", func(s string) error {
		switch h := plan.Headroom(s); h {
		case plan.HeadroomNone, plan.HeadroomLow, plan.HeadroomExpected, plan.HeadroomHigh:
			p.Headroom = h
			return nil
		}
		return fmt.Errorf("want none, low, expected or high: %q", s)
	})
	r.float("headroom-weight", &p.HeadroomWeight)
	r.duration("sick-after", &p.SickAfter)
	r.duration("replace-interval", &p.ReplaceInterval)
	r.float("max-sick-share", &p.MaxSickShare)
}

// PrintPolicy writes a policy, all of it, as one policy line.
func PrintPolicy(p plan.Policy) string {
	var b strings.Builder
	word := func(v bool, yes, no string) string {
		if v {
			return yes
		}
		return no
	}
	fmt.Fprintf(&b, "policy %s max-actions=%d max-nodes=%d max-removals=%d", word(p.Freeze, "freeze", "thaw"),
		p.MaxActionsPerReconcile, p.MaxNodesPerScaleUp, p.MaxRemovalsPerReconcile)
	b.WriteString(" " + word(p.SoftTaints, "soft-taints", "no-soft-taints"))
	fmt.Fprintf(&b, " max-unready=%s ok-unready=%d wait-cost=%s disruption-cost=%s",
		number(p.MaxUnready), p.OKUnready, number(p.WaitCostPerHour), number(p.DisruptionCost))
	fmt.Fprintf(&b, "\n  scale-down-cooldown=%s repartition-cooldown=%s repartition-timeout=%s",
		durationText(p.ScaleDownCooldown), durationText(p.RepartitionCooldown), durationText(p.RepartitionTimeout))
	fmt.Fprintf(&b, "\n  node-life=%s node-overdue=%s",
		durationText(p.NodeLife), durationText(p.NodeOverdue))
	fmt.Fprintf(&b, "\n  max-nodes-per-hour=%d max-removal-share=%s removal-interval=%s max-removals-per-ten-minutes=%d",
		p.MaxNodesPerHour, number(p.MaxRemovalShare), durationText(p.RemovalInterval), p.MaxRemovalsPerTenMinutes)
	fmt.Fprintf(&b, "\n  max-idle-at-once=%s ok-idle=%d idle-hold=%s", number(p.MaxIdleAtOnce), p.OKIdle, durationText(p.IdleHold))
	fmt.Fprintf(&b, "\n  %s %s max-evictions=%d eviction-cost=%s", word(p.ScaleUpBorrowed, "scale-up-borrowed", "no-scale-up-borrowed"),
		word(p.ReclaimBorrowed, "reclaim-borrowed", "no-reclaim-borrowed"),
		p.MaxEvictionsPerReconcile, number(p.EvictionCost))
	fmt.Fprintf(&b, "\n  %s", word(p.SkipNodesWithLocalStorage, "skip-nodes-with-local-storage", "drain-local-storage"))
	fmt.Fprintf(&b, " expendable-cutoff=%d %s", p.ExpendablePodsPriorityCutoff, word(p.BalanceSimilarNodeGroups, "balance", "no-balance"))
	fmt.Fprintf(&b, " max-drains=%d drain-timeout=%s drain-cooldown=%s",
		p.MaxDrains, durationText(p.DrainTimeout), durationText(p.DrainCooldown))
	fmt.Fprintf(&b, "\n  headroom=%s headroom-weight=%s", cmp.Or(p.Headroom, plan.HeadroomNone), number(p.HeadroomWeight))
	fmt.Fprintf(&b, " sick-after=%s replace-interval=%s max-sick-share=%s\n",
		durationText(p.SickAfter), durationText(p.ReplaceInterval), number(p.MaxSickShare))
	return b.String()
}
