package hpa

import (
	autoscaling "k8s.io/api/autoscaling/v2"
)

// Defaulted returns a deep copy of the spec with the API server's defaults.
func Defaulted(spec autoscaling.HorizontalPodAutoscalerSpec) autoscaling.HorizontalPodAutoscalerSpec {
	spec = *spec.DeepCopy()
	if spec.MinReplicas == nil {
		one := int32(1)
		spec.MinReplicas = &one
	}
	if b := spec.Behavior; b != nil {
		// The window for scaling down has no default: it is the controller's flag.
		b.ScaleUp = rules(b.ScaleUp, 0,
			autoscaling.HPAScalingPolicy{Type: autoscaling.PodsScalingPolicy, Value: 4, PeriodSeconds: 15},
			autoscaling.HPAScalingPolicy{Type: autoscaling.PercentScalingPolicy, Value: 100, PeriodSeconds: 15})
		b.ScaleDown = rules(b.ScaleDown, -1,
			autoscaling.HPAScalingPolicy{Type: autoscaling.PercentScalingPolicy, Value: 100, PeriodSeconds: 15})
	}
	return spec
}

// rules sets the defaults of one direction. A negative window stays unset.
func rules(r *autoscaling.HPAScalingRules, window int32, policies ...autoscaling.HPAScalingPolicy) *autoscaling.HPAScalingRules {
	if r == nil {
		r = &autoscaling.HPAScalingRules{}
	}
	if r.SelectPolicy == nil {
		most := autoscaling.MaxChangePolicySelect
		r.SelectPolicy = &most
	}
	if r.StabilizationWindowSeconds == nil && window >= 0 {
		r.StabilizationWindowSeconds = &window
	}
	if r.Policies == nil {
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
	if b == nil {
		return t
	}
	if b.ScaleDown != nil && b.ScaleDown.Tolerance != nil {
		t.Down = b.ScaleDown.Tolerance.AsApproximateFloat64()
	}
	if b.ScaleUp != nil && b.ScaleUp.Tolerance != nil {
		t.Up = b.ScaleUp.Tolerance.AsApproximateFloat64()
	}
	return t
}
