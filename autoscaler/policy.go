package main

import (
	"math"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/plan"
)

// PolicyConfig is plan.Policy, which has the fields' meanings, as it is configured. A share is 0 … 1,
// money is in the currency of the pools' prices. Fields are copied by name, and checked by their tag
// "want".
type PolicyConfig struct {
	Freeze                       bool            `json:"freeze"`
	MaxActionsPerReconcile       int             `json:"maxActionsPerReconcile" want:"count"`
	MaxNodesPerScaleUp           int             `json:"maxNodesPerScaleUp" want:"count"`
	MaxNodesPerHour              int             `json:"maxNodesPerHour" want:"count"`
	MaxRemovalsPerReconcile      int             `json:"maxRemovalsPerReconcile" want:"count"`
	MaxRemovalShare              float64         `json:"maxRemovalShare" want:"share"`
	MaxRemovalsPerTenMinutes     int             `json:"maxRemovalsPerTenMinutes" want:"count"`
	SoftTaints                   bool            `json:"softTaints"`
	RemovalInterval              metav1.Duration `json:"removalInterval" want:"notNegative"`
	ScaleDownCooldown            metav1.Duration `json:"scaleDownCooldown" want:"notNegative"`
	RepartitionCooldown          metav1.Duration `json:"repartitionCooldown" want:"notNegative"`
	RepartitionTimeout           metav1.Duration `json:"repartitionTimeout" want:"positive"`
	MaxUnready                   float64         `json:"maxUnready" want:"share"`
	OKUnready                    int             `json:"okUnready" want:"count"`
	MaxIdleAtOnce                float64         `json:"maxIdleAtOnce" want:"share"`
	IdleHold                     metav1.Duration `json:"idleHold" want:"notNegative"`
	OKIdle                       int             `json:"okIdle" want:"count"`
	WaitCostPerHour              float64         `json:"waitCostPerHour" want:"price"`
	DisruptionCost               float64         `json:"disruptionCost" want:"price"`
	NodeLife                     metav1.Duration `json:"nodeLife" want:"positive"`
	NodeOverdue                  metav1.Duration `json:"nodeOverdue" want:"positive"`
	ScaleUpBorrowed              bool            `json:"scaleUpBorrowed"`
	ReclaimBorrowed              bool            `json:"reclaimBorrowed"`
	MaxEvictionsPerReconcile     int             `json:"maxEvictionsPerReconcile" want:"count"`
	EvictionCost                 float64         `json:"evictionCost" want:"price"`
	SkipNodesWithLocalStorage    bool            `json:"skipNodesWithLocalStorage"`
	ExpendablePodsPriorityCutoff int             `json:"expendablePodsPriorityCutoff" want:"priority"`
	BalanceSimilarNodeGroups     bool            `json:"balanceSimilarNodeGroups"`
	MaxDrains                    int             `json:"maxDrains" want:"count"`
	DrainTimeout                 metav1.Duration `json:"drainTimeout" want:"positive"`
	DrainCooldown                metav1.Duration `json:"drainCooldown" want:"notNegative"`
	Headroom                     plan.Headroom   `json:"headroom"`
	HeadroomWeight               float64         `json:"headroomWeight" want:"share"`
	SickAfter                    metav1.Duration `json:"sickAfter" want:"notNegative"`
	ReplaceInterval              metav1.Duration `json:"replaceInterval" want:"positive"`
	MaxSickShare                 float64         `json:"maxSickShare" want:"share"`
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
