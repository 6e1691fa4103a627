package hpa

import (
	"errors"
	"fmt"
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

	past past
}

// Situation is the input of one reconciliation.
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
	if c.past.recommendations == nil {
		c.past.recommendations = []change{{s.Replicas, s.Now}}
	}
	c.past.prune(s.Now, c.Window)
	minimum := *s.Spec.MinReplicas
	d := Decision{Desired: s.Replicas}
	switch {
	case s.Replicas == 0 && !(c.ScaledToZero && (minimum != 0 || ofObject(s.Spec))):
		c.Active = "ScalingDisabled"
		return d
	case s.Replicas != 0 && s.Replicas > s.Spec.MaxReplicas:
		d.Desired, d.Why = s.Spec.MaxReplicas, "more replicas than maxReplicas"
	case s.Replicas != 0 && s.Replicas < minimum:
		d.Desired, d.Why = minimum, "fewer replicas than minReplicas"
	default:
		if !c.measure(s, &d) {
			return d
		}
		if d.Desired == s.Replicas {
			return d
		}
	}
	c.rescaled(s, d.Desired)
	return d
}

func ofObject(spec autoscaling.HorizontalPodAutoscalerSpec) bool {
	return slices.ContainsFunc(spec.Metrics, func(m autoscaling.MetricSpec) bool {
		return m.Type == autoscaling.ObjectMetricSourceType || m.Type == autoscaling.ExternalMetricSourceType
	})
}

// measure decides by the metrics; false if they give no proposal.
func (c *Controller) measure(s Situation, d *Decision) bool {
	if !c.propose(s, d) {
		return false
	}
	d.Proposed = max(d.Proposed, 0)
	switch {
	case d.Proposed > s.Replicas:
		d.Why = "above target"
	case d.Proposed < s.Replicas:
		d.Why = "all metrics below target"
	}
	c.normalize(s, d)
	if minimum := *s.Spec.MinReplicas; s.Replicas == 0 && minimum != 0 && c.ScaledToZero && d.Desired < minimum {
		d.Desired, d.Why = minimum, "fewer replicas than minReplicas"
	}
	if d.Desired == s.Replicas {
		d.Why = ""
	}
	return true
}

// propose takes the highest of the proposals. If some metrics have none, the
// others may scale up but not down.
func (c *Controller) propose(s Situation, d *Decision) bool {
	calc := calculator{specReplicas: s.Replicas, statusReplicas: s.StatusReplicas, pods: s.Pods, tolerances: TolerancesOf(s.Spec.Behavior, c.Tolerance)}
	answers := s.Answers()
	failed, reason := 0, ""
	for i, m := range s.Spec.Metrics {
		a := Answer{Error: errors.New("no answer")}
		if i < len(answers) {
			a = answers[i]
		}
		p, why := calc.propose(m, a)
		d.Proposals = append(d.Proposals, p)
		if p.Error != nil {
			if failed++; failed == 1 {
				reason, d.Error = why, p.Error
			}
			continue
		}
		if d.Proposed == 0 || p.Replicas > d.Proposed {
			d.Proposed = p.Replicas
		}
	}
	if failed > 0 {
		d.Error = fmt.Errorf("%d of %d metrics have no value: %w", failed, len(s.Spec.Metrics), d.Error)
	}
	if failed == len(s.Spec.Metrics) || failed > 0 && d.Proposed < s.Replicas {
		c.Active = reason
		d.Proposed, d.Stable = s.Replicas, s.Replicas
		return false
	}
	c.Active = "ValidMetricFound"
	return true
}

// normalize applies windows, policies and bounds.
func (c *Controller) normalize(s Situation, d *Decision) {
	minimum, maximum, b := *s.Spec.MinReplicas, s.Spec.MaxReplicas, s.Spec.Behavior
	if b == nil {
		d.Stable = c.past.highest(d.Proposed, c.Window, s.Now)
		d.Desired, c.Limited = simple(s.Replicas, d.Stable, minimum, maximum)
	} else {
		d.Stable = c.past.stabilize(s.Replicas, d.Proposed, seconds(b.ScaleUp, 0), seconds(b.ScaleDown, c.Window), s.Now)
		d.Desired, c.Limited = c.past.rated(s.Replicas, d.Stable, minimum, maximum, b, s.Now)
	}
	c.past.recommendations = append(c.past.recommendations, change{d.Proposed, s.Now})
}

func seconds(r *autoscaling.HPAScalingRules, otherwise time.Duration) time.Duration {
	if r.StabilizationWindowSeconds == nil {
		return otherwise.Truncate(time.Second)
	}
	return time.Duration(*r.StabilizationWindowSeconds) * time.Second
}

func (c *Controller) rescaled(s Situation, desired int32) {
	if b := s.Spec.Behavior; b != nil {
		if desired > s.Replicas {
			c.past.ups = store(c.past.ups, desired-s.Replicas, b.ScaleUp, s.Now)
		} else {
			c.past.downs = store(c.past.downs, s.Replicas-desired, b.ScaleDown, s.Now)
		}
	}
	c.ScaledToZero = s.Replicas > 0 && desired == 0 && *s.Spec.MinReplicas == 0 && ofObject(s.Spec)
}
