package compat

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	pmodel "github.com/prometheus/common/model"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"
	theirs "sigs.k8s.io/prometheus-adapter/pkg/client"
	"sigs.k8s.io/prometheus-adapter/pkg/config"
	"sigs.k8s.io/prometheus-adapter/pkg/naming"

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
	Name  string `json:"name"`
	State string `json:"state"`        // InForce or Rejected
	At    string `json:"at,omitempty"` // file:line, or "built in"
	// Metrics are their names in the API.
	Metrics []string `json:"metrics,omitempty"`
	// Alone is why requests have a query of their own: one for each namespace,
	// set of objects and selector. It is "" until one was made.
	Alone string `json:"alone,omitempty"`
	// Problems of the rule itself, or of its last discovery.
	Problems []string `json:"problems,omitempty"`
}

// States of a rule, as in the metric's label.
const (
	InForce  = "in_force"
	Rejected = "rejected"
)

func (s *RuleState) problem(err error) {
	if text := err.Error(); !slices.Contains(s.Problems, text) {
		s.Problems = append(s.Problems, text)
	}
}

// newRegistry associates the families of each selector with the rules. As in
// v0.12.0 a later rule takes a name from an earlier one.
func newRegistry(f *File, families map[string][]prom.Family, failures map[string]error, mapper apimeta.RESTMapper) *registry {
	r := &registry{custom: map[cma.CustomMetricInfo]*target{}, external: map[string]*target{}, plans: utilcache.NewLRUExpireCache(maxPlans)}
	for _, rule := range f.Rules {
		state := RuleState{Name: rule.ID, State: InForce, At: fmt.Sprintf("%s:%d", rule.File, rule.Line)}
		if err := failures[rule.SeriesQuery]; err != nil {
			state.problem(fmt.Errorf("listing its series: %w", err))
		}
		for _, p := range rule.Problems {
			state.problem(p)
			state.State = Rejected
		}
		if state.State == InForce {
			r.associate(rule, families[rule.SeriesQuery], mapper, &state)
		}
		r.rules = append(r.rules, state)
	}
	for _, p := range f.Problems {
		r.rules = append(r.rules, RuleState{State: Rejected, At: fmt.Sprintf("%s:%d", p.File, p.Line), Problems: []string{p.Error()}})
	}
	for s, err := range failures {
		if len(families) == 0 {
			r.pending = fmt.Errorf("listing the series of %s: %w", s, err)
		}
	}
	return r
}

// associate finds the metrics of one rule.
func (r *registry) associate(rule *Rule, families []prom.Family, mapper apimeta.RESTMapper, state *RuleState) {
	n, unknown, err := rule.namer(mapper)
	if len(unknown) > 0 {
		state.problem(fmt.Errorf("resources.overrides: the cluster has no %s", strings.Join(unknown, ", ")))
	}
	if err != nil {
		state.problem(err)
		return
	}
	for _, f := range families {
		name, series, ok := n.serves(f)
		switch {
		case !ok:
		case rule.External:
			r.external[name] = targetOf(rule, f, n, cma.CustomMetricInfo{}, state)
			state.Metrics = append(state.Metrics, name)
		default:
			resources, namespaced := n.ResourcesForSeries(series)
			for _, gr := range resources {
				info := cma.CustomMetricInfo{GroupResource: gr, Namespaced: namespaced && !slices.Contains(rootScoped, gr), Metric: name}
				if t := targetOf(rule, f, n, info, state); t != nil {
					r.custom[info] = t
					state.Metrics = append(state.Metrics, gr.String()+"/"+name)
				}
			}
		}
	}
	slices.Sort(state.Metrics)
	state.Metrics = slices.Compact(state.Metrics)
}

// targetOf returns nil where no label names the objects of a custom metric. info is zero for
// an external one.
func targetOf(rule *Rule, f prom.Family, n namer, info cma.CustomMetricInfo, state *RuleState) *target {
	t := &target{rule: rule, series: f.Name}
	var err error
	if !rule.External {
		if t.object, err = n.label(info.GroupResource); err != nil {
			state.problem(err)
			return nil
		}
	}
	switch {
	case info.GroupResource == naming.NsGroupResource:
		t.namespace = t.object // a Namespace is asked about in itself
	case info.Namespaced, rule.External && rule.Namespaced:
		if t.namespace, err = n.label(naming.NsGroupResource); err != nil {
			t.unlabelled = fmt.Errorf("%w: add resources.overrides or resources.template; an external rule may say resources: {namespaced: false}", err)
			state.problem(t.unlabelled)
		}
	}
	return t
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
			if ok && all[i].Name == k.(planKey).target.rule.ID {
				all[i].Alone = cmp.Or(p.(*plan).special, all[i].Alone)
			}
		}
	}
	return all
}

// namer is v0.12.0's own mapping of a rule's series to names and resources in a cluster.
type namer struct {
	naming.MetricNamer
	overrides map[string]schema.GroupResource // by label
}

// namer returns a good rule's mapping, and the resources of the file that the cluster does not
// have: v0.12.0 does not start then.
func (r *Rule) namer(mapper apimeta.RESTMapper) (n namer, unknown []string, err error) {
	rule := r.raw
	n.overrides, rule.Resources.Overrides = map[string]schema.GroupResource{}, maps.Clone(rule.Resources.Overrides)
	maps.DeleteFunc(rule.Resources.Overrides, func(label string, to config.GroupResource) bool {
		info, _, err := cma.CustomMetricInfo{GroupResource: schema.GroupResource(to)}.Normalized(mapper)
		if err != nil {
			unknown = append(unknown, schema.GroupResource(to).String())
			return true
		}
		n.overrides[label] = info.GroupResource
		return false
	})
	slices.Sort(unknown)
	all, err := naming.NamersFromConfig([]config.DiscoveryRule{rule}, mapper)
	if err == nil {
		n.MetricNamer = all[0]
	}
	return n, unknown, err
}

// serves returns the API's name for a family of series, and false if a filter excludes it or
// the name is empty.
func (n namer) serves(f prom.Family) (name string, s theirs.Series, ok bool) {
	s = theirs.Series{Name: f.Name, Labels: pmodel.LabelSet{}}
	for _, label := range f.Labels {
		s.Labels[pmodel.LabelName(label)] = ""
	}
	if len(n.FilterSeries([]theirs.Series{s})) == 0 {
		return "", s, false
	}
	name, err := n.MetricNameForSeries(s)
	return name, s, err == nil && name != ""
}

// label returns the label that names objects of a resource in queries. Several
// overrides may name one resource; the first in order of the labels counts.
func (n namer) label(gr schema.GroupResource) (string, error) {
	for _, label := range slices.Sorted(maps.Keys(n.overrides)) {
		if n.overrides[label] == gr {
			return label, nil
		}
	}
	label, err := n.LabelForResource(gr)
	return string(label), err
}

// rootScoped are the resources whose metrics v0.12.0 never counts as namespaced.
var rootScoped = []schema.GroupResource{naming.NsGroupResource, naming.NodeGroupResource, naming.PVGroupResource}
