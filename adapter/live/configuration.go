package live

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/compat"
	"github.com/gpuscale/gpuscale/adapter/config"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// Every is how often the files are read. Their contents are compared, not their
// modification times: kubelet swaps a ConfigMap by a link two directories up.
const Every = 4 * time.Second

// Configuration is the files in force. It is immutable, except for Failure.
type Configuration struct {
	File *config.File
	// Compat is the file in prometheus-adapter's format, nil if there is none.
	Compat *compat.File
	// Hash of the contents in force.
	Hash string
	// Since is when they came into force.
	Since time.Time

	path     string
	overlays []func(*config.Config)
	log      *slog.Logger
	backends map[string]*prom.Client

	good     prometheus.Gauge
	failures prometheus.Counter // contents that could not be used

	failure atomic.Value // string
}

// Open reads the files. The error is about a file as a whole: a bad rule is logged
// and left out.
func Open(path string, overlays []func(*config.Config), reg prometheus.Registerer, log *slog.Logger) (*Configuration, error) {
	c := &Configuration{path: path, overlays: overlays, log: log, backends: map[string]*prom.Client{}, Since: time.Now()}
	var err error
	if c.File, c.Compat, c.Hash, err = read(path, overlays...); err != nil {
		return nil, err
	}
	for _, b := range c.File.Config.All() {
		// A missing CA file breaks the rules of this backend only, and only until it exists.
		c.backends[b.Name] = prom.Later(b.Config)
	}
	log.Info("configuration in force", slog.String("file", path), slog.String("hash", c.Hash), slog.Int("rules", len(c.File.Rules)))
	for _, r := range c.File.Rules {
		for _, problem := range r.Problems {
			log.Error("rule left out", slog.String("rule", r.Name), slog.Any("error", problem))
		}
	}
	c.register(promauto.With(reg))
	return c, nil
}

// read reads a configuration file, and the file of prometheus-adapter's format that it
// names: nil if it names none. The hash of their contents is never empty.
func read(path string, overlays ...func(*config.Config)) (f *config.File, theirs *compat.File, hash string, err error) {
	f, raw, err := config.Load(path, overlays...)
	if err != nil {
		return nil, nil, sum(raw), err
	}
	if o := f.Config.PrometheusAdapter; o.Enabled() {
		other, err := os.ReadFile(o.ConfigFile)
		if err != nil {
			return f, nil, err.Error(), fmt.Errorf("reading the prometheus-adapter configuration: %w", err)
		}
		raw = append(raw, other...)
		if theirs, err = compat.Parse(o.ConfigFile, other); err != nil {
			return f, nil, sum(raw), err
		}
	}
	return f, theirs, sum(raw), nil
}

// Check returns the hash of the files' contents, and all that is wrong with the files.
func Check(path string, overlays ...func(*config.Config)) (hash string, err error) {
	f, theirs, hash, err := read(path, overlays...)
	if err == nil {
		err = f.Err()
	}
	if theirs != nil {
		err = errors.Join(err, theirs.Err())
	}
	return hash, err
}

// Setup returns the cache's part.
func (c *Configuration) Setup() cache.Setup {
	s := cache.Setup{Options: c.File.Config.Cache(), Rules: c.File.Signals()}
	for _, b := range c.File.Config.All() {
		s.Backends = append(s.Backends, cache.Backend{Name: b.Name, Querier: c.backends[b.Name], NamespaceParameter: b.NamespaceParameter})
	}
	return s
}

// Backend returns the server of a name that the configuration has; "" is the default.
func (c *Configuration) Backend(name string) *prom.Client {
	return c.backends[cmp.Or(name, cache.DefaultBackend)]
}

// Changed returns true once the files have changed and are good in every rule, false
// when ctx ends. Contents that cannot be used are logged once and change nothing.
func (c *Configuration) Changed(ctx context.Context) bool {
	tick := time.NewTicker(Every)
	defer tick.Stop()
	for seen := c.Hash; ; {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		hash, err := Check(c.path, c.overlays...)
		switch {
		case hash == seen:
		case err == nil && hash != c.Hash:
			return true
		default:
			c.failed(err)
		}
		seen = hash
	}
}

func (c *Configuration) failed(err error) {
	if err == nil {
		c.failure.Store("")
		c.good.Set(1)
		return
	}
	c.failure.Store(err.Error())
	c.good.Set(0)
	c.failures.Inc()
	c.log.Error("configuration cannot be used, the previous one stays in force", slog.String("file", c.path), slog.Any("error", err))
}

// Failure is why the files on disk are not in force; "" if they are.
func (c *Configuration) Failure() string {
	why, _ := c.failure.Load().(string)
	return why
}

func sum(raw []byte) string {
	s := sha256.Sum256(raw)
	return hex.EncodeToString(s[:8])
}

// register creates the series about the configuration in force.
func (c *Configuration) register(with promauto.Factory) {
	gauge := func(d metric.Desc) *prometheus.GaugeVec {
		return with.NewGaugeVec(prometheus.GaugeOpts{Name: d.Name, Help: d.Help}, d.Labels)
	}
	states := gauge(metric.AdapterRuleState)
	for _, r := range c.File.Rules {
		for _, state := range []string{compat.InForce, compat.Rejected} {
			states.WithLabelValues(r.Title(), state).Set(0)
		}
		states.WithLabelValues(r.Title(), compat.StateOf("", "", r.Problems).State).Set(1)
	}
	gauge(metric.AdapterReloadTime).WithLabelValues().Set(float64(c.Since.UnixMilli()) / 1000)
	gauge(metric.AdapterConfigInfo).WithLabelValues(c.Hash).Set(1)
	c.good = gauge(metric.AdapterReloadGood).WithLabelValues()
	c.good.Set(1)
	d := metric.AdapterReloadFailures
	c.failures = with.NewCounter(prometheus.CounterOpts{Name: d.Name, Help: d.Help})
}
