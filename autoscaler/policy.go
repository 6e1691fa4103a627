package main

import (
	"math"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/plan"
)

// PolicyConfig is plan.Policy as it is configured. A share is 0 … 1, money is in the
// currency of the pools' prices. Fields are copied by name, and checked by their tag
// "want".
type PolicyConfig struct {
	// Freeze stops every action; decisions are still explained.
	Freeze bool `json:"freeze"`
	// MaxActionsPerReconcile bounds the actions in one reconcile.
	MaxActionsPerReconcile int `json:"maxActionsPerReconcile" want:"count"`
	// MaxNodesPerScaleUp bounds the nodes that one scale-up adds.
	MaxNodesPerScaleUp int `json:"maxNodesPerScaleUp" want:"count"`
	// MaxNodesPerHour bounds the nodes added to a pool within an hour.
	MaxNodesPerHour int `json:"maxNodesPerHour" want:"count"`
	// MaxRemovalsPerReconcile bounds the nodes removed in one reconcile.
	MaxRemovalsPerReconcile int `json:"maxRemovalsPerReconcile" want:"count"`
	// MaxRemovalShare bounds the share of a pool removed in one reconcile; one node is
	// always allowed.
	MaxRemovalShare float64 `json:"maxRemovalShare" want:"share"`
	// MaxRemovalsPerTenMinutes bounds the nodes removed within ten minutes, over all
	// pools.
	MaxRemovalsPerTenMinutes int `json:"maxRemovalsPerTenMinutes" want:"count"`
	// SoftTaints gives empty nodes that are to be removed the taint
	// gpuscale.io/empty:PreferNoSchedule until they are used, so that the scheduler
	// prefers nodes in use. It refuses no pod.
	SoftTaints bool `json:"softTaints"`
	// RemovalInterval between two reconciles that remove nodes of a pool.
	RemovalInterval metav1.Duration `json:"removalInterval" want:"notNegative"`
	// ScaleDownCooldown is how long after a scale-up a pool is not scaled down.
	ScaleDownCooldown metav1.Duration `json:"scaleDownCooldown" want:"notNegative"`
	// RepartitionCooldown between repartitions of one node.
	RepartitionCooldown metav1.Duration `json:"repartitionCooldown" want:"notNegative"`
	// RepartitionTimeout after which a repartition is rolled back.
	RepartitionTimeout metav1.Duration `json:"repartitionTimeout" want:"positive"`
	// MaxUnready is the share of unready nodes above which all actions stop.
	MaxUnready float64 `json:"maxUnready" want:"share"`
	// OKUnready is a number of unready nodes that never stops actions.
	OKUnready int `json:"okUnready" want:"count"`
	// MaxIdleAtOnce is the share of nodes becoming idle within IdleHold above which no
	// node is removed, drained or reclaimed for being idle; 1 turns it off.
	MaxIdleAtOnce float64 `json:"maxIdleAtOnce" want:"share"`
	// IdleHold is how long that lasts after the last node became idle.
	IdleHold metav1.Duration `json:"idleHold" want:"notNegative"`
	// OKIdle is a number of nodes becoming idle that never stops actions.
	OKIdle int `json:"okIdle" want:"count"`
	// WaitCostPerHour is what an hour of one pending GPU-equivalent costs.
	WaitCostPerHour float64 `json:"waitCostPerHour" want:"price"`
	// DisruptionCost of one repartition.
	DisruptionCost float64 `json:"disruptionCost" want:"price"`
	// NodeLife is the expected lifetime of a new node.
	NodeLife metav1.Duration `json:"nodeLife" want:"positive"`
	// NodeOverdue is how long a node counts as upcoming; three times the pool's
	// readyAfter where that is longer.
	NodeOverdue metav1.Duration `json:"nodeOverdue" want:"positive"`
	// ScaleUpBorrowed allows scale-ups for demand beyond its tenant's guarantee. Without
	// it such demand is served by free and repartitioned capacity only.
	ScaleUpBorrowed bool `json:"scaleUpBorrowed"`
	// ReclaimBorrowed evicts pods on borrowed capacity for another tenant's guarantee.
	// Without it a guarantee is served by free capacity, repartitions and new nodes only.
	ReclaimBorrowed bool `json:"reclaimBorrowed"`
	// MaxEvictionsPerReconcile bounds the pods evicted in one reconcile; 0 turns
	// reclaiming off.
	MaxEvictionsPerReconcile int `json:"maxEvictionsPerReconcile" want:"count"`
	// EvictionCost is the cost of interrupting one GPU-equivalent. The work that it has
	// to repeat and the wait until it runs again are counted besides.
	EvictionCost float64 `json:"evictionCost" want:"price"`
	// SkipNodesWithLocalStorage evicts no pod with local storage (hostPath, or emptyDir that
	// is not in memory), and so drains no node with one, unless its provider interrupts it.
	SkipNodesWithLocalStorage bool `json:"skipNodesWithLocalStorage"`
	// ExpendablePodsPriorityCutoff is the priority below which pods are expendable: nothing is
	// added, repartitioned or reserved for them, and a node on which only such pods run is
	// drained and removed. It is cluster-autoscaler's --expendable-pods-priority-cutoff.
	ExpendablePodsPriorityCutoff int `json:"expendablePodsPriorityCutoff" want:"priority"`
	// BalanceSimilarNodeGroups keeps the sizes of pools that differ only in where their nodes
	// are within one node of each other when nodes are added. It is cluster-autoscaler's
	// --balance-similar-node-groups.
	BalanceSimilarNodeGroups bool `json:"balanceSimilarNodeGroups"`
	// MaxDrains bounds the nodes draining at a time; 0 turns draining off.
	MaxDrains int `json:"maxDrains" want:"count"`
	// DrainTimeout after which a drain is given up.
	DrainTimeout metav1.Duration `json:"drainTimeout" want:"positive"`
	// DrainCooldown between drains of one pool.
	DrainCooldown metav1.Duration `json:"drainCooldown" want:"notNegative"`
	// Headroom is the estimate of forecasts that nodes are added for: none, low, expected
	// or high.
	Headroom plan.Headroom `json:"headroom"`
	// HeadroomWeight is the cost of forecast demand that is unserved, relative to that of
	// pending pods, 0 … 1.
	HeadroomWeight float64 `json:"headroomWeight" want:"share"`
	// SickAfter is how long a GPU must have been sick before its node is
	// replaced; 0s turns replacing off.
	SickAfter metav1.Duration `json:"sickAfter" want:"notNegative"`
	// ReplaceInterval between two replacements in one pool.
	ReplaceInterval metav1.Duration `json:"replaceInterval" want:"positive"`
	// MaxSickShare is the share of a pool above which sick nodes are not replaced: a
	// common cause is likely then.
	MaxSickShare float64 `json:"maxSickShare" want:"share"`
}

// Plan converts to the planner's policy.
func (c PolicyConfig) Plan() (p plan.Policy) {
	copyFields(reflect.ValueOf(c), reflect.ValueOf(&p).Elem())
	return p
}

// policyConfig is the inverse of Plan.
func policyConfig(p plan.Policy) (c PolicyConfig) {
	copyFields(reflect.ValueOf(p), reflect.ValueOf(&c).Elem())
	return c
}

// copyFields copies the fields of one struct to those of the other by name. Only durations
// differ in type. TestPolicyThereAndBack finds missing fields.
func copyFields(from, to reflect.Value) {
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
		case "priority":
			if n := field.(int); n < math.MinInt32 || n > math.MaxInt32 {
				p.add(at, "%d is no priority: want 32 bits", n)
			}
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
