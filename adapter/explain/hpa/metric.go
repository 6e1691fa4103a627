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
	// Numbers of pods that count, without a value, pending, and failed or being
	// deleted. For a target of Value, Counted are the ready ones; an average
	// over Object or External counts no pods.
	Counted, Missing, Unready, Ignored int
	Replicas                           int32
}

// calculator is shared by the metrics of one reconciliation.
type calculator struct {
	specReplicas, statusReplicas int32
	pods                         []Pod
	tolerances                   Tolerances
	external                     bool // the current metric is external
}

// propose computes one metric. reason is the condition's if it fails.
func (c calculator) propose(m autoscaling.MetricSpec, a Answer) (p Proposal, reason string) {
	switch {
	case m.Type == autoscaling.PodsMetricSourceType && m.Pods != nil && m.Pods.Target.AverageValue != nil:
		return c.averagePods(m.Pods.Target.AverageValue.MilliValue(), a), "FailedGetPodsMetric"
	case m.Type == autoscaling.ObjectMetricSourceType && m.Object != nil:
		return c.whole(m.Object.Target, m.Object.Target.Type, a), "FailedGetObjectMetric"
	case m.Type == autoscaling.ExternalMetricSourceType && m.External != nil:
		// Here the controller reads which field is set, not the type.
		kind := autoscaling.ValueMetricType
		if m.External.Target.AverageValue != nil {
			kind = autoscaling.AverageValueMetricType
		}
		c.external = true
		return c.whole(m.External.Target, kind, a), "FailedGetExternalMetric"
	}
	return Proposal{Error: fmt.Errorf("metrics of type %s are not computed here", m.Type)}, "InvalidMetricSourceType"
}

// whole computes a metric with one value for the whole target.
func (c calculator) whole(t autoscaling.MetricTarget, kind autoscaling.MetricTargetType, a Answer) Proposal {
	switch {
	case a.Error != nil:
		return Proposal{Error: a.Error}
	case len(a.Values) == 0:
		return Proposal{Error: errors.New("no metrics returned")}
	case kind == autoscaling.AverageValueMetricType && t.AverageValue != nil:
		return c.averageWhole(t.AverageValue.MilliValue(), a.Values)
	case kind == autoscaling.ValueMetricType && t.Value != nil:
		return c.ratioWhole(t.Value.MilliValue(), sum(a.Values))
	}
	return Proposal{Error: errors.New("neither a value target nor an average value target was set")}
}

// sum adds up the items of an external metric for a target of Value.
func sum(values []int64) int64 {
	total := int64(0)
	for _, v := range values {
		if v > 0 && total > math.MaxInt64-v {
			return math.MaxInt64
		}
		total += v
	}
	return total
}

// averageWhole divides the value by the number of replicas.
func (c calculator) averageWhole(target int64, values []int64) Proposal {
	usage := values[0]
	if c.external {
		usage = sumForAverage(values)
	}
	ratio := float64(usage) / (float64(target) * float64(c.statusReplicas))
	p := Proposal{Target: target, Ratio: ratio, Assumed: ratio, Replicas: c.statusReplicas, Within: c.tolerances.within(ratio)}
	if !p.Within {
		proposed := math.Ceil(float64(usage) / float64(target))
		p.Replicas = overflowing(proposed)
		if c.external {
			p.Replicas = saturating(proposed)
		}
	}
	switch {
	case float64(usage) >= math.MaxInt64:
		p.Usage = math.MaxInt64
	case c.statusReplicas > 0: // the controller divides by zero, visible in the status only
		p.Usage = int64(math.Ceil(float64(usage) / float64(c.statusReplicas)))
	}
	return p
}

// sumForAverage is the controller's sum for a target of AverageValue. It treats
// every negative sum as an overflow: a negative value proposes the maximum.
func sumForAverage(values []int64) int64 {
	total := int64(0)
	for _, v := range values {
		if total += v; total < 0 {
			return math.MaxInt64
		}
	}
	return total
}

// ratioWhole multiplies the ready pods by the ratio of value and target.
func (c calculator) ratioWhole(target, usage int64) Proposal {
	ratio := float64(usage) / float64(target)
	p := Proposal{Usage: usage, Target: target, Ratio: ratio, Assumed: ratio}
	if c.specReplicas == 0 {
		p.Replicas = overflowing(math.Ceil(ratio))
		return p
	}
	for _, pod := range c.pods {
		if pod.Phase == core.PodRunning && pod.Ready {
			p.Counted++
		}
	}
	p.Within = c.tolerances.within(ratio)
	switch {
	case p.Within:
		p.Replicas = c.specReplicas
	case len(c.pods) == 0:
		p.Error = errors.New("unable to calculate ready pods: no pods returned by selector while calculating replica count")
	default:
		p.Replicas = saturating(math.Ceil(ratio * float64(p.Counted)))
	}
	return p
}

// saturating converts like the controller where that saturates.
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

// averagePods compares the pods' average with the target. Pods without a value
// get one against the change: idle when scaling up, on target when scaling down.
func (c calculator) averagePods(target int64, a Answer) Proposal {
	switch {
	case a.Error != nil:
		return Proposal{Error: a.Error}
	case len(a.Pods) == 0:
		return Proposal{Error: errors.New("no metrics returned from custom metrics API")}
	case len(c.pods) == 0:
		return Proposal{Error: errors.New("no pods returned by selector while calculating replica count")}
	}
	values := maps.Clone(a.Pods)
	p := Proposal{Target: target}
	missing, unready := c.group(values, &p)
	if len(values) == 0 {
		p.Error = errors.New("did not receive metrics for targeted pods (pods might be unready)")
		return p
	}
	p.Usage = average(values)
	p.Ratio = float64(p.Usage) / float64(target)
	p.Assumed = p.Ratio
	up := p.Ratio > 1
	if !(len(unready) > 0 && up) && len(missing) == 0 {
		if p.Within = c.tolerances.within(p.Ratio); p.Within {
			p.Replicas = c.specReplicas
			return p
		}
		p.Replicas = overflowing(math.Ceil(p.Ratio * float64(p.Counted)))
		return p
	}
	assume(values, missing, unready, p.Ratio, target)
	p.Assumed = float64(average(values)) / float64(target)
	p.Within = c.tolerances.within(p.Assumed)
	p.Replicas = overflowing(math.Ceil(p.Assumed * float64(len(values))))
	p.Reversed = p.Ratio < 1 && p.Assumed > 1 || up && p.Assumed < 1 ||
		p.Assumed < 1 && p.Replicas > c.specReplicas || p.Assumed > 1 && p.Replicas < c.specReplicas
	if p.Within || p.Reversed {
		p.Replicas = c.specReplicas
	}
	return p
}

// group classifies the pods and removes the values of those that do not count.
func (c calculator) group(values map[string]int64, p *Proposal) (missing, unready []string) {
	for _, pod := range c.pods {
		_, found := values[pod.Name]
		switch {
		case pod.Deleted || pod.Phase == core.PodFailed:
			p.Ignored++
			delete(values, pod.Name)
		case pod.Phase == core.PodPending:
			unready = append(unready, pod.Name)
			delete(values, pod.Name)
		case !found:
			missing = append(missing, pod.Name)
		default:
			p.Counted++
		}
	}
	p.Missing, p.Unready = len(missing), len(unready)
	return missing, unready
}

func assume(values map[string]int64, missing, unready []string, ratio float64, target int64) {
	for _, name := range missing {
		switch {
		case ratio < 1:
			values[name] = target
		case ratio > 1:
			values[name] = 0
		}
	}
	if ratio > 1 {
		for _, name := range unready {
			values[name] = 0
		}
	}
}

func average(values map[string]int64) int64 {
	total := int64(0)
	for _, v := range values {
		total += v
	}
	return total / int64(len(values))
}
