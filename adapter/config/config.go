package config

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/compat"
	"github.com/gpuscale/gpuscale/adapter/forward"
	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/gpu/trust"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/strict"
)

// Config is the file without its rules, which are read separately.
type Config struct {
	// Prometheus is the short form for the one backend called "default".
	Prometheus Prometheus `json:"prometheus"`
	// Backends to query; a rule that names none uses "default".
	Backends []Backend `json:"backends,omitempty"`
	cache.Options
	// MaxAge of a sample, for rules without their own. Unset, it follows the scrape
	// interval: two and a half scrape intervals plus 1.1 Intervals, between 45 s
	// and 5 minutes.
	MaxAge time.Duration `json:"maxAge,omitempty"`
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
	// NamespaceParameter, if not empty, is the URL parameter with the one namespace of a
	// query, which OpenShift's tenancy requires.
	NamespaceParameter string `json:"namespaceParameter,omitempty"`
}

// Backend is a Prometheus with a name.
type Backend struct {
	Name string `json:"name"`
	Prometheus
}

// Default is the configuration of an empty file. The URL has no default.
func Default() Config {
	return Config{
		Options: cache.DefaultOptions(),
		// The namespace of our manifests. No other is trusted unless an administrator lists
		// it: a user who creates a namespace with a trusted name could report values of every
		// pod.
		ExporterNamespaces: []string{"gpuscale-system"},
	}
}

// All returns the backends, in either form of the file.
func (c Config) All() []Backend {
	if c.Prometheus.URL == "" {
		return c.Backends
	}
	return append([]Backend{{cache.DefaultBackend, c.Prometheus}}, c.Backends...)
}

// LeastMaxAge is the MaxAge of rules for which none is set, where scrapes are
// frequent.
const LeastMaxAge = 45 * time.Second

// age sets the MaxAge of a rule that has none.
func (c Config) age(r *signal.Rule) {
	if r.MaxAge = cmp.Or(r.MaxAge, c.MaxAge); r.MaxAge == 0 {
		r.MaxAge, r.Follow = LeastMaxAge, c.Interval*11/10
	}
}

// fresh returns an error if a maximum age makes values stale before the next query.
func (c Config) fresh(path string, maxAge time.Duration) error {
	if maxAge == 0 || maxAge > c.Interval {
		return nil
	}
	return fmt.Errorf("%s: must be longer than interval, or every value is stale", path)
}

// Cache returns the cache's options.
func (c Config) Cache() cache.Options {
	c.Options.Timeout = 0 // the longest of the backends'
	for _, b := range c.All() {
		c.Options.Timeout = max(c.Options.Timeout, cmp.Or(b.Timeout, prom.DefaultTimeout))
	}
	return c.Options
}

// validate returns all problems outside the rules, each with its field path.
func (c Config) validate() error {
	var errs []error
	when := func(wrong bool, what string) {
		if wrong {
			errs = append(errs, errors.New(what))
		}
	}
	errs = append(errs, c.validateBackends()...)
	when(c.Interval <= 0, "interval: must be positive")
	when(c.IdleAfter <= 0, "idleAfter: must be positive")
	when(c.FirstWait <= 0, "firstWait: must be positive")
	when(c.Concurrency < 1, "concurrency: must be at least 1")
	when(c.MaxQuestions < 1, "maxQuestions: must be at least 1")
	when(c.MaxAge == 0 && c.Interval >= signal.Lookback, "interval: must be shorter than 5m")
	errs = append(errs, c.fresh("maxAge", c.MaxAge), c.fresh("prometheusAdapter.maxAge", c.PrometheusAdapter.MaxAge))
	if name := c.PrometheusAdapter.Backend; name != "" {
		errs = append(errs, c.knows("prometheusAdapter.backend", name))
	}
	errs = append(errs, strict.Under("prometheusAdapter", c.PrometheusAdapter.Validate())...)
	errs = append(errs, trust.Validate("exporterNamespaces", c.ExporterNamespaces)...)
	if t := c.Forward.External; t != nil {
		errs = append(errs, strict.Under("forward.external", t.Validate())...)
	}
	return errors.Join(errs...)
}

// backendName is valid as a metric label and readable in a message.
var backendName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

func (c Config) validateBackends() (errs []error) {
	check := func(path string, p Prometheus) {
		errs = append(errs, strict.Under(path, p.Config.Validate())...)
		if _, twice := p.Parameters[p.NamespaceParameter]; twice {
			errs = append(errs, fmt.Errorf("%s.namespaceParameter: %q is among parameters too", path, p.NamespaceParameter))
		}
		if prom.Reserved(p.NamespaceParameter) {
			errs = append(errs, fmt.Errorf("%s.namespaceParameter: %q is set by the client", path, p.NamespaceParameter))
		}
	}
	if c.Prometheus.URL != "" || len(c.Backends) == 0 {
		check("prometheus", c.Prometheus)
	}
	seen := map[string]bool{cache.DefaultBackend: c.Prometheus.URL != ""}
	for i, b := range c.Backends {
		path := fmt.Sprintf("backends[%d]", i)
		check(path, b.Prometheus)
		switch {
		case !backendName.MatchString(b.Name):
			errs = append(errs, fmt.Errorf("%s.name: %q does not match %s", path, b.Name, backendName))
		case seen[b.Name] && b.Name == cache.DefaultBackend && c.Prometheus.URL != "":
			errs = append(errs, fmt.Errorf("%s.name: prometheus is the backend called %q; give one of the two", path, b.Name))
		case seen[b.Name]:
			errs = append(errs, fmt.Errorf("%s.name: %q is declared twice", path, b.Name))
		}
		seen[b.Name] = true
	}
	if len(c.Backends) > 0 && !seen[cache.DefaultBackend] {
		errs = append(errs, fmt.Errorf("backends: one must be called %q: it answers the built-in rules and those that name none", cache.DefaultBackend))
	}
	return errs
}

// knows returns an error if there is no such backend.
func (c Config) knows(path, backend string) error {
	var names []string
	for _, b := range c.All() {
		names = append(names, b.Name)
	}
	if names == nil || slices.Contains(names, backend) {
		return nil // a file without backends is another problem
	}
	return fmt.Errorf("%s: no backend is called %q; there are: %s", path, backend, strings.Join(names, ", "))
}
