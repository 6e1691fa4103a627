package provider

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// big is 100,000 series: 1,000 namespaces of 100 pods.
type big struct{}

func (big) Query(context.Context, string, time.Time) (prom.Vector, error) {
	now := time.Now()
	v := make(prom.Vector, 0, 200_000)
	for n := range 100_000 {
		ls := map[string]string{
			"namespace": fmt.Sprintf("team-%d", n/100), "pod": fmt.Sprintf("vllm-%d", n%100), "model_name": "llama",
			"engine": "0", "job": "vllm", "instance": fmt.Sprintf("10.0.%d.%d:8000", n/256, n%256), signal.PartLabel: "v0",
		}
		v = append(v, prom.Sample{Labels: prom.FromMap(ls), Value: 1, Time: now})
		ls[signal.PartLabel] = "t0"
		v = append(v, prom.Sample{Labels: prom.FromMap(ls), Value: float64(now.Unix()), Time: now})
	}
	return v, nil
}

// hundred says that each namespace and owner has the same hundred pods.
type hundred struct{ names []string }

func (hundred) Ready() error                                      { return nil }
func (hundred) Has(string, string) bool                           { return true }
func (h hundred) Select(string, labels.Selector) []string         { return h.names }
func (h hundred) Owned(string, schema.GroupKind, string) []string { return h.names }

// BenchmarkObjectAmong100kSeries answers for a Deployment of 100 pods, as the
// HPA asks. The goal for the whole server is 5 ms at the 99th percentile.
func BenchmarkObjectAmong100kSeries(b *testing.B) {
	tables, err := cache.New(big{}, signal.Builtin(time.Hour)[3:4], cache.Options{
		Interval: time.Hour, IdleAfter: time.Hour, FirstWait: time.Minute, Concurrency: 1,
	}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	var pods hundred
	for n := range 100 {
		pods.names = append(pods.names, fmt.Sprintf("vllm-%d", n))
	}
	p, err := New(tables, pods, nil, mapper(), prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	go tables.Run(b.Context())
	name := vllm
	name.Namespace = "team-7"
	if v, err := p.GetMetricByName(b.Context(), name, deployment, all); err != nil || v.Value.Value() != 100 {
		b.Fatal(v, err)
	}
	held := heap()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.GetMetricByName(b.Context(), name, deployment, all); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(held)/(1<<20), "MiB-heap")
}

// BenchmarkPodsAnswer answers a Pods metric of ten pods among 100,000 series,
// selector included. The goal is 20 µs.
func BenchmarkPodsAnswer(b *testing.B) {
	tables, err := cache.New(big{}, signal.Builtin(time.Hour)[3:4], cache.Options{
		Interval: time.Hour, IdleAfter: time.Hour, FirstWait: time.Minute, Concurrency: 1,
	}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	store := newPodStore()
	for n := range 100_000 {
		if err := store.Add(stored(fmt.Sprint("team-", n/100), fmt.Sprint("vllm-", n%100), fmt.Sprint("app-", n%100/10), "", false)); err != nil {
			b.Fatal(err)
		}
	}
	store.filled = true
	p, err := New(tables, onlyPods{store}, nil, mapper(), prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	go tables.Run(b.Context())
	selector := labels.SelectorFromSet(labels.Set{"app": "app-3"})
	info := cma.CustomMetricInfo{GroupResource: schema.GroupResource{Resource: "pods"}, Namespaced: true, Metric: "queue_depth"}
	if _, err := p.GetMetricBySelector(b.Context(), "team-7", selector, info, all); err != nil {
		b.Fatal(err) // the first one waits for the table
	}
	b.ReportAllocs()
	for b.Loop() {
		list, err := p.GetMetricBySelector(b.Context(), "team-7", selector, info, all)
		if err != nil || len(list.Items) != 10 {
			b.Fatal(list, err)
		}
	}
}

// onlyPods is a store without ReplicaSets.
type onlyPods struct{ store *podStore }

func (onlyPods) Ready() error                     { return nil }
func (o onlyPods) Has(namespace, pod string) bool { return o.store.has(namespace, pod) }
func (o onlyPods) Select(namespace string, s labels.Selector) []string {
	return o.store.matching(namespace, s)
}
func (onlyPods) Owned(string, schema.GroupKind, string) []string { return nil }

// heap is what is in use of it, in bytes.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
