package e2e

import (
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/internal/testall"
)

// adapter under test: the beginning of its namespaces' names.
type adapter string

const (
	ours   adapter = "gpuscale"
	theirs adapter = "v0-12-0"
)

// adapters in the order of the document's rows: in make test ours alone, since what
// v0.12.0 does is for the document.
func adapters() []adapter {
	if compared() {
		return []adapter{ours, theirs}
	}
	return []adapter{ours}
}

// compared reports whether all faults are played, beside v0.12.0.
func compared() bool { return testall.Enabled() || *update }

// cell is a kind of metric and a kind of target: one HPA per adapter.
type cell struct {
	kind   autoscalingv2.MetricSourceType
	target autoscalingv2.MetricTargetType
}

// cells are all that an HPA can be made of; a Pods metric knows no Value.
func cells() []cell {
	return []cell{
		{autoscalingv2.PodsMetricSourceType, autoscalingv2.AverageValueMetricType},
		{autoscalingv2.ObjectMetricSourceType, autoscalingv2.AverageValueMetricType},
		{autoscalingv2.ObjectMetricSourceType, autoscalingv2.ValueMetricType},
		{autoscalingv2.ExternalMetricSourceType, autoscalingv2.AverageValueMetricType},
		{autoscalingv2.ExternalMetricSourceType, autoscalingv2.ValueMetricType},
	}
}

func (c cell) String() string { return string(c.kind) + ", " + string(c.target) }

func (c cell) namespace(a adapter) string {
	return string(a) + "-" + strings.ToLower(string(c.kind)+"-"+string(c.target))
}

// The load is shared by a namespace's pods, so that the right number of
// replicas is right whatever their number is at the moment.
const (
	replicas    = 6
	mostAllowed = 12
	perReplica  = 10
	load        = replicas * perReplica
	idleLoad    = perReplica // asks for one
)

// Both are made of the series work_in_hand{namespace, pod}.
const (
	workSeries = "work_in_hand"
	workSum    = "work"      // of an object: summed over its pods
	workEach   = "work_each" // averaged
)

// metric that goes with the target: a Value is compared as it is, so it must
// fall as replicas are added.
func (c cell) metric() string {
	if c.target == autoscalingv2.ValueMetricType {
		return workEach
	}
	return workSum
}

const workload = "workers"

// hpa of a cell, without any patience of its own.
func (c cell) hpa(a adapter) *autoscalingv2.HorizontalPodAutoscaler {
	goal := resource.MustParse("10")
	target := autoscalingv2.MetricTarget{Type: c.target}
	if c.target == autoscalingv2.ValueMetricType {
		target.Value = &goal
	} else {
		target.AverageValue = &goal
	}
	id := autoscalingv2.MetricIdentifier{Name: c.metric()}
	to := autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: workload}
	metric := autoscalingv2.MetricSpec{Type: c.kind}
	switch c.kind {
	case autoscalingv2.PodsMetricSourceType:
		metric.Pods = &autoscalingv2.PodsMetricSource{Metric: id, Target: target}
	case autoscalingv2.ObjectMetricSourceType:
		metric.Object = &autoscalingv2.ObjectMetricSource{DescribedObject: c.object(a), Metric: id, Target: target}
	default:
		metric.External = &autoscalingv2.ExternalMetricSource{Metric: id, Target: target}
	}
	least := int32(1)
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace(a), Name: workload},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: to, MinReplicas: &least, MaxReplicas: mostAllowed,
			Metrics: []autoscalingv2.MetricSpec{metric}, Behavior: atOnce(),
		},
	}
}

// object of an Object metric. prometheus-adapter finds an object's series by a
// label with its name: pods' series do not bear their Deployment's, so there
// the Namespace is asked about, which holds nothing else. Ours knows whose pods
// they are.
func (c cell) object(a adapter) autoscalingv2.CrossVersionObjectReference {
	if a == theirs {
		return autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "Namespace", Name: c.namespace(a)}
	}
	return autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: workload}
}

// atOnce is a behavior with no limits: what is wrong shows.
func atOnce() *autoscalingv2.HorizontalPodAutoscalerBehavior {
	none, most := int32(0), autoscalingv2.MaxChangePolicySelect
	rules := &autoscalingv2.HPAScalingRules{
		StabilizationWindowSeconds: &none, SelectPolicy: &most,
		Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy, Value: 100, PeriodSeconds: 1}},
	}
	return &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules, ScaleDown: rules.DeepCopy()}
}
