package explain

import (
	"fmt"
	"math"
	"strconv"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"

	"github.com/gpuscale/gpuscale/adapter/explain/hpa"
)

// sentence describes how a proposal is computed.
func sentence(p hpa.Proposal, m autoscaling.MetricSpec, w World, tolerance float64) string {
	if p.Error != nil {
		return "no proposal"
	}
	band := hpa.TolerancesOf(w.HPA.Spec.Behavior, tolerance)
	s := fmt.Sprintf("%s of a target of %s: ratio %s", thousandths(p.Usage), thousandths(p.Target), short(p.Ratio))
	switch {
	case m.Type == autoscaling.PodsMetricSourceType:
		s = fmt.Sprintf("average %s over %s", s, count(p.Counted, "pod"))
		if p.Missing+p.Unready > 0 {
			s += fmt.Sprintf("; %s without a value, %d pending: taken as %s, ratio %s", count(p.Missing, "pod"), p.Unready, assumption(p.Ratio), short(p.Assumed))
		}
	case w.StatusReplicas > 0 && averages(m):
		s = fmt.Sprintf("shared by %s: %s", count(int(w.StatusReplicas), "replica"), s)
	}
	switch {
	case p.Within:
		s += fmt.Sprintf(", within %s to %s, so no change: %d", short(1-band.Down), short(1+band.Up), p.Replicas)
	case p.Reversed:
		s += fmt.Sprintf("; the assumed values would reverse the direction, so no change: %d", p.Replicas)
	default:
		s += fmt.Sprintf("; proposes %d", p.Replicas)
	}
	return s
}

func assumption(ratio float64) string {
	if ratio > 1 {
		return "idle, since the others are above target"
	}
	return "on target, since the others are below"
}

// averages reports whether the HPA divides the value by the replicas.
func averages(m autoscaling.MetricSpec) bool {
	a, err := metricOf(m)
	return err == nil && a.target.AverageValue != nil
}

// outcome describes the steps from the proposals to the replicas.
func outcome(d hpa.Decision, ctl hpa.Controller, spec autoscaling.HorizontalPodAutoscalerSpec, w World, o Options) Outcome {
	x := Outcome{Desired: d.Desired}
	step := func(format string, args ...any) { x.Steps = append(x.Steps, fmt.Sprintf(format, args...)) }
	switch {
	case ctl.Active == "ScalingDisabled":
		step("the target is at 0 replicas, which the HPA did not set: scaling is disabled until its replicas are set")
		return x
	case len(d.Proposals) == 0:
		step("%s: no metric is read", d.Why)
		return x
	case d.Error != nil && d.Desired == w.Replicas && ctl.Active != "ValidMetricFound":
		step("%v; so nothing changes", d.Error)
		return x
	case d.Error != nil:
		step("%v; the others may scale up, not down", d.Error)
	}
	step("the highest proposal is %d", d.Proposed)
	if d.Stable != d.Proposed {
		step("stabilisation makes it %d", d.Stable)
	}
	if d.Desired != d.Stable {
		step("limited to %d (%s)", d.Desired, ctl.Limited)
	}
	if d.Desired < w.Replicas {
		step("%s", window(spec, w, o))
	}
	return x
}

// window describes the stabilization. The controller's recent recommendations
// are not visible in the API.
func window(spec autoscaling.HorizontalPodAutoscalerSpec, w World, o Options) string {
	length := o.Window
	if b := spec.Behavior; b != nil && b.ScaleDown.StabilizationWindowSeconds != nil {
		length = time.Duration(*b.ScaleDown.StabilizationWindowSeconds) * time.Second
	}
	if length == 0 {
		return "no window delays scaling down"
	}
	s := fmt.Sprintf("this happens once no recommendation of the last %s was higher; only the controller knows them", length)
	if condition(w.HPA, autoscaling.AbleToScale) != "" {
		for _, c := range w.HPA.Status.Conditions {
			if c.Reason == "ScaleDownStabilized" {
				s += " (its status reports that one was)"
			}
		}
	}
	return s
}

func thousandths(milli int64) string {
	return strconv.FormatFloat(float64(milli)/1000, 'f', -1, 64)
}

// short rounds to three decimals. f may be infinite: the HPA divides by the
// number of replicas, which may be zero.
func short(f float64) string {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return "of a division by zero"
	}
	return strconv.FormatFloat(math.Round(f*1000)/1000, 'f', -1, 64)
}
