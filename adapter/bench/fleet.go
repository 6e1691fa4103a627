package main

import (
	"fmt"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// podsPerWorkload is how many values one Pods answer holds.
const podsPerWorkload = 10

// fleet is the cluster of both fakes: workloads of ten pods each, spread evenly
// over namespaces, and series of each pod.
type fleet struct {
	pods       int
	namespaces int
	signals    []served
}

// served is one series per pod and its metric name in the API.
type served struct {
	signal string // the rule's name
	series string // the metric's name in Prometheus
	top    float64
	device bool // has a GPU exporter's labels rather than a model server's
}

// known are the signals a fleet can have, in the order they are taken.
func known() []served {
	return []served{
		{signal: "queue_depth", series: metric.VLLMWaiting.Name, top: 40},
		{signal: "requests_running", series: metric.VLLMRunning.Name, top: 256},
		{signal: "kv_cache_usage", series: metric.VLLMCacheUsage.Name, top: 1},
		{signal: "gpu_busy", series: metric.GPUBusyRatio.Name, top: 1, device: true},
		{signal: "gpu_share", series: metric.GPUShareRatio.Name, top: 1, device: true},
	}
}

func newFleet(pods, namespaces, signals int) (fleet, error) {
	all := known()
	if signals < 1 || signals > len(all) {
		return fleet{}, fmt.Errorf("-signals %d: there are 1 to %d", signals, len(all))
	}
	if pods < podsPerWorkload || namespaces < 1 || pods/podsPerWorkload < namespaces {
		return fleet{}, fmt.Errorf("-pods %d in -namespaces %d: each namespace needs at least one workload of %d pods", pods, namespaces, podsPerWorkload)
	}
	return fleet{pods: pods - pods%podsPerWorkload, namespaces: namespaces, signals: all[:signals]}, nil
}

func (f fleet) workloads() int { return f.pods / podsPerWorkload }
func (f fleet) series() int    { return f.pods * len(f.signals) }

func (f fleet) namespace(workload int) string { return fmt.Sprintf("team-%03d", workload%f.namespaces) }

func app(workload int) string        { return fmt.Sprintf("llm-%05d", workload) }
func hash(workload int) string       { return fmt.Sprintf("%010x", uint64(workload)*2654435761%(1<<40)) }
func replicaSet(workload int) string { return app(workload) + "-" + hash(workload) }

// pod returns the name of the nth pod of a workload.
func pod(workload, n int) string {
	return fmt.Sprintf("%s-%05x", replicaSet(workload), (workload*podsPerWorkload+n)*2654435761%(1<<20))
}

// uid has the right length and is the same in each run.
func uid(kind byte, n int) string { return fmt.Sprintf("5a1f2b3c-%04x-4000-8000-%012x", kind, n) }

func podLabels(workload int) map[string]string {
	return map[string]string{
		"app": app(workload), "pod-template-hash": hash(workload),
		"app.kubernetes.io/part-of": "inference", "model": "model-" + app(workload),
	}
}

// ask is one HPA's requests of each period: one Pods and one External metric.
type ask struct {
	namespace, app, model string
	pods, external        string
}

// ask of the nth HPA. There may be more HPAs than workloads: then several share
// one.
func (f fleet) ask(n int) ask {
	w := n % f.workloads()
	external := f.signals[(n+1)%len(f.signals)]
	for external.device { // its series name no model to select by
		external = f.signals[0]
	}
	return ask{
		namespace: f.namespace(w), app: app(w), model: "model-" + app(w),
		pods: f.signals[n%len(f.signals)].signal, external: external.signal,
	}
}
