package scenario

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/plan"
)

func readPolicy(r *reader, p *plan.Policy) {
	thaw := false
	r.flag("freeze", &p.Freeze)
	if r.flag("thaw", &thaw); thaw {
		p.Freeze = false
	}
	r.int("max-actions", &p.MaxActionsPerRound)
	r.int("max-nodes", &p.MaxNodesPerScaleUp)
	r.int("max-removals", &p.MaxRemovalsPerRound)
	r.duration("scale-down-cooldown", &p.ScaleDownCooldown)
	r.duration("repartition-cooldown", &p.RepartitionCooldown)
	r.duration("repartition-timeout", &p.RepartitionTimeout)
	r.float("max-unready", &p.MaxUnready)
	r.int("ok-unready", &p.OKUnready)
	r.float("wait-cost", &p.WaitCostPerHour)
	r.float("disruption-cost", &p.DisruptionCost)
	r.duration("node-life", &p.NodeLife)
	r.duration("node-overdue", &p.NodeOverdue)
	r.duration("repartition-life", &p.RepartitionLife)
}

// PrintPolicy writes a policy as one policy line.
func PrintPolicy(p plan.Policy) string {
	var b strings.Builder
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	b.WriteString("policy")
	if p.Freeze {
		b.WriteString(" freeze")
	} else {
		b.WriteString(" thaw")
	}
	fmt.Fprintf(&b, " max-actions=%d max-nodes=%d max-removals=%d", p.MaxActionsPerRound, p.MaxNodesPerScaleUp, p.MaxRemovalsPerRound)
	fmt.Fprintf(&b, " max-unready=%s ok-unready=%d wait-cost=%s disruption-cost=%s", number(p.MaxUnready), p.OKUnready, number(p.WaitCostPerHour), number(p.DisruptionCost))
	fmt.Fprintf(&b, "\n  scale-down-cooldown=%s repartition-cooldown=%s repartition-timeout=%s",
		durationText(p.ScaleDownCooldown), durationText(p.RepartitionCooldown), durationText(p.RepartitionTimeout))
	fmt.Fprintf(&b, "\n  node-life=%s node-overdue=%s repartition-life=%s\n",
		durationText(p.NodeLife), durationText(p.NodeOverdue), durationText(p.RepartitionLife))
	return b.String()
}
