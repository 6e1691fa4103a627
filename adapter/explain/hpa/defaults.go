package hpa

import (
	"cmp"

	autoscaling "k8s.io/api/autoscaling/v2"
)

// Defaulted returns a deep copy of the spec with the API server's defaults.
func Defaulted(spec autoscaling.HorizontalPodAutoscalerSpec) autoscaling.HorizontalPodAutoscalerSpec {
	spec = *spec.DeepCopy()
	spec.MinReplicas = cmp.Or(spec.MinReplicas, new(int32(1)))
	if b := spec.Behavior; b != nil {
		twice := autoscaling.HPAScalingPolicy{Type: autoscaling.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}
		b.ScaleUp = rules(b.ScaleUp, autoscaling.HPAScalingPolicy{Type: autoscaling.PodsScalingPolicy, Value: 4, PeriodSeconds: 15}, twice)
		b.ScaleUp.StabilizationWindowSeconds = cmp.Or(b.ScaleUp.StabilizationWindowSeconds, new(int32(0)))
		// The window for scaling down has no default: it is the controller's flag.
		b.ScaleDown = rules(b.ScaleDown, twice)
	}
	return spec
}

// rules sets the defaults of one direction.
func rules(r *autoscaling.HPAScalingRules, policies ...autoscaling.HPAScalingPolicy) *autoscaling.HPAScalingRules {
	r = cmp.Or(r, &autoscaling.HPAScalingRules{})
	r.SelectPolicy = cmp.Or(r.SelectPolicy, new(autoscaling.MaxChangePolicySelect))
	if len(r.Policies) == 0 { // the API server takes no empty list
		r.Policies = policies
	}
	return r
}

// Tolerances are how far the ratio of usage to target may differ from 1 without
// a change.
type Tolerances struct{ Down, Up float64 }

func (t Tolerances) within(ratio float64) bool { return 1-t.Down <= ratio && ratio <= 1+t.Up }

// TolerancesOf returns the HPA's own tolerances, or else the controller's.
func TolerancesOf(b *autoscaling.HorizontalPodAutoscalerBehavior, otherwise float64) Tolerances {
	t := Tolerances{otherwise, otherwise}
	if b != nil && b.ScaleDown != nil && b.ScaleDown.Tolerance != nil {
		t.Down = b.ScaleDown.Tolerance.AsApproximateFloat64()
	}
	if b != nil && b.ScaleUp != nil && b.ScaleUp.Tolerance != nil {
		t.Up = b.ScaleUp.Tolerance.AsApproximateFloat64()
	}
	return t
}
