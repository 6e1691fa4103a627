package config

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/compat"
	"github.com/gpuscale/gpuscale/adapter/forward"
	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// Config is the file without its rules, which are read separately.
type Config struct {
	// Prometheus is the short form for the one backend called "default".
	Prometheus Prometheus `json:"prometheus"`
	// Backends to query; a rule that names none uses "default".
	Backends []Backend `json:"backends,omitempty"`
	// Interval between two queries of a rule in a namespace in use.
	Interval metav1.Duration `json:"interval"`
	// MaxAge of a sample, for rules without their own. Unset, it follows the scrape
	// interval: two and a half of it and an Interval, between 45 s and 5 minutes.
	MaxAge metav1.Duration `json:"maxAge,omitempty"`
	// IdleAfter is how long a rule is queried after its last request.
	IdleAfter metav1.Duration `json:"idleAfter"`
	// FirstWait bounds how long the first request for an idle rule waits.
	FirstWait metav1.Duration `json:"firstWait"`
	// Concurrency bounds the queries in flight, per backend.
	Concurrency int `json:"concurrency"`
	// MaxQuestions bounds the different queries that requests may introduce, in
	// addition to those of the rules.
	MaxQuestions int `json:"maxQuestions"`
	// PrometheusAdapter names a file in prometheus-adapter's own format, and
	// replaces that program's flags.
	PrometheusAdapter compat.Options `json:"prometheusAdapter,omitempty"`
	// ExporterNamespaces are the namespaces of GPU exporters: only targets there
	// may report pods of other namespaces. "*" allows every target, for a
	// cluster whose tenants trust each other.
	ExporterNamespaces []string `json:"exporterNamespaces"`
	// Forward names the server for metrics that no rule has.
	Forward forward.Config `json:"forward,omitempty"`
}

// Prometheus is the address and access of a server.
type Prometheus struct {
	prom.Config
	// Timeout of a query about a namespace by itself; 10 s if zero.
	Timeout metav1.Duration `json:"timeout,omitempty"`
	// NamespaceParameter, if not empty, is a parameter that names the one namespace of a
	// query, as OpenShift's tenancy wants it.
	NamespaceParameter string `json:"namespaceParameter,omitempty"`
}

// Backend is a Prometheus with a name.
type Backend struct {
	Name string `json:"name"`
	Prometheus
}

// Client returns the client's configuration.
func (p Prometheus) Client() prom.Config {
	c := p.Config
	c.Timeout = cmp.Or(p.Timeout.Duration, prom.DefaultTimeout)
	return c
}

// Default is the configuration of an empty file. The URL has no default.
func Default() Config {
	return Config{
		Interval:     metav1.Duration{Duration: 15 * time.Second},
		IdleAfter:    metav1.Duration{Duration: 10 * time.Minute},
		FirstWait:    metav1.Duration{Duration: 3 * time.Second},
		Concurrency:  4,
		MaxQuestions: cache.DefaultMaxQuestions,

		// Our manifests' own. No other is trusted unless an administrator lists it: a user who
		// creates a namespace of a trusted name would be believed about every pod.
		ExporterNamespaces: []string{"gpuscale-system"},
	}
}

// All returns the backends, in whichever form the file has them.
func (c Config) All() []Backend {
	if c.Prometheus.URL == "" {
		return c.Backends
	}
	return append([]Backend{{cache.DefaultBackend, c.Prometheus}}, c.Backends...)
}

// LeastMaxAge is the MaxAge of rules for which none is set, where scrapes are
// frequent.
const LeastMaxAge = 45 * time.Second

// age sets a rule's MaxAge.
func (c Config) age(r *signal.Rule, own *metav1.Duration) {
	switch {
	case own != nil:
		r.MaxAge = own.Duration
	case c.MaxAge.Duration > 0:
		r.MaxAge = c.MaxAge.Duration
	default:
		r.MaxAge, r.Follow = LeastMaxAge, c.Interval.Duration*11/10
	}
}

// Cache returns the cache's options.
func (c Config) Cache() cache.Options {
	timeout := time.Duration(0)
	for _, b := range c.All() {
		timeout = max(timeout, b.Client().Timeout)
	}
	return cache.Options{
		Timeout:  timeout,
		Interval: c.Interval.Duration, IdleAfter: c.IdleAfter.Duration,
		FirstWait: c.FirstWait.Duration, Concurrency: c.Concurrency, MaxQuestions: c.MaxQuestions,
	}
}
