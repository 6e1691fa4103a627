package compat

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/internal/prom"
)

// registry is what the API serves at one time. It is immutable, except for its
// cache of plans.
type registry struct {
	custom   map[cma.CustomMetricInfo]*target
	external map[string]*target
	rules    []RuleState

	mu    sync.Mutex
	plans map[planKey]*plan
}

type planKey struct {
	target   *target
	selector string
}

// maxPlans bounds the cache of plans; further ones are made for each request.
const maxPlans = 4096

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
	r := &registry{custom: map[cma.CustomMetricInfo]*target{}, external: map[string]*target{}, plans: map[planKey]*plan{}}
	for _, rule := range slices.Concat(f.Custom, f.External) {
		state := RuleState{Rule: rule.ID, SeriesQuery: rule.SeriesQuery, File: rule.File, Line: rule.Line}
		if err := failures[rule.SeriesQuery]; err != nil {
			state.Problems = append(state.Problems, fmt.Sprintf("listing its series: %v", err))
		}
		a := association{registry: r, rule: rule, mapping: mapping{&rule.resources, mapper}, state: &state, targets: map[string]*target{}}
		a.run(families[rule.SeriesQuery])
		r.rules = append(r.rules, state)
	}
	for _, p := range f.Problems {
		r.broken(p)
	}
	return r
}

// broken adds a problem to the state of its rule, which may have several.
func (r *registry) broken(p Problem) {
	i := slices.IndexFunc(r.rules, func(s RuleState) bool { return s.Rule == p.Rule && p.Rule != "" })
	if i < 0 {
		i = len(r.rules)
		r.rules = append(r.rules, RuleState{Rule: p.Rule, File: p.File, Line: p.Line})
	}
	r.rules[i].Broken = true
	r.rules[i].Problems = append(r.rules[i].Problems, p.Error())
}

// association finds the metrics of one rule.
type association struct {
	registry *registry
	rule     *Rule
	mapping  mapping
	state    *RuleState
	targets  map[string]*target
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
	a.registry.external[name] = a.same(name, t)
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
	info := cma.CustomMetricInfo{GroupResource: gr, Namespaced: namespaced, Metric: name}
	a.registry.custom[info] = a.same(info.String(), t)
	a.state.Metrics = append(a.state.Metrics, gr.String()+"/"+name)
}

// same deduplicates targets: there are as many equal ones as sets of labels.
func (a *association) same(id string, t *target) *target {
	id += "\xff" + t.series
	if known := a.targets[id]; known != nil {
		return known
	}
	a.targets[id] = t
	return t
}

// plan returns the cached general plan for a target and a selector.
func (r *registry) plan(t *target, selector string, build func() (*plan, error)) (*plan, error) {
	k := planKey{t, selector}
	r.mu.Lock()
	known := r.plans[k]
	r.mu.Unlock()
	if known != nil {
		return known, nil
	}
	p, err := build()
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.plans) < maxPlans {
		r.plans[k] = p
	}
	return p, nil
}

// states returns the state of each rule.
func (r *registry) states() []RuleState {
	alone := map[string]string{}
	r.mu.Lock()
	for k, p := range r.plans {
		if p.special != "" {
			alone[k.target.rule.ID] = p.special
		}
	}
	r.mu.Unlock()
	all := slices.Clone(r.rules)
	for i := range all {
		all[i].Alone = alone[all[i].Rule]
	}
	return all
}

var errNotListed = errors.New("the series of its rules have not been listed yet")
