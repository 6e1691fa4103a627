package main

import (
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/plan"
)

// PolicyConfig is plan.Policy with names and durations as people write them. A
// share is 0 … 1, money is in the currency of the pools' prices. Fields are carried
// over by their names, and checked as their tag "want" says.
type PolicyConfig struct {
	// Freeze stops every action; decisions are still explained.
	Freeze bool `json:"freeze"`
	// MaxActionsPerRound bounds what is done in one round.
	MaxActionsPerRound int `json:"maxActionsPerRound" want:"count"`
	// MaxNodesPerScaleUp bounds one resize of a pool.
	MaxNodesPerScaleUp int `json:"maxNodesPerScaleUp" want:"count"`
	// MaxNodesPerHour bounds what a pool may be asked for within an hour.
	MaxNodesPerHour int `json:"maxNodesPerHour" want:"count"`
	// MaxRemovalsPerRound bounds the nodes given back in one round.
	MaxRemovalsPerRound int `json:"maxRemovalsPerRound" want:"count"`
	// MaxRemovalShare bounds the share of a pool given back in one round; one node
	// is always allowed.
	MaxRemovalShare float64 `json:"maxRemovalShare" want:"share"`
	// MaxRemovalsPerTenMinutes bounds the nodes given back within ten minutes, over
	// all pools.
	MaxRemovalsPerTenMinutes int `json:"maxRemovalsPerTenMinutes" want:"count"`
	// RemovalInterval between two rounds that give back nodes of a pool.
	RemovalInterval metav1.Duration `json:"removalInterval" want:"notNegative"`
	// ScaleDownCooldown is how long after a pool grew nothing is taken from it.
	ScaleDownCooldown metav1.Duration `json:"scaleDownCooldown" want:"notNegative"`
	// RepartitionCooldown between repartitions of one node.
	RepartitionCooldown metav1.Duration `json:"repartitionCooldown" want:"notNegative"`
	// RepartitionTimeout after which a repartition is undone.
	RepartitionTimeout metav1.Duration `json:"repartitionTimeout" want:"positive"`
	// MaxUnready is the share of nodes not ready above which everything holds.
	MaxUnready float64 `json:"maxUnready" want:"share"`
	// OKUnready nodes not ready hold nothing, whatever their share.
	OKUnready int `json:"okUnready" want:"count"`
	// MaxIdleAtOnce is the share of nodes that may come to look idle within IdleHold
	// before nothing is given back or taken for being idle; 1 turns it off.
	MaxIdleAtOnce float64 `json:"maxIdleAtOnce" want:"share"`
	// IdleHold is how long that lasts after the last of them.
	IdleHold metav1.Duration `json:"idleHold" want:"notNegative"`
	// OKIdle nodes that look idle at once hold nothing, whatever their share.
	OKIdle int `json:"okIdle" want:"count"`
	// WaitCostPerHour is what an hour of one pending card-equivalent costs.
	WaitCostPerHour float64 `json:"waitCostPerHour" want:"price"`
	// DisruptionCost of one repartition.
	DisruptionCost float64 `json:"disruptionCost" want:"price"`
	// NodeLife is how long a new node is expected to be kept.
	NodeLife metav1.Duration `json:"nodeLife" want:"positive"`
	// NodeOverdue is how long a node may take to become ready before it is no
	// longer believed in; three times the pool's readyAfter where that is longer.
	NodeOverdue metav1.Duration `json:"nodeOverdue" want:"positive"`
	// RepartitionLife is how long a new layout is expected to serve.
	RepartitionLife metav1.Duration `json:"repartitionLife" want:"positive"`
	// BuyBorrowed allows nodes to be bought for demand beyond its tenant's
	// guarantee. Without it such demand gets what is free, or can be cut.
	BuyBorrowed bool `json:"buyBorrowed"`
	// MaxEvictionsPerRound bounds the pods asked to leave in one round; 0 turns
	// reclaiming off.
	MaxEvictionsPerRound int `json:"maxEvictionsPerRound" want:"count"`
	// EvictionCost is what moving one card-equivalent of work costs: what is
	// computed again, and patience.
	EvictionCost float64 `json:"evictionCost" want:"price"`
	// MaxDrains bounds the nodes being drained at a time; 0 turns draining off.
	MaxDrains int `json:"maxDrains" want:"count"`
	// DrainTimeout after which a drain is given up.
	DrainTimeout metav1.Duration `json:"drainTimeout" want:"positive"`
	// DrainCooldown between drains of one pool.
	DrainCooldown metav1.Duration `json:"drainCooldown" want:"notNegative"`
	// Headroom is the end of a forecast that is prepared for: none, low, expected
	// or high.
	Headroom plan.Headroom `json:"headroom"`
	// HeadroomWeight is what being late for a forecast costs against being late
	// for a pod that waits, 0 … 1.
	HeadroomWeight float64 `json:"headroomWeight" want:"share"`
	// SickAfter is how long a card must have been sick before its node is
	// replaced; 0s turns replacing off.
	SickAfter metav1.Duration `json:"sickAfter" want:"notNegative"`
	// ReplaceInterval between two replacements in one pool.
	ReplaceInterval metav1.Duration `json:"replaceInterval" want:"positive"`
	// MaxSickShare is the share of a pool above which sick nodes are not replaced:
	// then it is not the nodes.
	MaxSickShare float64 `json:"maxSickShare" want:"share"`
}

// Plan returns the planner's policy.
func (c PolicyConfig) Plan() (p plan.Policy) {
	carry(reflect.ValueOf(c), reflect.ValueOf(&p).Elem())
	return p
}

// policyConfig is the way back from Plan.
func policyConfig(p plan.Policy) (c PolicyConfig) {
	carry(reflect.ValueOf(p), reflect.ValueOf(&c).Elem())
	return c
}

// carry writes each field of one struct to the other's of that name. Only durations
// are of another type there; TestPolicyThereAndBack finds a field that is missing.
func carry(from, to reflect.Value) {
	for i := range from.NumField() {
		value, field := from.Field(i), to.FieldByName(from.Type().Field(i).Name)
		switch d := value.Interface().(type) {
		case metav1.Duration:
			field.SetInt(int64(d.Duration))
		case time.Duration:
			field.Set(reflect.ValueOf(duration(d)))
		default:
			field.Set(value)
		}
	}
}

func (c PolicyConfig) validate(p *problems) {
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		field, tag := v.Field(i).Interface(), v.Type().Field(i).Tag
		at := "policy." + tag.Get("json")
		switch tag.Get("want") {
		case "count":
			p.count(at, field.(int))
		case "share":
			p.share(at, field.(float64))
		case "price":
			p.price(at, field.(float64))
		case "notNegative":
			p.notNegative(at, field.(metav1.Duration))
		case "positive":
			p.positive(at, field.(metav1.Duration))
		}
	}
	switch c.Headroom {
	case plan.HeadroomNone, plan.HeadroomLow, plan.HeadroomExpected, plan.HeadroomHigh:
	default:
		p.add("policy.headroom", "%q: want none, low, expected or high", c.Headroom)
	}
}
