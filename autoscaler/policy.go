package main

import (
	"errors"
	"fmt"
	"math"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/plan"
)

// Plan returns the planner's policy.
func (c PolicyConfig) Plan() plan.Policy {
	return plan.Policy{
		Freeze: c.Freeze, MaxActionsPerRound: c.MaxActionsPerRound, MaxNodesPerScaleUp: c.MaxNodesPerScaleUp,
		MaxRemovalsPerRound: c.MaxRemovalsPerRound, ScaleDownCooldown: c.ScaleDownCooldown.Duration,
		RepartitionCooldown: c.RepartitionCooldown.Duration, RepartitionTimeout: c.RepartitionTimeout.Duration,
		MaxUnready: c.MaxUnready, OKUnready: c.OKUnready, WaitCostPerHour: c.WaitCostPerHour, DisruptionCost: c.DisruptionCost,
		NodeLife: c.NodeLife.Duration, NodeOverdue: c.NodeOverdue.Duration, RepartitionLife: c.RepartitionLife.Duration,
	}
}

func (c PolicyConfig) validate(p *problems) {
	for field, n := range map[string]int{
		"maxActionsPerRound": c.MaxActionsPerRound, "maxNodesPerScaleUp": c.MaxNodesPerScaleUp, "maxRemovalsPerRound": c.MaxRemovalsPerRound,
		"okUnready": c.OKUnready,
	} {
		if n < 0 {
			p.add("policy."+field, "%d: must not be below 0", n)
		}
	}
	p.notNegative("policy.scaleDownCooldown", c.ScaleDownCooldown)
	p.notNegative("policy.repartitionCooldown", c.RepartitionCooldown)
	p.positive("policy.repartitionTimeout", c.RepartitionTimeout)
	p.positive("policy.nodeLife", c.NodeLife)
	p.positive("policy.nodeOverdue", c.NodeOverdue)
	p.positive("policy.repartitionLife", c.RepartitionLife)
	if !(c.MaxUnready >= 0 && c.MaxUnready <= 1) {
		p.add("policy.maxUnready", "%v: want a share from 0 to 1", c.MaxUnready)
	}
	p.price("policy.waitCostPerHour", c.WaitCostPerHour)
	p.price("policy.disruptionCost", c.DisruptionCost)
}

// problems of a configuration, each with its field's path.
type problems []error

func (p *problems) add(field, format string, args ...any) {
	*p = append(*p, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
}

// under adds joined problems whose paths lack their beginning.
func (p *problems) under(path string, err error) {
	if err == nil {
		return
	}
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		*p = append(*p, fmt.Errorf("%s.%w", path, err))
		return
	}
	for _, e := range joined.Unwrap() {
		*p = append(*p, fmt.Errorf("%s.%w", path, e))
	}
}

func (p *problems) given(field, value string) {
	if value == "" {
		p.add(field, "is required")
	}
}

func (p *problems) positive(field string, d metav1.Duration) {
	if d.Duration <= 0 {
		p.add(field, "%s: must be above 0s", d.Duration)
	}
}

func (p *problems) notNegative(field string, d metav1.Duration) {
	if d.Duration < 0 {
		p.add(field, "%s: must not be below 0s", d.Duration)
	}
}

func (p *problems) price(field string, v float64) {
	if !(v >= 0) || math.IsInf(v, 0) {
		p.add(field, "%v: is no price", v)
	}
}
