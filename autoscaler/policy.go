package main

import (
	"errors"
	"fmt"
	"math"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/plan"
)

// PolicyConfig is plan.Policy with names and durations as people write them. A
// share is 0 … 1, money is in the currency of the pools' prices.
type PolicyConfig struct {
	// Freeze stops every action; decisions are still explained.
	Freeze bool `json:"freeze"`
	// MaxActionsPerRound bounds what is done in one round.
	MaxActionsPerRound int `json:"maxActionsPerRound"`
	// MaxNodesPerScaleUp bounds one resize of a pool.
	MaxNodesPerScaleUp int `json:"maxNodesPerScaleUp"`
	// MaxNodesPerHour bounds what a pool may be asked for within an hour.
	MaxNodesPerHour int `json:"maxNodesPerHour"`
	// MaxRemovalsPerRound bounds the nodes given back in one round.
	MaxRemovalsPerRound int `json:"maxRemovalsPerRound"`
	// MaxRemovalShare bounds the share of a pool given back in one round; one node
	// is always allowed.
	MaxRemovalShare float64 `json:"maxRemovalShare"`
	// RemovalInterval between two rounds that give back nodes of a pool.
	RemovalInterval metav1.Duration `json:"removalInterval"`
	// ScaleDownCooldown is how long after a pool grew nothing is taken from it.
	ScaleDownCooldown metav1.Duration `json:"scaleDownCooldown"`
	// RepartitionCooldown between repartitions of one node.
	RepartitionCooldown metav1.Duration `json:"repartitionCooldown"`
	// RepartitionTimeout after which a repartition is undone.
	RepartitionTimeout metav1.Duration `json:"repartitionTimeout"`
	// MaxUnready is the share of nodes not ready above which everything holds.
	MaxUnready float64 `json:"maxUnready"`
	// OKUnready nodes not ready hold nothing, whatever their share.
	OKUnready int `json:"okUnready"`
	// WaitCostPerHour is what an hour of one pending card-equivalent costs.
	WaitCostPerHour float64 `json:"waitCostPerHour"`
	// DisruptionCost of one repartition.
	DisruptionCost float64 `json:"disruptionCost"`
	// NodeLife is how long a new node is expected to be kept.
	NodeLife metav1.Duration `json:"nodeLife"`
	// NodeOverdue is how long a node may take to become ready before it is no
	// longer believed in; three times the pool's readyAfter where that is longer.
	NodeOverdue metav1.Duration `json:"nodeOverdue"`
	// RepartitionLife is how long a new layout is expected to serve.
	RepartitionLife metav1.Duration `json:"repartitionLife"`
	// BuyBorrowed allows nodes to be bought for demand beyond its tenant's
	// guarantee. Without it such demand gets what is free, or can be cut.
	BuyBorrowed bool `json:"buyBorrowed"`
	// MaxEvictionsPerRound bounds the pods asked to leave in one round; 0 turns
	// reclaiming off.
	MaxEvictionsPerRound int `json:"maxEvictionsPerRound"`
	// EvictionCost is what moving one card-equivalent of work costs: what is
	// computed again, and patience.
	EvictionCost float64 `json:"evictionCost"`
	// MaxDrains bounds the nodes being drained at a time; 0 turns draining off.
	MaxDrains int `json:"maxDrains"`
	// DrainTimeout after which a drain is given up.
	DrainTimeout metav1.Duration `json:"drainTimeout"`
	// DrainCooldown between drains of one pool.
	DrainCooldown metav1.Duration `json:"drainCooldown"`
	// Headroom is the end of a forecast that is prepared for: none, low, expected
	// or high.
	Headroom plan.Headroom `json:"headroom"`
	// HeadroomWeight is what being late for a forecast costs against being late
	// for a pod that waits, 0 … 1.
	HeadroomWeight float64 `json:"headroomWeight"`
	// SickAfter is how long a card must have been sick before its node is
	// replaced; 0s turns replacing off.
	SickAfter metav1.Duration `json:"sickAfter"`
	// ReplaceInterval between two replacements in one pool.
	ReplaceInterval metav1.Duration `json:"replaceInterval"`
	// MaxSickShare is the share of a pool above which sick nodes are not replaced:
	// then it is not the nodes.
	MaxSickShare float64 `json:"maxSickShare"`
}

// Plan returns the planner's policy.
func (c PolicyConfig) Plan() plan.Policy {
	return plan.Policy{
		Freeze:               c.Freeze,
		MaxActionsPerRound:   c.MaxActionsPerRound,
		MaxNodesPerScaleUp:   c.MaxNodesPerScaleUp,
		MaxRemovalsPerRound:  c.MaxRemovalsPerRound,
		ScaleDownCooldown:    c.ScaleDownCooldown.Duration,
		RepartitionCooldown:  c.RepartitionCooldown.Duration,
		RepartitionTimeout:   c.RepartitionTimeout.Duration,
		MaxUnready:           c.MaxUnready,
		OKUnready:            c.OKUnready,
		WaitCostPerHour:      c.WaitCostPerHour,
		DisruptionCost:       c.DisruptionCost,
		NodeLife:             c.NodeLife.Duration,
		NodeOverdue:          c.NodeOverdue.Duration,
		RepartitionLife:      c.RepartitionLife.Duration,
		MaxNodesPerHour:      c.MaxNodesPerHour,
		MaxRemovalShare:      c.MaxRemovalShare,
		RemovalInterval:      c.RemovalInterval.Duration,
		BuyBorrowed:          c.BuyBorrowed,
		MaxEvictionsPerRound: c.MaxEvictionsPerRound,
		EvictionCost:         c.EvictionCost,
		MaxDrains:            c.MaxDrains,
		DrainTimeout:         c.DrainTimeout.Duration,
		DrainCooldown:        c.DrainCooldown.Duration,
		Headroom:             c.Headroom,
		HeadroomWeight:       c.HeadroomWeight,
		SickAfter:            c.SickAfter.Duration,
		ReplaceInterval:      c.ReplaceInterval.Duration,
		MaxSickShare:         c.MaxSickShare,
	}
}

// policyConfig is the way back from Plan.
func policyConfig(p plan.Policy) PolicyConfig {
	return PolicyConfig{
		Freeze:               p.Freeze,
		MaxActionsPerRound:   p.MaxActionsPerRound,
		MaxNodesPerScaleUp:   p.MaxNodesPerScaleUp,
		MaxRemovalsPerRound:  p.MaxRemovalsPerRound,
		ScaleDownCooldown:    duration(p.ScaleDownCooldown),
		RepartitionCooldown:  duration(p.RepartitionCooldown),
		RepartitionTimeout:   duration(p.RepartitionTimeout),
		MaxUnready:           p.MaxUnready,
		OKUnready:            p.OKUnready,
		WaitCostPerHour:      p.WaitCostPerHour,
		DisruptionCost:       p.DisruptionCost,
		NodeLife:             duration(p.NodeLife),
		NodeOverdue:          duration(p.NodeOverdue),
		RepartitionLife:      duration(p.RepartitionLife),
		MaxNodesPerHour:      p.MaxNodesPerHour,
		MaxRemovalShare:      p.MaxRemovalShare,
		RemovalInterval:      duration(p.RemovalInterval),
		BuyBorrowed:          p.BuyBorrowed,
		MaxEvictionsPerRound: p.MaxEvictionsPerRound,
		EvictionCost:         p.EvictionCost,
		MaxDrains:            p.MaxDrains,
		DrainTimeout:         duration(p.DrainTimeout),
		DrainCooldown:        duration(p.DrainCooldown),
		Headroom:             p.Headroom,
		HeadroomWeight:       p.HeadroomWeight,
		SickAfter:            duration(p.SickAfter),
		ReplaceInterval:      duration(p.ReplaceInterval),
		MaxSickShare:         p.MaxSickShare,
	}
}

func (c PolicyConfig) validate(p *problems) {
	p.count("policy.maxActionsPerRound", c.MaxActionsPerRound)
	p.count("policy.maxNodesPerScaleUp", c.MaxNodesPerScaleUp)
	p.count("policy.maxNodesPerHour", c.MaxNodesPerHour)
	p.count("policy.maxRemovalsPerRound", c.MaxRemovalsPerRound)
	p.count("policy.okUnready", c.OKUnready)
	p.count("policy.maxEvictionsPerRound", c.MaxEvictionsPerRound)
	p.count("policy.maxDrains", c.MaxDrains)
	p.share("policy.maxRemovalShare", c.MaxRemovalShare)
	p.share("policy.maxUnready", c.MaxUnready)
	p.share("policy.headroomWeight", c.HeadroomWeight)
	p.share("policy.maxSickShare", c.MaxSickShare)
	p.notNegative("policy.removalInterval", c.RemovalInterval)
	p.notNegative("policy.scaleDownCooldown", c.ScaleDownCooldown)
	p.notNegative("policy.repartitionCooldown", c.RepartitionCooldown)
	p.notNegative("policy.drainCooldown", c.DrainCooldown)
	p.notNegative("policy.sickAfter", c.SickAfter)
	p.positive("policy.repartitionTimeout", c.RepartitionTimeout)
	p.positive("policy.drainTimeout", c.DrainTimeout)
	p.positive("policy.replaceInterval", c.ReplaceInterval) // the bound on replacing
	p.positive("policy.nodeLife", c.NodeLife)
	p.positive("policy.nodeOverdue", c.NodeOverdue)
	p.positive("policy.repartitionLife", c.RepartitionLife)
	p.price("policy.waitCostPerHour", c.WaitCostPerHour)
	p.price("policy.disruptionCost", c.DisruptionCost)
	p.price("policy.evictionCost", c.EvictionCost)
	switch c.Headroom {
	case plan.HeadroomNone, plan.HeadroomLow, plan.HeadroomExpected, plan.HeadroomHigh:
	default:
		p.add("policy.headroom", "%q: want none, low, expected or high", c.Headroom)
	}
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

func (p *problems) count(field string, n int) {
	if n < 0 {
		p.add(field, "%d: must not be below 0", n)
	}
}

func (p *problems) share(field string, v float64) {
	if !(v >= 0 && v <= 1) {
		p.add(field, "%v: want a share from 0 to 1", v)
	}
}
