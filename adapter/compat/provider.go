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
	Watch(ctx context.Context, q cache.Question) (cache.State, error)
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
	raw     []byte
	unread  string
	listed  map[string][]prom.Family
	failing map[string]error
}

var _ cma.MetricsProvider = (*Provider)(nil)

// New returns a provider for the options' file. The error is about the whole
// file; a broken rule is logged and left out. It sends no query before Run.
func New(o Options, from Sources, log *slog.Logger) (*Provider, error) {
	if !o.Enabled() {
		return nil, errNoFile
	}
	raw, f, err := o.read()
	if err != nil {
		return nil, err
	}
	p := &Provider{
		raw:  raw,
		opts: o.WithDefaults(), watcher: from.Watcher, lister: from.Lister, pods: from.Pods, objects: from.Objects,
		mapper: from.Mapper, log: log, now: time.Now, pending: errNotListed,
		listed: map[string][]prom.Family{},
	}
	p.take(f)
	p.registry.Store(newRegistry(&File{}, nil, nil, from.Mapper))
	return p, nil
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

// ask answers from the query for all objects if there is one that Prometheus can
// answer, or else from one for this request.
func (p *Provider) ask(ctx context.Context, r *registry, t *target, selector k8slabels.Selector, namespace string, objects []string) (view, error) {
	if t.unlabelled != nil {
		return view{}, internal("%s: %v", t.rule.ID, t.unlabelled)
	}
	general, err := r.plan(t, selector.String(), func() (*plan, error) { return t.general(selector) })
	if err != nil {
		return view{}, refused(err)
	}
	why := general.special
	if why == "" {
		v, err := p.watch(ctx, t, general)
		if err != nil || !(errors.Is(v.failure, prom.ErrBadQuery) || errors.Is(v.failure, prom.ErrTooLarge)) {
			return v, err
		}
		// Series of one namespace may break the query for all objects. The
		// other namespaces must still get answers.
		why = v.failure.Error()
	}
	special, err := t.specific(selector, namespace, objects, why)
	if err != nil {
		return view{}, refused(err)
	}
	return p.watch(ctx, t, special)
}

func (p *Provider) watch(ctx context.Context, t *target, how *plan) (view, error) {
	maxAge := p.opts.MaxAge.Duration
	state, err := p.watcher.Watch(ctx, cache.Question{
		Rule: t.rule.ID, Backend: p.opts.Backend, Query: how.query,
		Version: fmt.Sprintf("%s\xff%s\xff%t\xff%s", how.namespace, how.object, how.constant, maxAge),
		Build:   how.reader(maxAge),
	})
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
