package compat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/provider"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// Watcher is the part of *cache.Cache the provider needs.
type Watcher interface {
	Watch(ctx context.Context, q cache.Question, namespace string) (cache.State, error)
}

// Pods lists pods, from memory.
type Pods interface {
	Ready() error
	Select(namespace string, selector k8slabels.Selector) []string
}

// Objects lists other objects' names, from the API server.
type Objects interface {
	Names(ctx context.Context, resource schema.GroupVersionResource, namespace string, selector k8slabels.Selector) ([]string, error)
}

// Sources are what a Provider reads from.
type Sources struct {
	Watcher Watcher
	Lister  Lister
	Pods    Pods
	Objects Objects
	Mapper  apimeta.RESTMapper
}

// Provider answers both metrics APIs by the rules of a file. Its methods are
// safe for concurrent use. A nil Provider has no rules and is ready.
type Provider struct {
	opts    Options
	watcher Watcher
	lister  Lister
	pods    Pods
	objects Objects
	mapper  apimeta.RESTMapper
	log     *slog.Logger
	now     func() time.Time

	registry atomic.Pointer[registry]
	mu       sync.Mutex
	pending  error

	// Used by Run only.
	file    *File
	listed  map[string][]prom.Family
	failing map[string]error
}

var _ cma.MetricsProvider = (*Provider)(nil)

// New returns a provider for a file, which the options name. A broken rule is logged
// and left out. It sends no query before Run.
func New(o Options, f *File, from Sources, log *slog.Logger) *Provider {
	p := &Provider{
		file: f,
		opts: o.WithDefaults(), watcher: from.Watcher, lister: from.Lister, pods: from.Pods, objects: from.Objects,
		mapper: from.Mapper, log: log, now: time.Now, pending: errNotListed,
		listed: map[string][]prom.Family{},
	}
	log.Info("prometheus-adapter rules", slog.String("file", f.Name), slog.Int("custom", len(f.Custom)), slog.Int("external", len(f.External)))
	for _, problem := range f.Problems {
		log.Warn("rule left out", slog.Any("error", problem))
	}
	if f.ResourceRules {
		log.Warn("resourceRules are not served: they are for metrics.k8s.io", slog.String("file", f.Name))
	}
	p.registry.Store(newRegistry(&File{}, nil, nil, from.Mapper))
	return p
}

// ListAllMetrics lists what discovery found.
func (p *Provider) ListAllMetrics() []cma.CustomMetricInfo {
	var all []cma.CustomMetricInfo
	for info := range p.registry.Load().custom {
		all = append(all, info)
	}
	slices.SortFunc(all, func(a, b cma.CustomMetricInfo) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// ListAllExternalMetrics lists what discovery found.
func (p *Provider) ListAllExternalMetrics() []cma.ExternalMetricInfo {
	var all []cma.ExternalMetricInfo
	for name := range p.registry.Load().external {
		all = append(all, cma.ExternalMetricInfo{Metric: name})
	}
	slices.SortFunc(all, func(a, b cma.ExternalMetricInfo) int { return strings.Compare(a.Metric, b.Metric) })
	return all
}

// Has reports whether an external metric is one of the file's.
func (p *Provider) Has(metric string) bool {
	return p != nil && p.registry.Load().external[metric] != nil
}

// Rules returns the state of each rule, broken ones included.
func (p *Provider) Rules() []RuleState {
	if p == nil {
		return nil
	}
	return p.registry.Load().states()
}

// lookup returns the target of a custom metric; nil if there is none.
func (p *Provider) lookup(info cma.CustomMetricInfo) (*registry, *target) {
	r := p.registry.Load()
	normal, _, err := info.Normalized(p.mapper)
	if err != nil {
		return r, nil
	}
	return r, r.custom[normal]
}

// view is an answer and how to read it.
type view struct {
	plan    *plan
	table   table
	failure error
}

// ask answers from the query for all objects if there is one, or else from one for
// this request.
func (p *Provider) ask(ctx context.Context, r *registry, t *target, selector k8slabels.Selector, namespace string, objects []string) (view, error) {
	if t.unlabelled != nil {
		return view{}, internal("%s: %v", t.rule.ID, t.unlabelled)
	}
	general, err := r.plan(t, selector.String(), func() (*plan, error) { return t.general(selector) })
	if err != nil {
		return view{}, refused(err)
	}
	if general.special == "" && (namespace != "" || general.namespace == "") {
		return p.watch(ctx, t, general, namespace)
	}
	special, err := t.specific(selector, namespace, objects, general.special)
	if err != nil {
		return view{}, refused(err)
	}
	return p.watch(ctx, t, special, namespace)
}

func (p *Provider) watch(ctx context.Context, t *target, how *plan, namespace string) (view, error) {
	maxAge := p.opts.MaxAge.Duration
	q := cache.Question{
		Rule: t.rule.ID, Backend: p.opts.Backend,
		Version: fmt.Sprintf("%s\xff%s\xff%s\xff%t\xff%s", how.query, how.namespace, how.object, how.constant, maxAge),
		Queries: func(bool, []string) []string { return []string{how.query} },
		Build:   how.reader(maxAge),
	}
	if how.within != nil && how.namespace != "" {
		q.Queries = func(_ bool, namespaces []string) []string { return []string{how.within(namespaces)} }
		q.Namespace = func(ls prom.Labels) string {
			if n := ls.Get(how.namespace); n != "" || !how.constant {
				return n
			}
			return cache.Everywhere
		}
	}
	state, err := p.watcher.Watch(ctx, q, namespace)
	switch {
	case errors.Is(err, cache.ErrTooManyQuestions):
		return view{}, unavailable("%s: %v; fewer distinct metric selectors, or a template without .LabelValuesByName, need fewer", t.rule.ID, err)
	case err != nil && ctx.Err() != nil:
		return view{}, apierrors.NewTimeoutError(fmt.Sprintf("waiting for the first value of %s: %v", t.series, err), 1)
	case err != nil:
		return view{}, unavailable("%s: %v", t.rule.ID, err)
	}
	v := view{plan: how, failure: state.Failure}
	v.table, _ = state.Value.(table)
	return v, nil
}

// none returns the API's error for a missing value: 503 when Prometheus is
// unavailable, 500 when it cannot answer, 404 when it has no usable value.
func (v view) none(t *target, subject string, why error) error {
	switch {
	case errors.Is(v.failure, prom.ErrBadQuery):
		return internal("%s: %v", t.rule.ID, v.failure)
	case v.failure != nil:
		return unavailable("%s: %s: %v; the last query failed: %v", t.rule.ID, subject, why, v.failure)
	}
	alone := ""
	if v.plan.special != "" { // may be the reason too: `avg(…)` without by names no pod
		alone = ", sent for this request alone: " + v.plan.special
	}
	return provider.NotFound("%s: %s: %v; the query is %s%s", t.rule.ID, subject, why, v.plan.value, alone)
}
