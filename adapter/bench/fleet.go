package main

import (
	"fmt"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// podsPerWorkload is how many values one Pods answer holds.
const podsPerWorkload = 10

// fleet is the cluster that both doubles tell of: workloads of ten pods each,
// spread evenly over namespaces, and series on each pod.
type fleet struct {
	pods       int
	namespaces int
	signals    []served
}

// served is one series per pod and the name under which an HPA asks for it.
type served struct {
	signal string // the rule's name
	series string // the metric's name in Prometheus
	top    float64
	card   bool // has a GPU exporter's labels rather than a model server's
}

// known are the signals a fleet can have, in the order they are taken.
func known() []served {
	return []served{
		{signal: "queue_depth", series: metric.VLLMWaiting.Name, top: 40},
		{signal: "requests_running", series: metric.VLLMRunning.Name, top: 256},
		{signal: "kv_cache_usage", series: metric.VLLMCacheUsage.Name, top: 1},
		{signal: "gpu_busy", series: metric.GPUBusyRatio.Name, top: 1, card: true},
		{signal: "gpu_share", series: metric.GPUShareRatio.Name, top: 1, card: true},
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

// uid is of the right length and the same in each run.
func uid(kind byte, n int) string { return fmt.Sprintf("5a1f2b3c-%04x-4000-8000-%012x", kind, n) }

func podLabels(workload int) map[string]string {
	return map[string]string{
		"app": app(workload), "pod-template-hash": hash(workload),
		"app.kubernetes.io/part-of": "inference", "model": "model-" + app(workload),
	}
}

// ask is what one HPA asks each period: one Pods and one External metric.
type ask struct {
	namespace, app, model string
	pods, external        string
}

// ask of the nth HPA. There may be more HPAs than workloads: then several look
// at the same one.
func (f fleet) ask(n int) ask {
	w := n % f.workloads()
	external := f.signals[(n+1)%len(f.signals)]
	for external.card { // its series name no model to select by
		external = f.signals[0]
	}
	return ask{
		namespace: f.namespace(w), app: app(w), model: "model-" + app(w),
		pods: f.signals[n%len(f.signals)].signal, external: external.signal,
	}
}

// rules returns the built-in rules' names, to say how many queries to expect.
func rules() int { return len(signal.Builtin(1)) }
