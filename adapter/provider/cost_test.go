package provider

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metadatafake "k8s.io/client-go/metadata/fake"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// countedQueries is a Prometheus that counts its queries and has a queue in each of ten pods.
type countedQueries struct{ queries atomic.Int64 }

func (c *countedQueries) Query(context.Context, string, time.Time) (prom.Vector, error) {
	c.queries.Add(1)
	now := time.Now()
	var v prom.Vector
	for n := range 10 {
		for part, value := range map[string]float64{"v0": 1, "t0": float64(now.UnixMilli()) / 1000} {
			ls := map[string]string{"namespace": "chat", "pod": fmt.Sprintf("vllm-%d", n), signal.PartLabel: part}
			v = append(v, prom.Sample{Labels: prom.FromMap(ls), Value: value, Time: now})
		}
	}
	return v, nil
}

// TestCostDoesNotDependOnTheNumberOfHPAs: in half a minute 5,000 HPAs of two metrics
// make as many Prometheus queries as one does, and neither makes a request to
// the API server.
func TestCostDoesNotDependOnTheNumberOfHPAs(t *testing.T) {
	var objects []runtime.Object
	for n := range 10 {
		m := meta("v1", "Pod", "chat", fmt.Sprintf("vllm-%d", n), nil)
		m.Labels = map[string]string{"app": "vllm"}
		objects = append(objects, m)
	}
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := metadatafake.NewSimpleMetadataClient(scheme, objects...)
	pods, err := NewInformers(client)
	if err != nil {
		t.Fatal(err)
	}
	pods.Start(t.Context().Done())
	await.For(t, time.Minute, "the informers", pods.Ready) // the fake client's live on the real clock
	watching := len(client.Actions())
	rules := []signal.Rule{{
		Name: "queue", Subject: signal.Target, Sources: []signal.Source{{Metric: metric.VLLMWaiting.Name}},
		Duplicates: signal.Max, PerPod: signal.Sum, PerWorkload: signal.Sum, Maximum: 1e9, MaxAge: time.Minute,
	}}
	// Each interval is 5 s give or take a tenth: 5 or 6 queries after the first.
	const least, most = 5, 7
	for _, hpas := range []int{1, 5_000} {
		if n := queriesInHalfAMinute(t, rules, pods, hpas); n < least || n > most {
			t.Errorf("%d HPAs make %d queries in half a minute, want %d to %d", hpas, n, least, most)
		}
	}
	if after := client.Actions(); len(after) != watching {
		t.Errorf("answering made requests to the API server: %v", after[watching:])
	}
}

// queriesInHalfAMinute lets so many HPAs ask each 15 s for half a minute and returns the queries
// they caused.
func queriesInHalfAMinute(t *testing.T, rules []signal.Rule, pods Pods, hpas int) (queries int64) {
	synctest.Test(t, func(t *testing.T) {
		server := &countedQueries{}
		tables, err := cache.New(server, rules, cache.Options{
			Interval: 5 * time.Second, IdleAfter: time.Hour, FirstWait: time.Second, Concurrency: 1,
		}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		p, err := New(tables, pods, nil, mapper(), prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go tables.Run(ctx)
		synctest.Wait()
		selector := labels.SelectorFromSet(labels.Set{"app": "vllm"})
		info := cma.CustomMetricInfo{GroupResource: schema.GroupResource{Resource: "pods"}, Namespaced: true, Metric: "queue"}
		for range 2 {
			for range hpas {
				list, err := p.GetMetricBySelector(ctx, "chat", selector, info, labels.Everything())
				if err != nil || len(list.Items) != 10 {
					t.Fatal(list, err)
				}
				all, err := p.GetExternalMetric(ctx, "chat", labels.Everything(), cma.ExternalMetricInfo{Metric: "queue"})
				if err != nil || len(all.Items) != 1 || all.Items[0].Value.Value() != 10 {
					t.Fatal(all, err)
				}
			}
			time.Sleep(15 * time.Second) // the bubble's clock
		}
		queries = server.queries.Load()
		cancel()
		synctest.Wait()
	})
	return queries
}
