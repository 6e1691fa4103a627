package hpacalc

import (
	"fmt"
	"math/rand/v2"

	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Input and output of hpa-calc; sandbox/controlplane/hpacalc.go explains them.
type (
	testCase struct {
		HPA       autoscaling.HorizontalPodAutoscaler `json:"hpa"`
		Replicas  int32                               `json:"replicas"`
		Period    int                                 `json:"period"`
		Tolerance float64                             `json:"tolerance"`
		Window    int                                 `json:"window"`
		Steps     []step                              `json:"steps"`
	}
	step struct {
		Pods    []pod    `json:"pods"`
		Each    *int64   `json:"each,omitempty"`
		Metrics []answer `json:"metrics"`
	}
	pod struct {
		Name    string `json:"name"`
		Phase   string `json:"phase"`
		Ready   bool   `json:"ready"`
		Deleted bool   `json:"deleted"`
	}
	answer struct {
		Error  string           `json:"error,omitempty"`
		Pods   map[string]int64 `json:"pods,omitempty"`
		Values []int64          `json:"values,omitempty"`
	}
	decision struct {
		AtMillis int64   `json:"atMillis"`
		Current  int32   `json:"current"`
		Desired  int32   `json:"desired"`
		Active   string  `json:"active"`
		Limited  string  `json:"limited"`
		ToZero   string  `json:"toZero"`
		Usage    []int64 `json:"usage"`
	}
)

// dice makes random cases near the interesting values: ratios near the tolerance, replicas near the bounds,
// times near the ends of windows.
type dice struct{ *rand.Rand }

func (d dice) chance(percent int) bool       { return d.IntN(100) < percent }
func (d dice) between(low, high int32) int32 { return low + d.Int32N(high-low+1) }

func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

func (d dice) testCase() testCase {
	minimum := pick(d, int32(0), 1, 1, 1, 2, 3)
	maximum := minimum + d.between(1, 30)
	c := testCase{
		Replicas: d.between(0, maximum+2), Period: pick(d, 15, 15, 15, 1, 7, 30, 60),
		Tolerance: pick(d, .1, .1, .1, 0, .25), Window: pick(d, 300, 300, 0, 60, 17),
	}
	spec := &c.HPA.Spec
	spec.MaxReplicas = maximum
	if minimum != 1 || d.chance(50) {
		spec.MinReplicas = &minimum
	}
	for i := range d.between(1, 3) {
		spec.Metrics = append(spec.Metrics, d.metric(fmt.Sprintf("m%d", i)))
	}
	spec.Behavior = d.behavior()
	if minimum == 0 && d.chance(70) {
		status := pick(d, core.ConditionTrue, core.ConditionTrue, core.ConditionFalse)
		c.HPA.Status.Conditions = []autoscaling.HorizontalPodAutoscalerCondition{{Type: autoscaling.ScaledToZero, Status: status}}
	}
	c.Steps = d.steps(c)
	return c
}

const target = 10_000

func (d dice) metric(name string) autoscaling.MetricSpec {
	id := autoscaling.MetricIdentifier{Name: name}
	q := resource.NewMilliQuantity(target, resource.DecimalSI)
	t := autoscaling.MetricTarget{Type: autoscaling.AverageValueMetricType, AverageValue: q}
	kind := d.IntN(5)
	if kind >= 3 {
		t = autoscaling.MetricTarget{Type: autoscaling.ValueMetricType, Value: q}
	}
	switch kind {
	case 0:
		return autoscaling.MetricSpec{Type: autoscaling.PodsMetricSourceType, Pods: &autoscaling.PodsMetricSource{Metric: id, Target: t}}
	case 1, 3:
		return autoscaling.MetricSpec{Type: autoscaling.ObjectMetricSourceType, Object: &autoscaling.ObjectMetricSource{
			Metric: id, Target: t, DescribedObject: autoscaling.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "target"},
		}}
	}
	return autoscaling.MetricSpec{Type: autoscaling.ExternalMetricSourceType, External: &autoscaling.ExternalMetricSource{Metric: id, Target: t}}
}

func (d dice) behavior() *autoscaling.HorizontalPodAutoscalerBehavior {
	if d.chance(35) {
		return nil
	}
	b := &autoscaling.HorizontalPodAutoscalerBehavior{}
	for _, to := range []**autoscaling.HPAScalingRules{&b.ScaleUp, &b.ScaleDown} {
		if d.chance(30) {
			continue
		}
		r := &autoscaling.HPAScalingRules{}
		if d.chance(60) {
			window := pick(d, int32(0), 0, 14, 15, 16, 30, 60, 300, 3600)
			r.StabilizationWindowSeconds = &window
		}
		if d.chance(50) {
			how := pick(d, autoscaling.MaxChangePolicySelect, autoscaling.MinChangePolicySelect, autoscaling.MinChangePolicySelect, autoscaling.DisabledPolicySelect)
			r.SelectPolicy = &how
		}
		if d.chance(40) {
			t := resource.NewMilliQuantity(int64(d.IntN(300)), resource.DecimalSI)
			r.Tolerance = t
		}
		for range d.IntN(4) {
			r.Policies = append(r.Policies, autoscaling.HPAScalingPolicy{
				Type:          pick(d, autoscaling.PodsScalingPolicy, autoscaling.PercentScalingPolicy),
				Value:         pick(d, int32(1), 2, 3, 10, 33, 50, 100, 150),
				PeriodSeconds: pick(d, int32(1), 14, 15, 16, 30, 45, 60, 600, 1800),
			})
		}
		*to = r
	}
	return b
}

func (d dice) steps(c testCase) []step {
	n := 1
	if d.chance(60) {
		n = int(d.between(2, 40))
	}
	steps := make([]step, n)
	for i := range steps {
		s := &steps[i]
		if n > 1 {
			each := d.value()
			s.Each = &each
		} else {
			s.Pods = d.pods(c.Replicas)
		}
		for _, m := range c.HPA.Spec.Metrics {
			s.Metrics = append(s.Metrics, d.answer(m, c.Replicas, s.Pods))
		}
	}
	return steps
}

// value returns a number near the target, sometimes far from it.
func (d dice) value() int64 {
	return pick(d, target, target, 0, 1, target-1, target+1, target*9/10, target*11/10, target*9/10-1, target*11/10+1,
		d.Int64N(3*target), d.Int64N(3*target), d.Int64N(100*target))
}

func (d dice) answer(m autoscaling.MetricSpec, replicas int32, pods []pod) answer {
	if d.chance(8) {
		return answer{Error: "gone"}
	}
	a := answer{}
	switch m.Type {
	case autoscaling.PodsMetricSourceType:
		a.Pods = map[string]int64{}
		missing := pick(d, 0, 0, 20, 60)
		for _, p := range pods {
			if !d.chance(missing) {
				a.Pods[p.Name] = d.value()
			}
		}
		if d.chance(5) {
			a.Pods["of-another"] = d.value()
		}
	case autoscaling.ObjectMetricSourceType:
		a.Values = []int64{d.value() * int64(pick(d, 1, max(replicas, 1)))}
	default:
		for range pick(d, 1, 1, 1, 2, 3) {
			a.Values = append(a.Values, d.value()*int64(pick(d, 1, max(replicas, 1))))
		}
		if d.chance(2) {
			a.Values = append(a.Values, pick[int64](d, -target, 1<<62, 1<<62, -1<<40))
		}
	}
	if d.chance(1) && len(a.Values) == 1 {
		a.Values[0] = pick[int64](d, 1<<45, 1<<50, -1<<50, -5)
	}
	return a
}

func (d dice) pods(replicas int32) []pod {
	n := replicas
	if d.chance(20) {
		n = d.between(0, replicas+3)
	}
	trouble := pick(d, 0, 0, 10, 50)
	pods := make([]pod, n)
	for i := range pods {
		pods[i] = pod{Name: fmt.Sprintf("p-%d", i), Phase: "Running", Ready: true}
		if d.chance(trouble) {
			pods[i].Phase = pick(d, "Running", "Pending", "Failed", "Succeeded", "Unknown")
			pods[i].Ready = d.chance(40)
			pods[i].Deleted = d.chance(25)
		}
	}
	return pods
}
