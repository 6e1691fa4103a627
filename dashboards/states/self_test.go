package states

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	promlabels "github.com/prometheus/prometheus/model/labels"
	"k8s.io/apimachinery/pkg/labels"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/live"
	"github.com/gpuscale/gpuscale/adapter/provider"
	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/node"
	"github.com/gpuscale/gpuscale/exporter/replay"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
)

// selves are the pages of an exporter and of an adapter about themselves, which ran for a moment in real time. Names,
// types and labels are the programs' own. How often and how long they read is invented, since the recordings run in
// simulated time.
type selves struct{ exporter, adapter []memstore.Exposed }

func newSelves() (selves, error) {
	ctx, stop := context.WithTimeoutCause(context.Background(), time.Minute, errors.New("a program is not ready after a minute"))
	defer stop()
	exporter, err := exporterItself(ctx)
	if err != nil {
		return selves{}, err
	}
	adapter, err := adapterItself(ctx)
	return selves{exporter, adapter}, err
}

// during runs run until f has ended.
func during(ctx context.Context, run func(context.Context), f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx)
	}()
	defer func() { cancel(); <-done }()
	return f(ctx)
}

// exporterItself is an exporter's page about itself, over a recording of one GPU, without the series of that GPU.
func exporterItself(ctx context.Context) (page []memstore.Exposed, err error) {
	source, err := replay.NewSource([]replay.Frame{{GPUs: []replay.Entity{{
		Entity: collect.Entity{UUID: "GPU-self", Model: "NVIDIA L40S", DriverVersion: "580.65.06"},
		Values: map[string]any{"DCGM_FI_DEV_GPU_UTIL": 40.0},
	}}}}, nil)
	if err != nil {
		return nil, err
	}
	n := node.New(node.Options{Options: collect.Options{Node: "self", Interval: node.MinInterval}, Source: source})
	return page, during(ctx, n.Run, func(ctx context.Context) error {
		return await.Until(ctx, func(context.Context) error { // its page about itself is made once a second
			w := httptest.NewRecorder()
			n.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			if page, err = parse(w.Body.Bytes()); err != nil || w.Code != http.StatusOK {
				return await.Final(fmt.Errorf("scraping the exporter: %d, %w", w.Code, err))
			}
			if !slices.ContainsFunc(page, func(e memstore.Exposed) bool { return nameOf(e) == metric.ExporterUp.Name && e.Value == 1 }) {
				return errors.New("not up")
			}
			page = slices.DeleteFunc(page, func(e memstore.Exposed) bool { return !strings.HasPrefix(nameOf(e), "gpuscale_exporter_") })
			return nil
		})
	})
}

// adapterItself is the page about itself of an adapter without its API server (configuration, cache and provider), over
// a Prometheus that answers all of its rules.
func adapterItself(ctx context.Context) ([]memstore.Exposed, error) {
	dir, err := os.MkdirTemp("", "gpuscale-states-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "adapter.yaml")
	if err := os.WriteFile(file, []byte("prometheus:\n  url: http://prometheus.example\n"), 0o600); err != nil {
		return nil, err
	}
	registry, log := prometheus.NewRegistry(), slog.New(slog.DiscardHandler)
	configuration, err := live.Open(file, nil, registry, log)
	if err != nil {
		return nil, err
	}
	setup := configuration.Setup()
	setup.Options = cache.Options{Interval: time.Hour, IdleAfter: time.Hour, FirstWait: time.Hour, Timeout: time.Hour, Concurrency: len(setup.Rules), Budget: setup.Options.Budget}
	setup.Backends = []cache.Backend{{Name: cache.DefaultBackend, Querier: answering{}}}
	c := cache.New(setup, registry, log)
	p := provider.New(c, everyPod{}, nil, nil, registry)
	info := metric.AdapterBuildInfo // the program registers it in its main package
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: info.Name, Help: info.Help}, info.Labels)
	build.WithLabelValues("devel", "go").Set(1)
	registry.MustRegister(build)
	err = during(ctx, c.Run, func(ctx context.Context) error {
		for _, r := range c.Rules() { // as an HPA requests them; a missing answer is counted, too
			_, _ = p.GetExternalMetric(ctx, "chat", labels.Everything(), cma.ExternalMetricInfo{Metric: r.Name})
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	return gather(registry)
}

// answering is a Prometheus that answers every query with a value of one pod.
type answering struct{}

// QueryWithin implements cache.Querier.
func (answering) QueryWithin(_ context.Context, _ string, at time.Time, _ prom.Limits) (prom.Vector, error) {
	return prom.Vector{{Labels: promlabels.FromStrings("namespace", "chat", "pod", "vllm-0"), Value: 1, Time: at}}, nil
}

// everyPod is a cluster in which every pod runs.
type everyPod struct{ provider.Pods }

func (everyPod) Ready() error                                    { return nil }
func (everyPod) Lives(string, string) (since time.Time, ok bool) { return time.Time{}, true }

// running is how long every program had run when a recording begins; took is the duration in seconds of everything that
// it measures.
const (
	running = 10 * time.Minute
	took    = 0.01
)

// fixed are gauges that depend on this machine's clock.
var fixed = map[string]float64{
	metric.AdapterRuleAge.Name:            2,
	metric.AdapterReloadTime.Name:         float64(begin.Add(-time.Hour).Unix()),
	metric.ExporterReloadSuccessTime.Name: float64(begin.Add(-time.Hour).Unix()),
}

func nameOf(e memstore.Exposed) string { return e.Labels.Get(promlabels.MetricName) }

// aged is the page about itself of a program that serves so many series. It has read once for each scrape, and left out
// nothing.
func aged(page []memstore.Exposed, at time.Time, series int) []memstore.Exposed {
	passes := float64(at.Sub(begin.Add(-running)) / Every)
	page = slices.Clone(page)
	for i := range page {
		e := &page[i]
		name := nameOf(*e)
		value, is := fixed[name]
		bound, _ := strconv.ParseFloat(e.Labels.Get(promlabels.BucketLabel), 64) // a bucket of the program's own
		switch {
		case is:
			e.Value = value
		case name == metric.ExporterSeries.Name:
			e.Value = float64(series)
		case strings.HasSuffix(name, "_sum"):
			e.Value = took * passes
		case strings.HasSuffix(name, "_bucket") && bound < took:
			e.Value = 0
		case strings.HasSuffix(name, "_bucket"), strings.HasSuffix(name, "_count"), e.Value > 0 && slices.Contains(growing, name):
			e.Value = passes
		case strings.HasSuffix(name, "_total"):
			e.Value = 0
		}
	}
	return page
}

// growing are the counters of successes.
var growing = []string{metric.ExporterReads.Name, metric.AdapterQueries.Name, metric.AdapterAnswers.Name}
