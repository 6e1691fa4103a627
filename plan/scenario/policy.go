package scenario

import (
	"cmp"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/plan"
)

func policyFields(x *fields, p *plan.Policy) {
	x.either("freeze", "thaw", &p.Freeze, false)
	x.int("max-actions", &p.MaxActionsPerReconcile)
	x.int("max-nodes", &p.MaxNodesPerScaleUp)
	x.int("max-nodes-per-hour", &p.MaxNodesPerHour)
	x.int("max-removals", &p.MaxRemovalsPerReconcile)
	x.float("max-removal-share", &p.MaxRemovalShare)
	x.int("max-removals-per-ten-minutes", &p.MaxRemovalsPerTenMinutes)
	x.duration("removal-interval", &p.RemovalInterval)
	x.either("soft-taints", "no-soft-taints", &p.SoftTaints, false)
	x.duration("scale-down-cooldown", &p.ScaleDownCooldown)
	x.duration("repartition-cooldown", &p.RepartitionCooldown)
	x.duration("repartition-timeout", &p.RepartitionTimeout)
	x.float("max-unready", &p.MaxUnready)
	x.int("ok-unready", &p.OKUnready)
	x.float("max-idle-at-once", &p.MaxIdleAtOnce)
	x.int("ok-idle", &p.OKIdle)
	x.duration("idle-hold", &p.IdleHold)
	x.float("wait-cost", &p.WaitCostPerHour)
	x.float("disruption-cost", &p.DisruptionCost)
	x.duration("node-life", &p.NodeLife)
	x.duration("node-overdue", &p.NodeOverdue)
	x.either("scale-up-borrowed", "no-scale-up-borrowed", &p.ScaleUpBorrowed, false)
	x.either("reclaim-borrowed", "no-reclaim-borrowed", &p.ReclaimBorrowed, false)
	x.int("max-evictions", &p.MaxEvictionsPerReconcile)
	x.float("eviction-cost", &p.EvictionCost)
	x.either("skip-nodes-with-local-storage", "drain-local-storage", &p.SkipNodesWithLocalStorage, false)
	x.int("expendable-cutoff", &p.ExpendablePodsPriorityCutoff)
	x.either("balance", "no-balance", &p.BalanceSimilarNodeGroups, false)
	x.int("max-drains", &p.MaxDrains)
	x.duration("drain-timeout", &p.DrainTimeout)
	x.duration("drain-cooldown", &p.DrainCooldown)
	headroom := cmp.Or(p.Headroom, plan.HeadroomNone)
	if oneOf(x, "headroom", &headroom, false, plan.HeadroomNone, plan.HeadroomLow, plan.HeadroomExpected, plan.HeadroomHigh) {
		p.Headroom = headroom
	}
	x.float("headroom-weight", &p.HeadroomWeight)
	x.duration("sick-after", &p.SickAfter)
	x.duration("replace-interval", &p.ReplaceInterval)
	x.float("max-sick-share", &p.MaxSickShare)
}

// lineLength is about how long the lines of a printed policy are.
const lineLength = 110

// PrintPolicy writes a policy, all of it, as one policy line.
func PrintPolicy(p plan.Policy) string {
	var b strings.Builder
	line := "policy"
	for _, word := range strings.Fields(written(time.Time{}, func(x *fields) { x.all = true; policyFields(x, &p) })) {
		if len(line)+len(word) > lineLength {
			b.WriteString(line + "\n")
			line = " "
		}
		line += " " + word
	}
	return b.String() + line + "\n"
}
