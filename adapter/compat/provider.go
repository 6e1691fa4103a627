package compat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/provider"
	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// Watcher is the part of *cache.Cache the provider needs.
type Watcher interface {
	Watch(ctx context.Context, q cache.Question, namespace string) (cache.State, error)
}

// Sources are what a Provider reads from.
type Sources struct {
	Watcher Watcher
	Lister  Lister
	Pods    provider.Pods
	// Objects lists the names of other objects.
	Objects metadata.Interface
	Mapper  apimeta.RESTMapper
	// Other answers what the file does not declare; may be nil.
	Other cma.MetricsProvider
}

// Provider answers both metrics APIs by the rules of a file. Another provider answers
// what the file does not declare, so a migration changes no answer. Its methods are safe
// for concurrent use. A nil Provider has no rules.
type Provider struct {
	Sources
	opts Options
	log  *slog.Logger
	now  func() time.Time

	registry atomic.Pointer[registry]

	// Used by Run only.
	file     *File
	listings map[string]*listing // by selector
}

var _ cma.MetricsProvider = (*Provider)(nil)

// New returns a provider for a file, which the options name. A broken rule is logged
// and left out. It sends no query before Run.
func New(o Options, f *File, from Sources, log *slog.Logger) *Provider {
	p := &Provider{Sources: from, file: f, listings: map[string]*listing{}, opts: o.WithDefaults(), log: log, now: time.Now}
	log.Info("prometheus-adapter rules", slog.String("file", f.Name), slog.Int("rules", len(f.good())))
	for _, problem := range f.problems() {
		log.Warn("rule left out", slog.Any("error", problem))
	}
	if f.ResourceRules {
		log.Warn("resourceRules are not served: they are for metrics.k8s.io", slog.String("file", f.Name))
	}
	for _, r := range f.good() {
		p.listings[r.SeriesQuery] = &listing{selector: r.SeriesQuery}
	}
	nothing := newRegistry(&File{}, nil, from.Mapper)
	nothing.pending = errors.New("the series of its rules have not been listed yet")
	p.registry.Store(nothing)
	return p
}

// ListAllMetrics lists what discovery found, and the other provider's metrics, each once.
func (p *Provider) ListAllMetrics() []cma.CustomMetricInfo {
	all := slices.Collect(maps.Keys(p.registry.Load().custom))
	if p.Other != nil {
		all = append(all, p.Other.ListAllMetrics()...)
	}
	slices.SortFunc(all, func(a, b cma.CustomMetricInfo) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(all)
}

// ListAllExternalMetrics is ListAllMetrics for external metrics.
func (p *Provider) ListAllExternalMetrics() []cma.ExternalMetricInfo {
	var all []cma.ExternalMetricInfo
	if p.Other != nil {
		all = p.Other.ListAllExternalMetrics()
	}
	for name := range p.registry.Load().external {
		all = append(all, cma.ExternalMetricInfo{Metric: name})
	}
	slices.SortFunc(all, func(a, b cma.ExternalMetricInfo) int { return strings.Compare(a.Metric, b.Metric) })
	return slices.Compact(all)
}

// elsewhere returns the other provider for a metric of its own. While some of the file's series
// have never been listed, any other name may be one of the file's: the error is then "not yet",
// not "not found". of is the kind of a custom metric's objects.
func (p *Provider) elsewhere(metric string, of schema.GroupResource) (cma.MetricsProvider, error) {
	if p.Other != nil && slices.Contains(p.Other.ListAllExternalMetrics(), cma.ExternalMetricInfo{Metric: metric}) {
		return p.Other, nil
	}
	if pending := p.registry.Load().pending; pending != nil {
		return nil, provider.Unavailable("%s: %v", metric, pending)
	}
	var served []string
	for _, info := range p.ListAllMetrics() {
		if info.GroupResource == of {
			served = append(served, info.Metric)
		}
	}
	if of.Empty() {
		for _, info := range p.ListAllExternalMetrics() {
			served = append(served, info.Metric)
		}
	}
	return nil, provider.NotFound("no rule of %s serves %s for this kind of object; %s", p.opts.ConfigFile, metric, provider.Nearest(metric, served))
}

// Has reports whether an external metric is one of the file's. The error says why it may become one.
func (p *Provider) Has(metric string) (bool, error) {
	if p == nil {
		return false, nil
	}
	r := p.registry.Load()
	return r.external[metric] != nil, r.pending
}

// Rules returns the state of each rule, broken ones included.
func (p *Provider) Rules() []RuleState {
	if p == nil {
		return nil
	}
	return p.registry.Load().rules
}

// lookup returns the target of a custom metric; nil if there is none.
func (p *Provider) lookup(info cma.CustomMetricInfo) *target {
	normal, _, err := info.Normalized(p.Mapper)
	if err != nil {
		return nil
	}
	return p.registry.Load().custom[normal]
}

// view is an answer and how to read it.
type view struct {
	plan *plan
	cache.State
}

// ask answers from the query for all objects. If there is none, or Prometheus rejects it and no
// last answer is usable, ask sends a query for this request only.
func (p *Provider) ask(ctx context.Context, t *target, selector k8slabels.Selector, namespace string, objects []string) (view, error) {
	if t.unlabelled != nil {
		return view{}, provider.Internal("%s: %v", t.rule.ID, t.unlabelled)
	}
	how, err := t.general(selector)
	if err == nil && (how.special != "" || namespace == "" && how.namespace != "") {
		how, err = t.specific(selector, namespace, objects, how.special)
	}
	if err != nil {
		return view{}, err
	}
	v, err := p.watch(ctx, t, how, namespace)
	known := func(object string) bool {
		_, err := v.answer(object, p.now(), "")
		return err == nil
	}
	if how.special == "" && len(objects) > 0 && !slices.ContainsFunc(objects, known) && (errors.Is(v.Failure, prom.ErrBadQuery) || errors.Is(v.Failure, prom.ErrTooLarge)) {
		if how, err = t.specific(selector, namespace, objects, "Prometheus rejects the query about all objects"); err == nil {
			return p.watch(ctx, t, how, namespace)
		}
	}
	return v, err
}

func (p *Provider) watch(ctx context.Context, t *target, how *plan, namespace string) (view, error) {
	q := cache.Question{
		Rule: t.rule.ID, Backend: p.opts.Backend,
		Version: fmt.Sprintf("%s\xff%s\xff%s", how.query, how.namespace, how.object),
		Queries: func(bool, []string) []string { return []string{how.query} },
		Empty:   signal.NewTable(how.rule(p.opts.MaxAge)), // v0.12.0 has no past
	}
	if how.namespace != "" { // about all namespaces
		q.Queries = func(_ bool, namespaces []string) []string { return []string{how.within(namespaces)} }
		q.Namespace = func(ls prom.Labels) string { return ls.Get(how.namespace) }
	}
	state, err := p.Watcher.Watch(ctx, q, namespace)
	switch {
	case errors.Is(err, cache.ErrTooManyQuestions):
		return view{}, provider.Unavailable("%s: %v; fewer distinct metric selectors, or a template without .LabelValuesByName, need fewer", t.rule.ID, err)
	case err != nil: // the request has ended
		return view{}, apierrors.NewTimeoutError(fmt.Sprintf("waiting for the first value of %s: %v", t.series, err), 1)
	}
	return view{how, state}, nil
}

// none returns the API's error for a missing value: 503 when Prometheus is
// unavailable, 500 when it cannot answer, 404 when it has no usable value.
func (v view) none(t *target, why error) error {
	if errors.Is(v.Failure, prom.ErrBadQuery) {
		return provider.Internal("%s: %v", t.rule.ID, v.Failure)
	}
	if v.plan.special != "" { // it may be the reason too: `avg(…)` without by has no pod label
		why = fmt.Errorf("%w; the query is for this request alone: %s", why, v.plan.special)
	}
	return provider.Refusal(fmt.Errorf("%s: %w", t.rule.ID, why), v.Failure)
}
