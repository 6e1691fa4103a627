package guardrails

import (
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// exporters is a fake of all nodes' exporters and of the Prometheus that asked
// them: GPUs go to pods in the order in which these are listed.
type exporters struct {
	w *world

	mu    sync.Mutex
	taken *observe.Readings
	sick  map[string]bool // by node: GPU 0 has an error it does not recover from
}

func (e *exporters) set(change func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change()
}

// read is for observe.Options.Readings.
func (e *exporters) read() *observe.Readings {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.taken
}

// scrape takes readings, before the cluster is looked at: Prometheus never knows of a
// pod's GPUs before the API server knows of its node.
func (e *exporters) scrape() {
	e.mu.Lock()
	defer e.mu.Unlock()
	var nodes corev1.NodeList
	var pods corev1.PodList
	e.w.must(e.w.Admin.List(e.w.t.Context(), &nodes))
	e.w.must(e.w.Admin.List(e.w.t.Context(), &pods))
	var a observe.Answers
	for i := range nodes.Items {
		e.node(&a, &nodes.Items[i], pods.Items)
	}
	e.taken = observe.NewReadings(e.w.now(), a)
}

func (e *exporters) node(a *observe.Answers, n *corev1.Node, pods []corev1.Pod) {
	gpus := gpusOf(n.Status.Allocatable)
	if gpus == 0 {
		return
	}
	series := func(value float64, labels ...string) prom.Sample {
		m := map[string]string{metric.LabelNode: n.Name}
		for i := 0; i < len(labels); i += 2 {
			m[labels[i]] = labels[i+1]
		}
		return prom.Sample{Labels: prom.FromMap(m), Value: value, Time: e.w.now()}
	}
	a.Age = append(a.Age, series(0))
	next := 0
	for i := range pods {
		p := &pods[i]
		if p.Spec.NodeName != n.Name || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		for range gpusOf(p.Spec.Containers[0].Resources.Requests) {
			a.Allocated = append(a.Allocated, series(1, metric.LabelGPU, strconv.Itoa(next), metric.LabelNamespace, p.Namespace, metric.LabelPod, p.Name))
			next++
		}
	}
	for c := range gpus {
		index := strconv.Itoa(c)
		healthy := 1.0
		if c == 0 && e.sick[n.Name] {
			healthy = 0
			e.w.condemn(n)
		}
		a.Info = append(a.Info, series(1, metric.LabelGPU, index, metric.LabelGPUUUID, "GPU-"+n.Name+"-"+index, metric.LabelModel, product, metric.LabelMIG, "false"))
		a.Healthy = append(a.Healthy, series(healthy, metric.LabelGPU, index))
		a.Busy = append(a.Busy, series(0.5, metric.LabelGPU, index))
		a.SampleAge = append(a.SampleAge, series(0, metric.LabelGPU, index))
	}
}

func gpusOf(list corev1.ResourceList) int {
	q := list["nvidia.com/gpu"]
	return int(q.Value())
}

// condemn sets the node's condition, as the exporter on a node with a sick GPU does.
func (w *world) condemn(n *corev1.Node) {
	w.t.Helper()
	is := func(c corev1.NodeCondition) bool { return c.Type == "GPUHealthy" && c.Status == corev1.ConditionFalse }
	if slices.ContainsFunc(n.Status.Conditions, is) {
		return
	}
	before := n.DeepCopy()
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "GPUHealthy", Status: corev1.ConditionFalse, Reason: "GPUsUnhealthy"})
	w.must(client.IgnoreNotFound(w.Admin.Status().Patch(w.t.Context(), n, client.StrategicMergeFrom(before))))
}
