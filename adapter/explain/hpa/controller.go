package hpa

import (
	"errors"
	"fmt"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
)

// What kube-controller-manager does where nobody sets its flags.
const (
	DefaultTolerance = 0.1
	DefaultWindow    = 5 * time.Minute
	DefaultPeriod    = 15 * time.Second
)

// Controller reconciles one HPA again and again. It remembers what the real one
// remembers; a new Controller is a controller manager that has just started.
type Controller struct {
	// Tolerance and Window are --horizontal-pod-autoscaler-tolerance and
	// --horizontal-pod-autoscaler-downscale-stabilization.
	Tolerance float64
	Window    time.Duration
	// ScaledToZero is the condition's status: the controller itself has taken
	// the target to zero, and so may take it back.
	ScaledToZero bool
	// Active, Able and Limited are the reasons of the conditions
	// ScalingActive, AbleToScale and ScalingLimited.
	Active, Able, Limited string

	past past
}

// Situation is what one reconciliation finds.
type Situation struct {
	Now  time.Time
	Spec autoscaling.HorizontalPodAutoscalerSpec // Defaulted
	// Replicas and StatusReplicas are the scale's spec.replicas and
	// status.replicas.
	Replicas, StatusReplicas int32
	Pods                     []Pod
	// Answers to Spec.Metrics, one for each. They are asked for only if the
	// controller would.
	Answers func() []Answer
}

// Decision is what one reconciliation does.
type Decision struct {
	// Error: nothing could be computed and nothing is done, or, with a change,
	// some metrics failed.
	Error error
	// Proposals of the metrics in their order; empty if none was asked for.
	Proposals []Proposal
	// Wanted is the highest proposal, Stable what the stabilisation makes of
	// it, Desired what is done.
	Wanted, Stable, Desired int32
	// Why the replicas change, empty if they do not.
	Why string
}

// Reconcile decides, and remembers that it did.
func (c *Controller) Reconcile(s Situation) Decision {
	c.Able = "SucceededGetScale"
	if c.past.recommendations == nil {
		c.past.recommendations = []change{{s.Replicas, s.Now}}
	}
	c.past.prune(s.Now, c.Window)
	minimum := *s.Spec.MinReplicas
	d := Decision{Desired: s.Replicas}
	switch {
	case s.Replicas == 0 && !c.wakes(s.Spec):
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

// wakes says whether a target at zero is looked at.
func (c *Controller) wakes(spec autoscaling.HorizontalPodAutoscalerSpec) bool {
	return c.ScaledToZero && (*spec.MinReplicas != 0 || ofObject(spec))
}

func ofObject(spec autoscaling.HorizontalPodAutoscalerSpec) bool {
	for _, m := range spec.Metrics {
		if m.Type == autoscaling.ObjectMetricSourceType || m.Type == autoscaling.ExternalMetricSourceType {
			return true
		}
	}
	return false
}

// measure decides by the metrics, false if they give nothing to decide by.
func (c *Controller) measure(s Situation, d *Decision) bool {
	if !c.propose(s, d) {
		return false
	}
	wanted := max(d.Wanted, 0)
	d.Wanted = wanted
	switch {
	case wanted > s.Replicas:
		d.Why = "above target"
	case wanted < s.Replicas:
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

// propose takes the highest of the proposals. If some metrics have none, what
// the others say may take the replicas up but not down.
func (c *Controller) propose(s Situation, d *Decision) bool {
	calc := calculator{specReplicas: s.Replicas, statusReplicas: s.StatusReplicas, pods: s.Pods, tolerances: TolerancesOf(s.Spec.Behavior, c.Tolerance)}
	answers := s.Answers()
	failed, reason := 0, ""
	for i, m := range s.Spec.Metrics {
		a := Answer{Error: errors.New("nobody answered")}
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
		if d.Wanted == 0 || p.Replicas > d.Wanted {
			d.Wanted = p.Replicas
		}
	}
	if failed > 0 {
		d.Error = fmt.Errorf("%d of %d metrics have no value: %w", failed, len(s.Spec.Metrics), d.Error)
	}
	if failed == len(s.Spec.Metrics) || failed > 0 && d.Wanted < s.Replicas {
		c.Active = reason
		d.Wanted, d.Stable = s.Replicas, s.Replicas
		return false
	}
	c.Active = "ValidMetricFound"
	return true
}

// normalize applies windows, policies and bounds.
func (c *Controller) normalize(s Situation, d *Decision) {
	minimum, maximum, b := *s.Spec.MinReplicas, s.Spec.MaxReplicas, s.Spec.Behavior
	var l limited
	able := "ScaleDownStabilized"
	if b == nil {
		d.Stable = c.past.highest(d.Wanted, c.Window, s.Now)
		l = simple(s.Replicas, d.Stable, minimum, maximum)
	} else {
		if d.Wanted >= s.Replicas {
			able = "ScaleUpStabilized"
		}
		d.Stable = c.past.stabilize(s.Replicas, d.Wanted, seconds(b.ScaleUp, 0), seconds(b.ScaleDown, c.Window), s.Now)
		l = c.past.rated(s.Replicas, d.Stable, minimum, maximum, b, s.Now)
	}
	c.past.recommendations = append(c.past.recommendations, change{d.Wanted, s.Now})
	c.Able = "ReadyForNewScale"
	if d.Stable != d.Wanted {
		c.Able = able
	}
	c.Limited, d.Desired = l.reason, l.replicas
}

func seconds(r *autoscaling.HPAScalingRules, otherwise time.Duration) time.Duration {
	if r.StabilizationWindowSeconds == nil {
		return otherwise.Truncate(time.Second)
	}
	return time.Duration(*r.StabilizationWindowSeconds) * time.Second
}

func (c *Controller) rescaled(s Situation, desired int32) {
	c.Able = "SucceededRescale"
	if b := s.Spec.Behavior; b != nil {
		if desired > s.Replicas {
			c.past.ups = store(c.past.ups, desired-s.Replicas, b.ScaleUp, s.Now)
		} else {
			c.past.downs = store(c.past.downs, s.Replicas-desired, b.ScaleDown, s.Now)
		}
	}
	c.ScaledToZero = s.Replicas > 0 && desired == 0 && *s.Spec.MinReplicas == 0 && ofObject(s.Spec)
}
