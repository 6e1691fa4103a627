package compat

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/internal/prom"
)

// registry is what the API serves at one time. It is immutable, except for its
// cache of plans.
type registry struct {
	custom   map[cma.CustomMetricInfo]*target
	external map[string]*target
	rules    []RuleState
	pending  error                     // why no series are known yet
	plans    *utilcache.LRUExpireCache // of planKey and *plan
}

type planKey struct {
	target   *target
	selector string
}

// maxPlans bounds the cache of plans, and planFor how long one is in it.
const (
	maxPlans = 4096
	planFor  = time.Hour
)

// RuleState is the state of one rule.
type RuleState struct {
	Rule, SeriesQuery string
	File              string
	Line              int
	// Series is the number of metric names that discovery found, and Metrics
	// their names in the API.
	Series  int
	Metrics []string
	// Alone is why requests have a query of their own: one for each namespace,
	// set of objects and selector. It is "" until one was made.
	Alone string
	// Problems of the rule itself, or of its last discovery.
	Problems []string
	// Broken: the rule cannot be used.
	Broken bool
}

// newRegistry associates the families of each selector with the rules. As in
// v0.12.0 a later rule takes a name from an earlier one.
func newRegistry(f *File, families map[string][]prom.Family, failures map[string]error, mapper apimeta.RESTMapper) *registry {
	r := &registry{custom: map[cma.CustomMetricInfo]*target{}, external: map[string]*target{}, plans: utilcache.NewLRUExpireCache(maxPlans)}
	for _, rule := range f.Rules {
		state := RuleState{Rule: rule.ID, SeriesQuery: rule.SeriesQuery, File: rule.File, Line: rule.Line, Broken: len(rule.Problems) > 0}
		if err := failures[rule.SeriesQuery]; err != nil {
			state.Problems = append(state.Problems, fmt.Sprintf("listing its series: %v", err))
		}
		for _, p := range rule.Problems {
			state.Problems = append(state.Problems, p.Error())
		}
		if !state.Broken {
			a := association{registry: r, rule: rule, mapping: mapping{&rule.resources, mapper}, state: &state}
			a.run(families[rule.SeriesQuery])
		}
		r.rules = append(r.rules, state)
	}
	for _, p := range f.Problems {
		r.rules = append(r.rules, RuleState{File: p.File, Line: p.Line, Broken: true, Problems: []string{p.Error()}})
	}
	for s, err := range failures {
		if len(families) == 0 {
			r.pending = fmt.Errorf("listing the series of %s: %w", s, err)
		}
	}
	return r
}

// association finds the metrics of one rule.
type association struct {
	registry *registry
	rule     *Rule
	mapping  mapping
	state    *RuleState
}

func (a *association) run(families []prom.Family) {
	overrides, unknown := a.mapping.overrides()
	if len(unknown) > 0 {
		a.problem(fmt.Errorf("resources.overrides: the cluster has no %s", strings.Join(unknown, ", ")))
	}
	series := map[string]bool{}
	for _, f := range families {
		name, ok := a.rule.serves(f.Name)
		if !ok {
			continue
		}
		series[f.Name] = true
		if a.rule.External {
			a.external(name, f, overrides)
			continue
		}
		resources, namespaced := a.mapping.of(f.Labels, overrides)
		for _, gr := range resources {
			a.custom(name, f, gr, namespaced && !rootScoped(gr), overrides)
		}
	}
	a.state.Series = len(series)
	slices.Sort(a.state.Metrics)
	a.state.Metrics = slices.Compact(a.state.Metrics)
}

func (a *association) problem(err error) {
	if text := err.Error(); !slices.Contains(a.state.Problems, text) {
		a.state.Problems = append(a.state.Problems, text)
	}
}

func (a *association) external(name string, f prom.Family, overrides map[string]schema.GroupResource) {
	t := &target{rule: a.rule, series: f.Name}
	if a.rule.Namespaced {
		t.namespace, t.unlabelled = a.mapping.label(namespaces, overrides)
	}
	if t.unlabelled != nil {
		t.unlabelled = fmt.Errorf("%w, or say resources: {namespaced: false}", t.unlabelled)
		a.problem(t.unlabelled)
	}
	a.registry.external[name] = t
	a.state.Metrics = append(a.state.Metrics, name)
}

func (a *association) custom(name string, f prom.Family, gr schema.GroupResource, namespaced bool, overrides map[string]schema.GroupResource) {
	t := &target{rule: a.rule, series: f.Name}
	var err error
	if t.object, err = a.mapping.label(gr, overrides); err != nil {
		a.problem(err)
		return
	}
	if namespaced {
		if t.namespace, t.unlabelled = a.mapping.label(namespaces, overrides); t.unlabelled != nil {
			a.problem(t.unlabelled)
		}
	}
	if gr == namespaces {
		t.namespace = t.object // a Namespace is asked about in itself
	}
	a.registry.custom[cma.CustomMetricInfo{GroupResource: gr, Namespaced: namespaced, Metric: name}] = t
	a.state.Metrics = append(a.state.Metrics, gr.String()+"/"+name)
}

// plan returns the cached general plan for a target and a selector.
func (r *registry) plan(t *target, selector k8slabels.Selector) (*plan, error) {
	k := planKey{t, selector.String()}
	if known, ok := r.plans.Get(k); ok {
		return known.(*plan), nil
	}
	p, err := t.general(selector)
	if err == nil {
		r.plans.Add(k, p, planFor)
	}
	return p, err
}

// states returns the state of each rule.
func (r *registry) states() []RuleState {
	all := slices.Clone(r.rules)
	for _, k := range r.plans.Keys() {
		p, ok := r.plans.Get(k)
		for i := range all {
			if ok && all[i].Rule == k.(planKey).target.rule.ID {
				all[i].Alone = cmp.Or(p.(*plan).special, all[i].Alone)
			}
		}
	}
	return all
}
