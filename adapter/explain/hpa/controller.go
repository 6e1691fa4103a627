package hpa

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
)

// Defaults of kube-controller-manager's flags.
const (
	DefaultTolerance = 0.1
	DefaultWindow    = 5 * time.Minute
	DefaultPeriod    = 15 * time.Second
)

// Controller reconciles one HPA repeatedly. It keeps the same state as the real
// one; a new Controller is a controller manager that has just started.
type Controller struct {
	// Tolerance and Window are --horizontal-pod-autoscaler-tolerance and
	// --horizontal-pod-autoscaler-downscale-stabilization.
	Tolerance float64
	Window    time.Duration
	// ScaledToZero is the condition's status: the controller itself has scaled
	// the target to zero, and so may scale it up.
	ScaledToZero bool
	// Active and Limited are the reasons of the conditions ScalingActive and ScalingLimited.
	Active, Limited string

	recommendations []change // in order of their times
	ups, downs      []change // by how much rescales changed the replicas
}

type change struct {
	replicas int32
	at       time.Time
}

// Situation is the input of one reconciliation. Now is never before the last one's.
type Situation struct {
	Now  time.Time
	Spec autoscaling.HorizontalPodAutoscalerSpec // Defaulted
	// Replicas and StatusReplicas are the scale's spec.replicas and
	// status.replicas.
	Replicas, StatusReplicas int32
	Pods                     []Pod
	// Answers to Spec.Metrics, one for each. It is called only when the real
	// controller would query.
	Answers func() []Answer
}

// Decision is the result of one reconciliation.
type Decision struct {
	// Error: nothing could be computed and nothing changes; or, with a change,
	// some metrics failed.
	Error error
	// Proposals of the metrics in their order; empty if none was read.
	Proposals []Proposal
	// Proposed is the highest proposal, Stable the number after stabilization,
	// Desired the number after limits.
	Proposed, Stable, Desired int32
	// Why the replicas change, empty if they do not.
	Why string
}

// Reconcile decides, and records the decision.
func (c *Controller) Reconcile(s Situation) Decision {
	if c.recommendations == nil {
		c.recommendations = []change{{s.Replicas, s.Now}}
	}
	minimum, maximum := *s.Spec.MinReplicas, s.Spec.MaxReplicas
	d := Decision{Desired: s.Replicas}
	switch {
	case s.Replicas == 0 && !(c.ScaledToZero && (minimum != 0 || ofObject(s.Spec))):
		c.Active = "ScalingDisabled"
	case s.Replicas > maximum:
		d.Desired, d.Why = maximum, "more replicas than maxReplicas"
	case s.Replicas != 0 && s.Replicas < minimum:
		d.Desired, d.Why = minimum, "fewer replicas than minReplicas"
	case c.propose(s, &d):
		c.normalize(s, &d)
	}
	if d.Desired != s.Replicas {
		c.rescaled(s, d.Desired)
	}
	return d
}

func ofObject(spec autoscaling.HorizontalPodAutoscalerSpec) bool {
	return slices.ContainsFunc(spec.Metrics, func(m autoscaling.MetricSpec) bool {
		return m.Type == autoscaling.ObjectMetricSourceType || m.Type == autoscaling.ExternalMetricSourceType
	})
}

// propose takes the highest proposal. It returns false if nothing may change. If some
// metrics have no proposal, the others may scale up but not down.
func (c *Controller) propose(s Situation, d *Decision) bool {
	answers, failed, reason := s.Answers(), 0, ""
	for i, m := range s.Spec.Metrics {
		a := Answer{Error: errors.New("no answer")}
		if i < len(answers) {
			a = answers[i]
		}
		p, why := s.propose(m, a, TolerancesOf(s.Spec.Behavior, c.Tolerance))
		d.Proposals = append(d.Proposals, p)
		switch {
		case p.Error == nil && (d.Proposed == 0 || p.Replicas > d.Proposed):
			d.Proposed = p.Replicas
		case p.Error != nil:
			if failed++; failed == 1 {
				reason, d.Error = why, p.Error
			}
		}
	}
	if failed > 0 {
		d.Error = fmt.Errorf("%d of %d metrics have no value: %w", failed, len(s.Spec.Metrics), d.Error)
	}
	if failed == len(s.Spec.Metrics) || failed > 0 && d.Proposed < s.Replicas {
		c.Active, d.Proposed, d.Stable = reason, s.Replicas, s.Replicas
		return false
	}
	c.Active, d.Proposed = "ValidMetricFound", max(d.Proposed, 0)
	return true
}

// normalize applies windows, policies and bounds.
func (c *Controller) normalize(s Situation, d *Decision) {
	if b := s.Spec.Behavior; b == nil {
		_, d.Stable = c.recommended(d.Proposed, s.Now.Add(-c.Window-1)) // without behavior the window's first instant counts too
	} else {
		low, _ := c.recommended(d.Proposed, s.Now.Add(-window(b.ScaleUp, 0)))
		_, high := c.recommended(d.Proposed, s.Now.Add(-window(b.ScaleDown, c.Window)))
		d.Stable = min(max(s.Replicas, low), high) // the smallest change that stays between them
	}
	c.recommendations = append(c.recommendations, change{d.Proposed, s.Now})
	d.Desired, c.Limited = c.limit(s, d.Stable)
	switch minimum := *s.Spec.MinReplicas; {
	case s.Replicas == 0 && d.Desired < minimum:
		d.Desired, d.Why = minimum, "fewer replicas than minReplicas"
	case d.Desired == s.Replicas:
	case d.Proposed > s.Replicas:
		d.Why = "above target"
	case d.Proposed < s.Replicas:
		d.Why = "all metrics below target"
	}
}

func window(r *autoscaling.HPAScalingRules, otherwise time.Duration) time.Duration {
	if r.StabilizationWindowSeconds == nil {
		return otherwise.Truncate(time.Second)
	}
	return time.Duration(*r.StabilizationWindowSeconds) * time.Second
}

// recommended returns the lowest and the highest recommendation after a time, the new one
// included.
func (c *Controller) recommended(proposed int32, after time.Time) (low, high int32) {
	low, high = proposed, proposed
	for _, r := range slices.Backward(c.recommendations) {
		if !r.at.After(after) {
			break
		}
		low, high = min(low, r.replicas), max(high, r.replicas)
	}
	return low, high
}

// limit applies policies and bounds. Without behavior the replicas may at most double, or
// reach 4. why is the reason of the condition ScalingLimited.
func (c *Controller) limit(s Situation, proposed int32) (replicas int32, why string) {
	current, minimum, maximum, b := s.Replicas, *s.Spec.MinReplicas, s.Spec.MaxReplicas, s.Spec.Behavior
	highest, lowest := int32(math.Max(2*float64(current), 4)), minimum
	if b != nil {
		highest, lowest = max(c.allowed(s, b.ScaleUp, true), current), min(c.allowed(s, b.ScaleDown, false), current)
	}
	switch {
	case b == nil && proposed < minimum:
		return minimum, "TooFewReplicas"
	case proposed > current && proposed > highest && highest < maximum:
		return highest, "ScaleUpLimit"
	case proposed > current && proposed > maximum:
		return maximum, "TooManyReplicas"
	case proposed < current && proposed < lowest && lowest > minimum:
		return lowest, "ScaleDownLimit"
	case proposed < current && proposed < minimum:
		return minimum, "TooFewReplicas"
	}
	return proposed, "DesiredWithinRange"
}

// allowed is the number of replicas that the policies of one direction allow.
func (c *Controller) allowed(s Situation, r *autoscaling.HPAScalingRules, up bool) int32 {
	if *r.SelectPolicy == autoscaling.DisabledPolicySelect {
		return s.Replicas
	}
	var all []int32
	for _, policy := range r.Policies {
		after := s.Now.Add(-time.Duration(policy.PeriodSeconds) * time.Second)
		start := s.Replicas - changed(c.ups, after) + changed(c.downs, after)
		switch percent := float64(policy.Value) / 100; {
		case policy.Type == autoscaling.PercentScalingPolicy && up:
			all = append(all, int32(math.Ceil(float64(start)*(1+percent))))
		case policy.Type == autoscaling.PercentScalingPolicy:
			all = append(all, int32(float64(start)*(1-percent)))
		case up:
			all = append(all, start+policy.Value)
		default:
			all = append(all, start-policy.Value)
		}
	}
	if up == (*r.SelectPolicy == autoscaling.MinChangePolicySelect) { // the policy with the smallest change
		return slices.Min(all)
	}
	return slices.Max(all)
}

func changed(list []change, after time.Time) (total int32) {
	for _, e := range list {
		if e.at.After(after) {
			total += e.replicas
		}
	}
	return total
}

func (c *Controller) rescaled(s Situation, desired int32) {
	if b := s.Spec.Behavior; b != nil {
		if desired > s.Replicas {
			c.ups = store(c.ups, change{desired - s.Replicas, s.Now}, b.ScaleUp)
		} else {
			c.downs = store(c.downs, change{s.Replicas - desired, s.Now}, b.ScaleDown)
		}
	}
	c.ScaledToZero = s.Replicas > 0 && desired == 0 && *s.Spec.MinReplicas == 0 && ofObject(s.Spec)
}

// store adds a rescale in one direction. As in the controller, it replaces a
// rescale that is older than the longest period of this direction. The other
// direction may have a longer period and still need the replaced one.
func store(list []change, rescale change, r *autoscaling.HPAScalingRules) []change {
	longest := int32(0)
	for _, policy := range r.Policies {
		longest = max(longest, policy.PeriodSeconds)
	}
	for i, e := range slices.Backward(list) {
		if e.at.Before(rescale.at.Add(-time.Duration(longest) * time.Second)) {
			list[i] = rescale
			return list
		}
	}
	return append(list, rescale)
}
