package bench

import (
	"fmt"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/gpu/trust"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
	"github.com/gpuscale/gpuscale/internal/require"
)

// exporters answer as a Prometheus with the series of an exporter on every node would: the
// autoscaler's queries about whole GPUs, with current values. A pod is allocated the first
// free GPUs of its node for good.
type exporters struct {
	nodes func() []*corev1.Node
	pods  func() []*corev1.Pod

	mu        sync.Mutex
	allocated map[string][]*corev1.Pod // by node: the pod of each GPU
	seen      map[string]bool          // pods with GPUs allocated
}

func newExporters(nodes func() []*corev1.Node, pods func() []*corev1.Pod) *exporters {
	return &exporters{nodes: nodes, pods: pods, allocated: map[string][]*corev1.Pod{}, seen: map[string]bool{}}
}

func (e *exporters) answer(query string) promtest.Response {
	name := strings.TrimLeft(query, "(")
	if end := strings.IndexAny(name, " (+{"); end > 0 {
		name = name[:end]
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.pods() {
		if at := p.Spec.NodeName; at != "" && !e.seen[p.Name] {
			e.seen[p.Name] = true
			n := p.Spec.Containers[0].Resources.Requests[gpu]
			for range n.Value() {
				e.allocated[at] = append(e.allocated[at], p)
			}
		}
	}
	var out []promtest.Series
	add := func(value float64, labels ...string) {
		all := map[string]string{"__name__": name, "instance": "10.0.0.1:9400", "job": "gpuscale-exporter"}
		for i := 0; i < len(labels); i += 2 {
			all[labels[i]] = labels[i+1]
		}
		out = append(out, promtest.Series{Labels: all, Value: value})
	}
	for _, n := range e.nodes() {
		if name == metric.GPUAttributionAgeSeconds.Name {
			add(1, metric.LabelNode, n.Name)
			continue
		}
		for i := range gpusOfNode {
			of := []string{metric.LabelNode, n.Name, metric.LabelGPU, strconv.Itoa(i), metric.LabelGPUUUID, fmt.Sprintf("GPU-%s-%d", n.Name, i)}
			switch name {
			case metric.GPUInfo.Name:
				add(1, append(of, metric.LabelModel, "NVIDIA H100 80GB HBM3", metric.LabelMIG, "false",
					metric.LabelPCIBusID, "00000000:0F:00.0", metric.LabelDriverVersion, "570.86.15")...)
			case metric.GPUHealthy.Name, metric.GPUSampleAgeSeconds.Name:
				add(1, of...)
			case metric.GPUBusyRatio.Name:
				add(0.9, append(of, metric.LabelModel, "NVIDIA H100 80GB HBM3")...)
			case metric.GPUHeld.Name:
				if held := e.allocated[n.Name]; i < len(held) {
					add(1, append(of, metric.LabelNamespace, work, metric.LabelPod, held[i].Name, metric.LabelContainer, "main")...)
				}
			}
		}
	}
	return promtest.Response{Vector: out}
}

// TestExportersAreTrusted: the autoscaler's reader accepts the fake's responses, and a pod's
// allocation is stable.
func TestExportersAreTrusted(t *testing.T) {
	pods := []*corev1.Pod{podOf("a", "n", 3), podOf("waits", "", 2)}
	fake := &promtest.Server{}
	fake.Script(newExporters(func() []*corev1.Node { return []*corev1.Node{nodeOf("n")} }, func() []*corev1.Pod { return pods }).answer)
	server := httptest.NewServer(fake)
	defer server.Close()
	read, err := prom.New(prom.Config{URL: server.URL, Timeout: time.Minute})
	require.NoError(t, err)
	want := func(all ...string) {
		t.Helper()
		if r, err := observe.Read(t.Context(), read, trust.From([]string{system}), time.Now()); err != nil || r.Taken.IsZero() {
			t.Fatal(r, err)
		}
		v, err := read.Query(t.Context(), "gpu_held", time.Time{})
		if err != nil || len(v) != len(all) {
			t.Fatalf("%v, %v; want %v", v, err, all)
		}
		for i, s := range v {
			if got := s.Labels.Get("gpu") + " " + s.Labels.Get("pod"); got != all[i] {
				t.Errorf("GPU and pod %q, want %q", got, all[i])
			}
		}
	}
	want("0 a", "1 a", "2 a")
	pods = []*corev1.Pod{podOf("later", "n", 1), pods[0]}
	want("0 a", "1 a", "2 a", "3 later")
}
