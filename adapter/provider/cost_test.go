package provider

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/labels"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/require"
)

// TestCostDoesNotDependOnTheNumberOfHPAs: in half a minute 5,000 HPAs of two
// metrics make as many Prometheus queries as one does, and neither makes a
// request to the API server.
func TestCostDoesNotDependOnTheNumberOfHPAs(t *testing.T) {
	client := metadataClient(t, meta("v1", "Pod", "chat", "a", nil), meta("v1", "Pod", "chat", "b", nil))
	pods, err := NewInformers(client, kubefake.NewSimpleClientset())
	require.NoError(t, err)
	pods.Start(t.Context().Done())
	// The fake client lives outside the bubbles. A watch may begin after the list.
	await.For(t, time.Minute, "the informers", func() error { return pods.synced(slices.Collect(maps.Keys(pods.kinds))...) })
	requests := func() []clienttesting.Action {
		return slices.DeleteFunc(client.Actions(), func(a clienttesting.Action) bool { return a.GetVerb() == "watch" })
	}
	before := len(requests())
	// Each interval is 5 s give or take a tenth: 5 or 6 queries after the first, and
	// that of the past.
	const least, most = 6, 8
	for _, hpas := range []int{1, 5_000} {
		if n := queriesInHalfAMinute(t, pods, hpas); n < least || n > most {
			t.Errorf("%d HPAs make %d queries in half a minute, want %d to %d", hpas, n, least, most)
		}
	}
	if after := requests(); len(after) != before {
		t.Errorf("answering made requests to the API server: %v", after[before:])
	}
}

// queriesInHalfAMinute lets so many HPAs ask each 15 s and returns the queries
// they caused.
func queriesInHalfAMinute(t *testing.T, pods Pods, hpas int) (queries int) {
	synctest.Test(t, func(t *testing.T) {
		var server twoPods
		p := cached(t, &server, pods)
		synctest.Wait()
		selector := labels.SelectorFromSet(labels.Set{"app": "vllm"})
		for range 2 {
			for range hpas {
				list, err := p.GetMetricBySelector(t.Context(), "chat", selector, podsInfo, all)
				if err != nil || len(list.Items) != 2 {
					t.Fatal(list, err)
				}
				sum, err := p.GetExternalMetric(t.Context(), "chat", all, cma.ExternalMetricInfo{Metric: "queue_depth"})
				if err != nil || len(sum.Items) != 1 || sum.Items[0].Value.Value() != 3 {
					t.Fatal(sum, err)
				}
			}
			time.Sleep(15 * time.Second)
		}
		queries = int(server.Load())
	})
	return queries
}

// twoPods is a Prometheus that has two pods' queues, and counts its queries.
type twoPods struct{ atomic.Int64 }

func (s *twoPods) QueryWithin(context.Context, string, time.Time, prom.Limits) (v prom.Vector, err error) {
	s.Add(1)
	at := time.Now()
	for _, one := range append(sample(1, at, "namespace", "chat", "pod", "a"), sample(2, at, "namespace", "chat", "pod", "b")...) {
		ls := one.Labels.Map()
		ls[signal.PartLabel] = one.Part
		v = append(v, prom.Sample{Labels: prom.FromMap(ls), Value: one.Value, Time: at})
	}
	return v, nil
}

// cached returns a provider over a cache that asks server for queue_depth each
// 5 s of the synctest bubble it is called in.
func cached(t *testing.T, server cache.Querier, pods Pods) *Provider {
	t.Helper()
	tables := cache.New(cache.Setup{
		Options:  cache.Options{Interval: 5 * time.Second, IdleAfter: time.Hour, FirstWait: time.Second, Concurrency: 1},
		Backends: []cache.Backend{{Name: cache.DefaultBackend, Querier: server}}, Rules: []signal.Rule{queueDepth()},
	}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	var running sync.WaitGroup
	running.Go(func() { tables.Run(t.Context()) }) // which ends before the cleanup
	t.Cleanup(running.Wait)
	p := New(tables, pods, nil, mapper(), prometheus.NewRegistry())
	return p
}
