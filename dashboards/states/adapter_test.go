package states

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/labels"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/live"
	"github.com/gpuscale/gpuscale/adapter/provider"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/buildinfo"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
)

// server is the adapter below its API server: configuration, cache and provider. Its
// Prometheus is a fake: the query engine over the recording so far, which answers each
// rule once per scrape. The adapter's own clock is the real one, so of its series those
// of ages and durations are shorter than in a cluster.
type server struct {
	registry *prometheus.Registry
	cache    *cache.Cache
	provider *provider.Provider
	gate     *gate
	rules    int
	stop     func()
}

// gate lets queries through at the recorder's signal.
type gate struct {
	arrive, open chan struct{}
	storage      view
	at           time.Time
}

// QueryWithin implements cache.Querier.
func (g *gate) QueryWithin(ctx context.Context, query string, _ time.Time, _ prom.Limits) (prom.Vector, error) {
	if strings.HasPrefix(query, "last_over_time") {
		return nil, nil // the recording begins with nothing
	}
	for _, step := range []chan struct{}{g.arrive, g.open} {
		select {
		case step <- struct{}{}: // received by the recorder
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	found, _, err := memstore.Instant(ctx, engine, g.storage, query, g.at)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", prom.ErrUnavailable, err)
	}
	return memstore.Samples(found, g.at), nil
}

// engine is Prometheus' own.
var engine = memstore.NewEngine(nil)

// newServer starts the adapter with the default rules.
func newServer(recorded *memstore.DB, pods provider.Pods) (*server, error) {
	s := &server{registry: prometheus.NewRegistry(), gate: &gate{arrive: make(chan struct{}), open: make(chan struct{}), storage: view{DB: recorded}}}
	log := slog.New(slog.DiscardHandler)
	setup, err := s.setup(log)
	if err != nil {
		return nil, err
	}
	s.rules = len(setup.Rules)
	setup.Options = cache.Options{Interval: time.Millisecond, IdleAfter: time.Hour, FirstWait: time.Hour, Timeout: 4 * time.Hour, Concurrency: s.rules}
	setup.Backends = []cache.Backend{{Name: cache.DefaultBackend, Querier: s.gate}}
	if s.cache, err = cache.New(setup, s.registry, log); err != nil {
		return nil, err
	}
	if s.provider, err = provider.New(s.cache, pods, nil, nil, s.registry); err != nil {
		return nil, err
	}
	info := metric.AdapterBuildInfo // the program registers it in its main package
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: info.Name, Help: info.Help}, info.Labels)
	build.WithLabelValues(buildinfo.Version(), runtime.Version()).Set(1)
	s.registry.MustRegister(build)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.cache.Run(ctx)
	}()
	var asking sync.WaitGroup
	s.stop = func() { cancel(); <-done; asking.Wait() }
	for _, r := range s.cache.Rules() { // each waits for its first answer
		asking.Go(func() { s.ask(ctx, r.Name) })
	}
	return s, s.gathered()
}

// setup reads a configuration from a file, as the program does.
func (s *server) setup(log *slog.Logger) (cache.Setup, error) {
	dir, err := os.MkdirTemp("", "gpuscale-states-")
	if err != nil {
		return cache.Setup{}, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "adapter.yaml")
	if err := os.WriteFile(file, []byte("prometheus:\n  url: http://prometheus.example\n"), 0o600); err != nil {
		return cache.Setup{}, err
	}
	configuration, err := live.Open(file, nil, s.registry, log)
	if err != nil {
		return cache.Setup{}, err
	}
	return configuration.Setup(), nil
}

// gathered waits until every rule has a query at the gate: the answers before it have
// then been stored.
func (s *server) gathered() error {
	late := time.After(time.Minute)
	for range s.rules {
		select {
		case <-s.gate.arrive:
		case <-late:
			return fmt.Errorf("the adapter does not query all its %d rules", s.rules)
		}
	}
	return nil
}

// step lets every rule query once, as of a time, and then an HPA query the adapter.
func (s *server) step(at time.Time) error {
	s.gate.at = at
	for range s.rules {
		<-s.gate.open
	}
	if err := s.gathered(); err != nil {
		return err
	}
	for _, name := range []string{"queue_depth", "gpu_busy"} {
		s.ask(context.Background(), name)
	}
	return nil
}

// ask is an HPA's request. A missing answer is counted, too.
func (s *server) ask(ctx context.Context, metric string) {
	_, _ = s.provider.GetExternalMetric(ctx, "chat", labels.Everything(), cma.ExternalMetricInfo{Metric: metric})
}
