package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// exporters is a fake Prometheus with the series of an exporter on every node. It answers
// the autoscaler's queries about whole GPUs with current values. A pod is allocated the
// first free GPUs of its node for good.
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

type series struct {
	Labels map[string]string `json:"metric"`
	Value  [2]any            `json:"value"`
}

// ServeHTTP answers /api/v1/query.
func (e *exporters) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimLeft(r.FormValue("query"), "(")
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
	out, now := []series{}, time.Now().Unix()
	add := func(value string, labels ...string) {
		all := map[string]string{"__name__": name, "instance": "10.0.0.1:9400", "job": "gpuscale-exporter"}
		for i := 0; i < len(labels); i += 2 {
			all[labels[i]] = labels[i+1]
		}
		out = append(out, series{all, [2]any{now, value}})
	}
	for _, n := range e.nodes() {
		if name == metric.GPUAttributionAgeSeconds.Name {
			add("1", metric.LabelNode, n.Name)
			continue
		}
		for i := range gpusOfNode {
			of := []string{metric.LabelNode, n.Name, metric.LabelGPU, strconv.Itoa(i), metric.LabelGPUUUID, fmt.Sprintf("GPU-%s-%d", n.Name, i)}
			switch name {
			case metric.GPUInfo.Name:
				add("1", append(of, metric.LabelModel, "NVIDIA H100 80GB HBM3", metric.LabelMIG, "false",
					metric.LabelPCIBusID, "00000000:0F:00.0", metric.LabelDriverVersion, "570.86.15")...)
			case metric.GPUHealthy.Name, metric.GPUSampleAgeSeconds.Name:
				add("1", of...)
			case metric.GPUBusyRatio.Name:
				add("0.9", append(of, metric.LabelModel, "NVIDIA H100 80GB HBM3")...)
			case metric.GPUHeld.Name:
				if pods := e.allocated[n.Name]; i < len(pods) {
					add("1", append(of, metric.LabelNamespace, work, metric.LabelPod, pods[i].Name, metric.LabelContainer, "main")...)
				}
			}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	text, _ := json.Marshal(out)
	fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":%s}}`, text)
}
