package hpa

import (
	"cmp"
	"math"
	"slices"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
)

// past is the controller's state of an HPA. It is lost with the controller's
// process.
type past struct {
	recommendations []change
	ups, downs      []change
}

// change is a recommendation, or by how much a rescale changed the replicas.
type change struct {
	replicas int32
	at       time.Time
}

// longest is the longest window: an hour, unless the controller's own flag is
// longer.
const longest = time.Hour

func (p *past) prune(now time.Time, window time.Duration) {
	cutoff := now.Add(-max(longest, window) - time.Second)
	p.recommendations = slices.DeleteFunc(p.recommendations, func(c change) bool { return c.at.Before(cutoff) })
}

// store adds a rescale in one direction. As in the controller, it replaces one
// older than this direction's longest period, although the other direction may
// have a longer one and still need it.
func store(list []change, by int32, r *autoscaling.HPAScalingRules, now time.Time) []change {
	period := int32(0)
	for _, policy := range r.Policies {
		period = max(period, policy.PeriodSeconds)
	}
	cutoff := now.Add(-time.Duration(period) * time.Second)
	outdated := -1
	for i, e := range list {
		if e.at.Before(cutoff) {
			outdated = i
		}
	}
	if outdated < 0 {
		return append(list, change{by, now})
	}
	list[outdated] = change{by, now}
	return list
}

// highest is the stabilization of an HPA without behavior.
func (p *past) highest(proposed int32, window time.Duration, now time.Time) int32 {
	stable := proposed
	for _, r := range p.recommendations {
		if !r.at.Before(now.Add(-window)) {
			stable = max(stable, r.replicas)
		}
	}
	return stable
}

// stabilize is the stabilization of an HPA with behavior: the smallest change
// from current that is between the lowest recommendation of the up window and
// the highest of the down window.
func (p *past) stabilize(current, proposed int32, up, down time.Duration, now time.Time) int32 {
	low, high := proposed, proposed
	for _, r := range p.recommendations {
		if r.at.After(now.Add(-up)) {
			low = min(low, r.replicas)
		}
		if r.at.After(now.Add(-down)) {
			high = max(high, r.replicas)
		}
	}
	return min(max(current, low), high)
}

// changed sums the changes within the last period.
func changed(list []change, period int32, now time.Time) int32 {
	total := int32(0)
	for _, e := range list {
		if e.at.After(now.Add(-time.Duration(period) * time.Second)) {
			total += e.replicas
		}
	}
	return total
}

// simple bounds an HPA without behavior. Why is the reason of the condition ScalingLimited.
func simple(current, proposed, minimum, maximum int32) (replicas int32, why string) {
	fast := int32(math.Max(2*float64(current), 4))
	switch {
	case proposed < minimum:
		return minimum, "TooFewReplicas"
	case fast < maximum && proposed > fast:
		return fast, "ScaleUpLimit"
	case proposed > maximum:
		return maximum, "TooManyReplicas"
	}
	return proposed, "DesiredWithinRange"
}

// rated bounds an HPA with behavior.
func (p *past) rated(current, proposed, minimum, maximum int32, b *autoscaling.HorizontalPodAutoscalerBehavior, now time.Time) (replicas int32, why string) {
	highest, lowest := max(p.limit(current, b.ScaleUp, now, true), current), min(p.limit(current, b.ScaleDown, now, false), current)
	switch {
	case proposed > current && highest < maximum && proposed > highest:
		return highest, "ScaleUpLimit"
	case proposed > current && proposed > maximum:
		return maximum, "TooManyReplicas"
	case proposed < current && lowest > minimum && proposed < lowest:
		return lowest, "ScaleDownLimit"
	case proposed < current && proposed < minimum:
		return minimum, "TooFewReplicas"
	}
	return proposed, "DesiredWithinRange"
}

// limit is the number of replicas that the policies allow, up or down.
func (p *past) limit(current int32, r *autoscaling.HPAScalingRules, now time.Time, up bool) int32 {
	if *r.SelectPolicy == autoscaling.DisabledPolicySelect {
		return current
	}
	// Max selects the policy with the largest change, Min the smallest.
	highest := up == (*r.SelectPolicy != autoscaling.MinChangePolicySelect)
	result := int32(math.MaxInt32)
	if highest {
		result = math.MinInt32
	}
	proposed := int32(0)
	for _, policy := range r.Policies {
		start := current - changed(p.ups, policy.PeriodSeconds, now) + changed(p.downs, policy.PeriodSeconds, now)
		percent := float64(policy.Value) / 100
		switch {
		case policy.Type == autoscaling.PodsScalingPolicy && up:
			proposed = start + policy.Value
		case policy.Type == autoscaling.PodsScalingPolicy:
			proposed = start - policy.Value
		case policy.Type == autoscaling.PercentScalingPolicy && up:
			proposed = int32(math.Ceil(float64(start) * (1 + percent)))
		case policy.Type == autoscaling.PercentScalingPolicy:
			proposed = int32(float64(start) * (1 - percent))
		}
		if highest {
			result = max(result, proposed)
		} else {
			result = min(result, proposed)
		}
	}
	return result
}

// Defaulted returns a deep copy of the spec with the API server's defaults.
func Defaulted(spec autoscaling.HorizontalPodAutoscalerSpec) autoscaling.HorizontalPodAutoscalerSpec {
	spec = *spec.DeepCopy()
	spec.MinReplicas = cmp.Or(spec.MinReplicas, new(int32(1)))
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
	r = cmp.Or(r, &autoscaling.HPAScalingRules{})
	r.SelectPolicy = cmp.Or(r.SelectPolicy, new(autoscaling.MaxChangePolicySelect))
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
