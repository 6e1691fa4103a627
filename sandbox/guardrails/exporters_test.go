package guardrails

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
	"github.com/gpuscale/gpuscale/sandbox/world/node"
)

// exporters fakes the exporters of all nodes and the Prometheus that scrapes them.
type exporters struct {
	w    *world
	seen []*node.Machine // machines in the last scrape

	mu    sync.Mutex
	taken *observe.Readings
	sick  map[string]bool // nodes whose GPU 0 has an error that it does not recover from
}

func (e *exporters) set(change func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change()
}

// read returns the value for observe.Options.Readings.
func (e *exporters) read() *observe.Readings {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.taken
}

// scrape takes readings before the cluster is read: Prometheus never knows a pod's GPUs before the API server
// knows the pod's node.
func (e *exporters) scrape() {
	e.mu.Lock()
	defer e.mu.Unlock()
	var nodes corev1.NodeList
	e.w.must(e.w.Admin.List(e.w.t.Context(), &nodes))
	bound, err := e.w.bound()
	e.w.must(err)
	e.seen = nil
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if m := e.machine(n, bound[n.Name]); m != nil {
			e.seen = append(e.seen, m)
			if e.sick[n.Name] {
				e.w.condemn(n)
			}
		}
	}
	e.taken, err = observe.Read(e.w.t.Context(), e, nil, e.w.now())
	e.w.must(err)
}

// machine returns a node's machine, whose GPUs are allocated to pods in the order of their age; nil if the
// node has no GPUs.
func (e *exporters) machine(n *corev1.Node, pods []*corev1.Pod) *node.Machine {
	gpus := n.Status.Allocatable["nvidia.com/gpu"]
	if gpus.IsZero() {
		return nil
	}
	m, err := node.New(node.Spec{Name: n.Name, Product: product, GPUs: int(gpus.Value())}, e.w.now())
	e.w.must(err)
	m.Sync(node.PodsOf(pods), e.w.now())
	return m
}

// Query implements observe.Querier.
func (e *exporters) Query(_ context.Context, query string, _ time.Time) (out prom.Vector, _ error) {
	for _, m := range e.seen {
		for _, s := range testenv.ExporterSeries(testenv.Queried(query), m) {
			if testenv.Queried(query) == metric.GPUHealthy.Name && e.sick[m.Name()] && s.Labels[metric.LabelGPU] == "0" {
				s.Value = 0
			}
			out = append(out, prom.Sample{Labels: prom.FromMap(s.Labels), Value: s.Value, Time: e.w.now()})
		}
	}
	return out, nil
}

// bound returns all pods by the node that they are bound to.
func (w *world) bound() (map[string][]*corev1.Pod, error) {
	var pods corev1.PodList
	err := w.Admin.List(w.t.Context(), &pods)
	out := map[string][]*corev1.Pod{}
	for i := range pods.Items {
		out[pods.Items[i].Spec.NodeName] = append(out[pods.Items[i].Spec.NodeName], &pods.Items[i])
	}
	return out, err
}

// condemn sets the node's condition, as the exporter does on a node with a sick GPU.
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
