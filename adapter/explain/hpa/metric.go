package hpa

import (
	"errors"
	"fmt"
	"maps"
	"math"

	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
)

// Pod is the part of a target's pod that the controller reads.
type Pod struct {
	Name    string
	Phase   core.PodPhase
	Ready   bool
	Deleted bool // a deletion timestamp is set
}

// Answer is the metrics API's answer to one metric of the spec.
type Answer struct {
	// Error, if there was no value.
	Error error
	// Pods is the value of each pod, for type Pods.
	Pods map[string]int64
	// Values is one value for type Object, any number for type External.
	Values []int64
}

// Proposal is the result of one metric.
type Proposal struct {
	Error error `json:"-"`
	// Usage as the HPA's status shows it, and the Target it is compared with.
	Usage, Target int64
	// Ratio of usage to target, from the pods with a value.
	Ratio float64
	// Assumed is the ratio with assumed values for Missing and Unready pods;
	// equal to Ratio if there are none.
	Assumed float64
	Within  bool // the tolerance
	// Reversed: the assumptions reverse the direction, so nothing changes.
	Reversed bool
	// For type Pods: the number of pods that count, that have no value, and
	// that are pending.
	Counted, Missing, Unready int
	Replicas                  int32
}

// propose computes one metric. reason is the reason of the condition
// ScalingActive if it fails.
func (s Situation) propose(m autoscaling.MetricSpec, a Answer, band Tolerances) (p Proposal, reason string) {
	switch {
	case m.Type == autoscaling.PodsMetricSourceType && m.Pods != nil && m.Pods.Target.AverageValue != nil:
		return s.pods(m.Pods.Target.AverageValue.MilliValue(), a, band), "FailedGetPodsMetric"
	case m.Type == autoscaling.ObjectMetricSourceType && m.Object != nil:
		return s.whole(m.Object.Target, m.Object.Target.Type, false, a, band), "FailedGetObjectMetric"
	case m.Type == autoscaling.ExternalMetricSourceType && m.External != nil:
		// Here the controller reads which field is set, not the type.
		kind := autoscaling.ValueMetricType
		if m.External.Target.AverageValue != nil {
			kind = autoscaling.AverageValueMetricType
		}
		return s.whole(m.External.Target, kind, true, a, band), "FailedGetExternalMetric"
	}
	return Proposal{Error: fmt.Errorf("metrics of type %s are not computed here", m.Type)}, "InvalidMetricSourceType"
}

// whole computes a metric with one value for the whole target.
func (s Situation) whole(t autoscaling.MetricTarget, kind autoscaling.MetricTargetType, external bool, a Answer, band Tolerances) Proposal {
	switch {
	case a.Error != nil:
		return Proposal{Error: a.Error}
	case len(a.Values) == 0:
		return Proposal{Error: errors.New("no metrics returned")}
	case kind == autoscaling.AverageValueMetricType && t.AverageValue != nil:
		return s.shared(t.AverageValue.MilliValue(), a.Values, external, band)
	case kind == autoscaling.ValueMetricType && t.Value != nil:
		return s.ratio(t.Value.MilliValue(), a.Values, band)
	}
	return Proposal{Error: errors.New("neither a value target nor an average value target was set")}
}

// shared divides the value by the number of replicas. The controller treats every negative
// sum of external items as an overflow: a negative value proposes the maximum.
func (s Situation) shared(target int64, values []int64, external bool, band Tolerances) Proposal {
	usage := int64(0)
	for _, v := range values {
		if usage += v; usage < 0 && external {
			usage = math.MaxInt64
			break
		}
	}
	ratio := float64(usage) / (float64(target) * float64(s.StatusReplicas))
	p := Proposal{Target: target, Ratio: ratio, Assumed: ratio, Within: band.within(ratio)}
	switch proposed := math.Ceil(float64(usage) / float64(target)); {
	case p.Within:
		p.Replicas = s.StatusReplicas
	case external:
		p.Replicas = saturating(proposed)
	default:
		p.Replicas = overflowing(proposed)
	}
	switch {
	case float64(usage) >= math.MaxInt64:
		p.Usage = math.MaxInt64
	case s.StatusReplicas > 0: // the controller divides by zero, visible in the status only
		p.Usage = int64(math.Ceil(float64(usage) / float64(s.StatusReplicas)))
	}
	return p
}

// ratio multiplies the ready pods by the ratio of value and target.
func (s Situation) ratio(target int64, values []int64, band Tolerances) Proposal {
	usage := int64(0)
	for _, v := range values {
		if v > 0 && usage > math.MaxInt64-v {
			usage = math.MaxInt64
			break
		}
		usage += v
	}
	ratio := float64(usage) / float64(target)
	p := Proposal{Usage: usage, Target: target, Ratio: ratio, Assumed: ratio}
	ready := 0
	for _, pod := range s.Pods {
		if pod.Phase == core.PodRunning && pod.Ready {
			ready++
		}
	}
	p.Within = s.Replicas > 0 && band.within(ratio)
	switch {
	case s.Replicas == 0:
		p.Replicas = overflowing(math.Ceil(ratio))
	case p.Within:
		p.Replicas = s.Replicas
	case len(s.Pods) == 0:
		p.Error = errors.New("unable to calculate ready pods: no pods returned by selector while calculating replica count")
	default:
		p.Replicas = saturating(math.Ceil(ratio * float64(ready)))
	}
	return p
}

// saturating converts as the controller does where it saturates.
func saturating(f float64) int32 {
	if f > math.MaxInt32 {
		return math.MaxInt32
	}
	return overflowing(f)
}

// overflowing is a conversion that the controller leaves to the machine. It
// does what amd64 does: too many replicas become the most negative number,
// which is read as none. arm64 saturates.
func overflowing(f float64) int32 {
	if f > math.MaxInt32 || f < math.MinInt32 || math.IsNaN(f) {
		return math.MinInt32
	}
	return int32(f)
}

// pods compares the pods' average with the target. Pods without a value are assumed to
// work against the change: idle when scaling up, on target when scaling down. Pending
// pods are assumed idle when scaling up and ignored otherwise.
func (s Situation) pods(target int64, a Answer, band Tolerances) (p Proposal) {
	switch {
	case a.Error != nil:
		return Proposal{Error: a.Error}
	case len(a.Pods) == 0:
		return Proposal{Error: errors.New("no metrics returned from custom metrics API")}
	case len(s.Pods) == 0:
		return Proposal{Error: errors.New("no pods returned by selector while calculating replica count")}
	}
	p.Target = target
	values := maps.Clone(a.Pods)
	for _, pod := range s.Pods {
		_, found := values[pod.Name]
		switch {
		case pod.Deleted || pod.Phase == core.PodFailed:
			delete(values, pod.Name)
		case pod.Phase == core.PodPending:
			p.Unready++
			delete(values, pod.Name)
		case !found:
			p.Missing++
		default:
			p.Counted++
		}
	}
	total, n := int64(0), len(values)
	for _, v := range values {
		total += v
	}
	if n == 0 {
		p.Error = errors.New("did not receive metrics for targeted pods (pods might be unready)")
		return p
	}
	p.Usage = total / int64(n)
	p.Ratio = float64(p.Usage) / float64(target)
	p.Assumed = p.Ratio
	up, replicas := p.Ratio > 1, p.Counted
	assumed := p.Missing > 0 || p.Unready > 0 && up
	if assumed {
		switch {
		case up:
			n += p.Missing + p.Unready
		case p.Ratio < 1:
			total, n = total+int64(p.Missing)*target, n+p.Missing
		}
		p.Assumed, replicas = float64(total/int64(n))/float64(target), n
	}
	p.Within = band.within(p.Assumed)
	p.Replicas = overflowing(math.Ceil(p.Assumed * float64(replicas)))
	p.Reversed = assumed && (p.Ratio < 1 && p.Assumed > 1 || up && p.Assumed < 1 ||
		p.Assumed < 1 && p.Replicas > s.Replicas || p.Assumed > 1 && p.Replicas < s.Replicas)
	if p.Within || p.Reversed {
		p.Replicas = s.Replicas
	}
	return p
}
