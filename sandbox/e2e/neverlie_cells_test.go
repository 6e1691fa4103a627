package e2e

import (
	"fmt"
	"iter"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

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
func compared() bool { return testall.Enabled() }

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

// hpas are those of the adapters, one for each cell.
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

// The load is shared by a namespace's pods, so that the right number of
// replicas is right whatever their number is at the moment.
const (
	replicas   = 6
	perReplica = 10
	load       = replicas * perReplica
	idleLoad   = perReplica // asks for one
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

// spec of the metric of a cell's HPA.
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

// object of an Object metric. prometheus-adapter finds an object's series by a
// label with its name: pods' series do not bear their Deployment's, so there
// the Namespace is asked about, which holds nothing else. Ours knows whose pods
// they are.
func (c cell) object(a adapter) string {
	if a == theirs {
		return "{apiVersion: v1, kind: Namespace, name: " + c.namespace(a) + "}"
	}
	return "{apiVersion: apps/v1, kind: Deployment, name: " + workload + "}"
}

// atOnce is a behavior with no limits: what is wrong shows.
const atOnce = "{scaleUp: &atOnce {stabilizationWindowSeconds: 0, selectPolicy: Max, policies: [{type: Pods, value: 100, periodSeconds: 1}]}, scaleDown: *atOnce}"
