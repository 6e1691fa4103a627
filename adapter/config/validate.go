package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/gpu/trust"
	"github.com/gpuscale/gpuscale/internal/strict"
)

// validate returns all problems outside the rules, each with its field path.
func (c Config) validate() error {
	var errs []error
	positive := func(field string, d metav1.Duration) {
		if d.Duration <= 0 {
			errs = append(errs, fmt.Errorf("%s: must be positive", field))
		}
	}
	errs = append(errs, c.validateBackends()...)
	positive("interval", c.Interval)
	positive("idleAfter", c.IdleAfter)
	positive("firstWait", c.FirstWait)
	if c.Concurrency < 1 {
		errs = append(errs, errors.New("concurrency: must be at least 1"))
	}
	if c.MaxQuestions < 1 {
		errs = append(errs, errors.New("maxQuestions: must be at least 1"))
	}
	if c.MaxAge.Duration != 0 && c.MaxAge.Duration <= c.Interval.Duration {
		errs = append(errs, errors.New("maxAge: must be longer than interval, or every value is stale"))
	}
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
		errs = append(errs, strict.Under(path, p.Client().Validate())...)
		if _, twice := p.Parameters[p.NamespaceParameter]; twice {
			errs = append(errs, fmt.Errorf("%s.namespaceParameter: %q is among parameters too", path, p.NamespaceParameter))
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
	if slices.Contains(names, backend) {
		return nil
	}
	return fmt.Errorf("%s: no backend is called %q; there are: %s", path, backend, strings.Join(names, ", "))
}
