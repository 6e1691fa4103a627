package config

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// Config is the whole file.
type Config struct {
	Prometheus Prometheus `json:"prometheus"`
	// Interval between two queries of a rule in use.
	Interval metav1.Duration `json:"interval"`
	// MaxAge of a sample, for rules that set none.
	MaxAge metav1.Duration `json:"maxAge"`
	// IdleAfter this long without a request a rule is no longer queried.
	IdleAfter metav1.Duration `json:"idleAfter"`
	// FirstWait bounds how long the first request for an idle rule waits.
	FirstWait metav1.Duration `json:"firstWait"`
	// Concurrency bounds the queries under way at once.
	Concurrency int `json:"concurrency"`
	// Rules beside the built-in ones, or in place of one of the same name.
	Rules []Rule `json:"rules,omitempty"`
}

// Prometheus is where and how to ask.
type Prometheus struct {
	prom.Config
	Timeout metav1.Duration `json:"timeout"`
}

// Client returns the client's configuration.
func (p Prometheus) Client() prom.Config {
	c := p.Config
	c.Timeout = p.Timeout.Duration
	return c
}

// Default is what a file that says nothing means, the URL apart.
func Default() Config {
	return Config{
		Prometheus:  Prometheus{Timeout: metav1.Duration{Duration: 5 * time.Second}},
		Interval:    metav1.Duration{Duration: 5 * time.Second},
		MaxAge:      metav1.Duration{Duration: 45 * time.Second},
		IdleAfter:   metav1.Duration{Duration: 10 * time.Minute},
		FirstWait:   metav1.Duration{Duration: 3 * time.Second},
		Concurrency: 4,
	}
}

// Parse reads a file over the defaults. Unknown and repeated fields are
// errors; values are judged by Validate.
func Parse(raw []byte) (Config, error) {
	c := Default()
	if err := yaml.UnmarshalStrict(raw, &c); err != nil {
		return Config{}, fmt.Errorf("parsing configuration: %w", err)
	}
	return c, nil
}

// Validate returns all problems, each with its field path.
func (c Config) Validate() error {
	var errs []error
	positive := func(field string, d metav1.Duration) {
		if d.Duration <= 0 {
			errs = append(errs, fmt.Errorf("%s: must be positive", field))
		}
	}
	if err := c.Prometheus.Client().Validate(); err != nil {
		errs = append(errs, prefix("prometheus", err))
	}
	positive("prometheus.timeout", c.Prometheus.Timeout)
	positive("interval", c.Interval)
	positive("maxAge", c.MaxAge)
	positive("idleAfter", c.IdleAfter)
	positive("firstWait", c.FirstWait)
	if c.Concurrency < 1 {
		errs = append(errs, errors.New("concurrency: must be at least 1"))
	}
	if c.MaxAge.Duration <= c.Interval.Duration {
		errs = append(errs, errors.New("maxAge: must be longer than interval, or every value is stale"))
	}
	_, err := c.Signals()
	return errors.Join(append(errs, err)...)
}

// Signals returns the built-in rules with the file's own added or put in their
// place, and all problems in them.
func (c Config) Signals() ([]signal.Rule, error) {
	rules := signal.Builtin(c.MaxAge.Duration)
	at := map[string]int{}
	for i, r := range rules {
		at[r.Name] = i
	}
	named := map[string]bool{}
	var errs []error
	for i, own := range c.Rules {
		path := fmt.Sprintf("rules[%d]", i)
		r, err := own.signal(c.MaxAge.Duration)
		if err == nil {
			err = r.Validate()
		}
		if err != nil {
			errs = append(errs, prefix(path, err))
			continue
		}
		if named[r.Name] {
			errs = append(errs, fmt.Errorf("%s.name: %q is declared twice", path, r.Name))
			continue
		}
		named[r.Name] = true
		if n, builtin := at[r.Name]; builtin {
			rules[n] = r
			continue
		}
		rules = append(rules, r)
	}
	return rules, errors.Join(errs...)
}

// prefix puts a path before each of the problems joined in err.
func prefix(path string, err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return fmt.Errorf("%s.%w", path, err)
	}
	var errs []error
	for _, e := range joined.Unwrap() {
		errs = append(errs, prefix(path, e))
	}
	return errors.Join(errs...)
}

// Cache returns the cache's options.
func (c Config) Cache() cache.Options {
	return cache.Options{
		Interval: c.Interval.Duration, IdleAfter: c.IdleAfter.Duration,
		FirstWait: c.FirstWait.Duration, Concurrency: c.Concurrency,
	}
}
