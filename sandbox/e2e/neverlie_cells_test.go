package e2e

import (
	"fmt"
	"iter"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/gpuscale/gpuscale/internal/testall"
)

// adapter is the adapter under test: the prefix of its namespaces' names.
type adapter string

const (
	ours   adapter = "gpuscale"
	theirs adapter = "v0-12-0"
)

// adapters returns the adapters in the order of the document's rows. make test plays only ours, since the
// results of v0.12.0 are only for the document.
func adapters() []adapter {
	if compared() {
		return []adapter{ours, theirs}
	}
	return []adapter{ours}
}

// compared reports whether all faults are played, and v0.12.0 too.
func compared() bool { return testall.Enabled() }

// cell is a kind of metric with a kind of target. Each adapter has one HPA for it.
type cell struct {
	kind   autoscalingv2.MetricSourceType
	target autoscalingv2.MetricTargetType
}

// cells returns all combinations that an HPA allows; a Pods metric cannot have a Value target.
func cells() []cell {
	return []cell{
		{autoscalingv2.PodsMetricSourceType, autoscalingv2.AverageValueMetricType},
		{autoscalingv2.ObjectMetricSourceType, autoscalingv2.AverageValueMetricType},
		{autoscalingv2.ObjectMetricSourceType, autoscalingv2.ValueMetricType},
		{autoscalingv2.ExternalMetricSourceType, autoscalingv2.AverageValueMetricType},
		{autoscalingv2.ExternalMetricSourceType, autoscalingv2.ValueMetricType},
	}
}

// hpas returns each adapter with each cell.
func hpas(of ...adapter) iter.Seq2[adapter, cell] {
	return func(yield func(adapter, cell) bool) {
		for _, a := range of {
			for _, c := range cells() {
				if !yield(a, c) {
					return
				}
			}
		}
	}
}

func (c cell) String() string { return string(c.kind) + ", " + string(c.target) }

func (c cell) namespace(a adapter) string {
	return string(a) + "-" + strings.ToLower(string(c.kind)+"-"+string(c.target))
}

// A namespace's pods share the load. So the right number of replicas does not depend on the current number.
const (
	replicas   = 6
	perReplica = 10
	load       = replicas * perReplica
	idleLoad   = perReplica // enough for one replica
)

// Names of metrics, both computed from the series work_in_hand{namespace, pod}.
const (
	workSeries = "work_in_hand"
	workSum    = "work"      // of an object: the sum over its pods
	workEach   = "work_each" // the mean over its pods
)

// metric returns the metric that suits the target. A Value target is compared directly, so its metric must
// fall as replicas are added.
func (c cell) metric() string {
	if c.target == autoscalingv2.ValueMetricType {
		return workEach
	}
	return workSum
}

const workload = "workers"

// spec returns the metric in the cell's HPA.
func (c cell) spec(a adapter) string {
	target := `{type: AverageValue, averageValue: "10"}`
	if c.target == autoscalingv2.ValueMetricType {
		target = `{type: Value, value: "10"}`
	}
	described := ""
	if c.kind == autoscalingv2.ObjectMetricSourceType {
		described = "describedObject: " + c.object(a) + ", "
	}
	return fmt.Sprintf("{type: %s, %s: {%smetric: {name: %s}, target: %s}}", c.kind, strings.ToLower(string(c.kind)), described, c.metric(), target)
}

// object returns the object of an Object metric. prometheus-adapter finds an object's series by a label with
// the object's name. Pods' series have no label with their Deployment's name, so for prometheus-adapter the
// object is the Namespace, which contains nothing else. Our adapter knows the pods of a workload.
func (c cell) object(a adapter) string {
	if a == theirs {
		return "{apiVersion: v1, kind: Namespace, name: " + c.namespace(a) + "}"
	}
	return "{apiVersion: apps/v1, kind: Deployment, name: " + workload + "}"
}

// atOnce is an HPA behavior without limits, so that any wrong value has an effect.
const atOnce = "{scaleUp: &atOnce {stabilizationWindowSeconds: 0, selectPolicy: Max, policies: [{type: Pods, value: 100, periodSeconds: 1}]}, scaleDown: *atOnce}"
