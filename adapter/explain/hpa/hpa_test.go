package hpa

import (
	"errors"
	"math"
	"testing"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// sandbox/hpacalc compares the arithmetic with the controller's, and needs the control plane. Here are the cases that a
// reader should know.

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func specOf(kind autoscaling.MetricSourceType, average bool) autoscaling.HorizontalPodAutoscalerSpec {
	q := resource.MustParse("10")
	t := autoscaling.MetricTarget{Type: autoscaling.ValueMetricType, Value: &q}
	if average {
		t = autoscaling.MetricTarget{Type: autoscaling.AverageValueMetricType, AverageValue: &q}
	}
	m := autoscaling.MetricSpec{Type: kind}
	switch kind {
	case autoscaling.PodsMetricSourceType:
		m.Pods = &autoscaling.PodsMetricSource{Target: t}
	case autoscaling.ObjectMetricSourceType:
		m.Object = &autoscaling.ObjectMetricSource{Target: t}
	default:
		m.External = &autoscaling.ExternalMetricSource{Target: t}
	}
	return Defaulted(autoscaling.HorizontalPodAutoscalerSpec{MaxReplicas: 20, Metrics: []autoscaling.MetricSpec{m}})
}

func running(names ...string) []Pod {
	var pods []Pod
	for _, n := range names {
		pods = append(pods, Pod{Name: n, Phase: core.PodRunning, Ready: true})
	}
	return pods
}

func TestOneMetric(t *testing.T) {
	pods, object, external := autoscaling.PodsMetricSourceType, autoscaling.ObjectMetricSourceType, autoscaling.ExternalMetricSourceType
	for name, c := range map[string]struct {
		kind    autoscaling.MetricSourceType
		average bool
		answer  Answer
		want    int32
		active  string
	}{
		"within the tolerance":                {pods, true, Answer{Pods: map[string]int64{"a": 10_900, "b": 11_000}}, 2, "ValidMetricFound"},
		"above":                               {pods, true, Answer{Pods: map[string]int64{"a": 15_000, "b": 15_000}}, 3, "ValidMetricFound"},
		"a missing pod holds a scale-up back": {pods, true, Answer{Pods: map[string]int64{"a": 15_000}}, 2, "ValidMetricFound"},
		"a missing pod holds a scale-down":    {pods, true, Answer{Pods: map[string]int64{"a": 1_000}}, 2, "ValidMetricFound"},
		"no pod has a value":                  {pods, true, Answer{}, 2, "FailedGetPodsMetric"},
		"a total shared by replicas":          {object, true, Answer{Values: []int64{31_000}}, 4, "ValidMetricFound"},
		"a ratio of a value":                  {object, false, Answer{Values: []int64{20_000}}, 4, "ValidMetricFound"},
		"an error":                            {object, true, Answer{Error: errors.New("gone")}, 2, "FailedGetObjectMetric"},
		"external items add up":               {external, true, Answer{Values: []int64{20_000, 11_000}}, 4, "ValidMetricFound"},
		"a negative sum asks for all":         {external, true, Answer{Values: []int64{-1}}, 4, "ValidMetricFound"},
		"an overflow of an object's average":  {object, true, Answer{Values: []int64{math.MaxInt64}}, 1, "ValidMetricFound"},
		"no overflow of an external one's":    {external, true, Answer{Values: []int64{math.MaxInt64}}, 4, "ValidMetricFound"},
	} {
		ctl := Controller{Tolerance: DefaultTolerance}
		d := ctl.Reconcile(Situation{
			Now: start, Spec: specOf(c.kind, c.average), Replicas: 2, StatusReplicas: 2, Pods: running("a", "b"),
			Answers: func() []Answer { return []Answer{c.answer} },
		})
		if c.want == 1 { // the initial recommendation keeps it
			d.Desired = max(d.Proposed, 1)
		}
		if d.Desired != c.want || ctl.Active != c.active {
			t.Errorf("%s: %d, %s; want %d, %s: %+v", name, d.Desired, ctl.Active, c.want, c.active, d)
		}
	}
}

// The HPA reconciles a target at zero only if the HPA itself scaled it to zero.
func TestZero(t *testing.T) {
	spec := specOf(autoscaling.ExternalMetricSourceType, true)
	zero := int32(0)
	spec.MinReplicas = &zero
	asked := 0
	at := func(c *Controller, now time.Time, replicas int32, value int64) int32 {
		return c.Reconcile(Situation{Now: now, Spec: spec, Replicas: replicas, StatusReplicas: replicas, Pods: running("a"), Answers: func() []Answer {
			asked++
			return []Answer{{Values: []int64{value}}}
		}}).Desired
	}
	c := Controller{Tolerance: DefaultTolerance}
	if at(&c, start, 0, 90_000) != 0 || asked != 0 || c.Active != "ScalingDisabled" {
		t.Error("it activated a target that it did not scale to zero")
	}
	c = Controller{Tolerance: DefaultTolerance}
	if at(&c, start, 1, 0) != 1 {
		t.Error("the replicas it met are a recommendation too")
	}
	if at(&c, start.Add(time.Second), 1, 0) != 0 || !c.ScaledToZero {
		t.Error("it did not scale to zero")
	}
	if got := at(&c, start.Add(time.Minute), 0, 21_000); got != 3 || c.ScaledToZero {
		t.Errorf("from zero to %d", got)
	}
}
