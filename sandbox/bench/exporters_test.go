package bench

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
	"github.com/gpuscale/gpuscale/sandbox/world/node"
)

// exporters answers the autoscaler's queries about whole GPUs as a Prometheus would that scrapes an exporter
// on every node. Values are current. A pod gets the first free GPUs of its node and keeps them.
type exporters struct {
	nodes func() []*corev1.Node
	pods  func() []*corev1.Pod

	mu       sync.Mutex
	machines map[string]*node.Machine
}

func (e *exporters) answer(query string) (r promtest.Response) {
	e.mu.Lock()
	defer e.mu.Unlock()
	name, measured := testenv.Queried(query), 0.0
	of := query
	switch name {
	case metric.GPUAttributionAgeSeconds.Name: // the first query of each reading
		e.allocate()
	case metric.GPUBusyRatio.Name:
		of, measured = metric.GPUHealthy.Name, 0.9 // one series for each GPU
	case metric.GPUSampleAgeSeconds.Name:
		of, measured = metric.GPUHealthy.Name, 1
	}
	for _, m := range e.machines {
		for _, s := range testenv.ExporterSeries(of, m) {
			s.Labels["__name__"], s.Labels["instance"], s.Labels["job"] = name, "10.0.0.1:9400", "gpuscale-exporter"
			switch {
			case of != query:
				s.Value = measured
			case name == metric.GPUInfo.Name:
				s.Labels[metric.LabelPCIBusID], s.Labels[metric.LabelDriverVersion] = "00000000:0F:00.0", "570.86.15"
			}
			r.Vector = append(r.Vector, s)
		}
	}
	return r
}

// allocate gives GPUs to the pods that are bound now.
func (e *exporters) allocate() {
	bound := map[string][]*corev1.Pod{}
	for _, p := range e.pods() {
		bound[p.Spec.NodeName] = append(bound[p.Spec.NodeName], p)
	}
	for _, n := range e.nodes() {
		m := e.machines[n.Name]
		if m == nil {
			var err error
			if m, err = node.New(node.Spec{Name: n.Name, Product: product, GPUs: gpusOfNode}, time.Now()); err != nil {
				panic(err) // product is a known one
			}
			e.machines[n.Name] = m
		}
		m.Sync(node.PodsOf(bound[n.Name]), time.Now())
	}
}
