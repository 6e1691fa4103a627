package hostile_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/provider"
	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/dashboards/sources"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/gpu/trust"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/sandbox/hostile"
)

var engine = memstore.NewEngine(nil)

// trusted is the namespace of our programs.
const trusted = sources.Namespaces

// served returns what an honest tenant's two pods, and an exporter for their GPUs, expose in each family of
// the catalogue, in a time range.
func served(from, to time.Time) memstore.Series {
	var all memstore.Series
	add := func(f hostile.Family, n int, pairs ...string) {
		for _, name := range f.Series() {
			if f.Type == metric.Histogram && name == f.Name {
				continue
			}
			bounds := []string{""}
			if strings.HasSuffix(name, "_bucket") {
				bounds = []string{"0.1", "1", "+Inf"}
			}
			for b, le := range bounds {
				all = append(all, promql.NewStorageSeries(promql.Series{Metric: stored(f, name, le, pairs...), Floats: rising(f, from, to, float64((n+1)*(b+1)))}))
			}
		}
	}
	for _, f := range hostile.Families() {
		for n, pod := range []string{"a", "b"} {
			add(f, n, "namespace", "chat", "pod", pod, "job", "chat", "instance", pod+":8000")
			if d, ok := metric.Find(f.Name); ok && d.Owner == metric.Exporter || strings.HasPrefix(f.Name, "DCGM_") {
				add(f, n, "namespace", trusted, "pod", "exporter-n1", "job", "gpuscale-exporter", "instance", "n1:9400", "exported_namespace", "chat", "exported_pod", pod, "gpu_uuid", "GPU-"+pod, "UUID", "GPU-"+pod)
			}
		}
	}
	return all
}

// stored returns the labels of a stored series, with a value for each label that its family has.
func stored(f hostile.Family, name, le string, pairs ...string) labels.Labels {
	b := labels.NewBuilder(labels.EmptyLabels())
	for _, l := range f.Labels {
		b.Set(l, "m")
	}
	for i := 0; i < len(pairs); i += 2 {
		b.Set(pairs[i], pairs[i+1])
	}
	return b.Set(labels.MetricName, name).Set("le", le).Labels()
}

// rising returns a constant value; for a counter or histogram, one that grows by it at each scrape.
func rising(f hostile.Family, from, to time.Time, v float64) (out []promql.FPoint) {
	for i := 0; ; i++ {
		at := from.Add(time.Duration(i) * 5 * time.Second)
		if at.After(to) {
			return out
		}
		value := v / 4
		if f.Type != metric.Gauge {
			value = v * float64(i)
		}
		out = append(out, memstore.At(at, value))
	}
}

// prometheusOf answers the adapter's queries like *prom.Client, within the limits.
type prometheusOf struct {
	mu  sync.Mutex
	src storage.Queryable
}

// QueryWithin implements cache.Querier.
func (p *prometheusOf) QueryWithin(ctx context.Context, text string, at time.Time, most prom.Limits) (prom.Vector, error) {
	p.mu.Lock() // one query at a time: the engine is shared and was created outside of the bubble
	defer p.mu.Unlock()
	if at.IsZero() {
		at = time.Now()
	}
	v, err := memstore.Server{Data: p.src, Engine: engine}.Query(ctx, text, at)
	if err == nil && most.Series > 0 && len(v) > most.Series {
		return nil, prom.ErrTooLarge
	}
	return v, err
}

// twoPods are the pods a and b of namespace chat.
type twoPods struct{}

func (twoPods) Ready() error { return nil }
func (twoPods) Lives(namespace, pod string) (time.Time, bool) {
	return time.Time{}, namespace == "chat" && (pod == "a" || pod == "b") || namespace == "tenant" && pod == "t"
}
func (p twoPods) Select(namespace string, _ k8slabels.Selector) []string {
	if namespace == "tenant" {
		return []string{"t"}
	}
	return []string{"a", "b"}
}
func (p twoPods) Owned(namespace string, _ schema.GroupKind, _ string) ([]string, error) {
	return p.Select(namespace, nil), nil
}
func (twoPods) Service(string, string) (k8slabels.Selector, error) { return nil, nil }

// answers returns what the HPAs of namespace chat get for every built-in signal, while the tenant's HPAs read
// all signals too. For a signal without an answer it is the error.
func answers(t *testing.T, src storage.Queryable) map[string]string {
	t.Helper()
	setup := cache.Setup{
		Options:  cache.DefaultOptions(),
		Backends: []cache.Backend{{Name: cache.DefaultBackend, Querier: &prometheusOf{src: src}}},
	}
	setup.Options.IdleAfter, setup.Options.FirstWait = time.Hour, time.Minute
	for _, r := range signal.Builtin(45 * time.Second) {
		r.Exporters = trust.From([]string{trusted})
		setup.Rules = append(setup.Rules, r)
	}
	c := cache.New(setup, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	p := provider.New(c, twoPods{}, nil, nil, prometheus.NewRegistry())
	out := map[string]string{}
	for range 2 { // the second time without the queries that failed before
		var mu sync.Mutex
		var asking sync.WaitGroup
		for _, r := range setup.Rules {
			for _, namespace := range []string{"tenant", "chat"} {
				asking.Go(func() {
					text := ""
					if v, err := p.GetExternalMetric(ctx, namespace, k8slabels.Everything(), cma.ExternalMetricInfo{Metric: r.Name}); err != nil {
						text = "none"
					} else {
						text = fmt.Sprintf("%.6g", v.Items[0].Value.AsApproximateFloat64())
					}
					if namespace == "chat" {
						mu.Lock()
						defer mu.Unlock()
						out[r.Name] = text
					}
				})
			}
		}
		asking.Wait()
		time.Sleep(20 * time.Second) // on the bubble's clock
	}
	cancel()
	running.Wait()
	return out
}

// TestNoPageChangesAnAnswer: whatever series a tenant's pages expose, and though its own HPAs read them, the
// HPAs of another namespace get the same answers as without them.
func TestNoPageChangesAnAnswer(t *testing.T) {
	many := 4
	if testall.Enabled() {
		many = 40
	}
	attacked := func(a *hostile.Attack) (out map[string]string) {
		synctest.Test(t, func(t *testing.T) {
			from, to := time.Now().Add(-10*time.Minute), time.Now().Add(3*time.Minute)
			var src storage.Queryable = served(from, to)
			if a != nil {
				w, err := hostile.Look(src, from, to)
				require.NoError(t, err)
				src = w.Attacked(*a)
			}
			out = answers(t, src)
		})
		return out
	}
	want := attacked(nil)
	numbers := 0
	for _, text := range want {
		if text != "none" {
			numbers++
		}
	}
	if numbers < len(want)*3/4 {
		t.Errorf("only %d of %d signals have an answer: %v", numbers, len(want), want)
	}
	for _, a := range hostile.Attacks(many) {
		if !a.First && !testall.Enabled() {
			continue
		}
		for signal, got := range attacked(&a) {
			if got != want[signal] {
				t.Errorf("%s: %s is %s, without it %s", a.Name, signal, got, want[signal])
			}
		}
	}
}
