package compat

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	pmodel "github.com/prometheus/common/model"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"
	theirs "sigs.k8s.io/prometheus-adapter/pkg/client"
	"sigs.k8s.io/prometheus-adapter/pkg/config"
	"sigs.k8s.io/prometheus-adapter/pkg/naming"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/strict"
)

// registry is what the API serves at one time. It is immutable.
type registry struct {
	custom   map[cma.CustomMetricInfo]*target
	external map[string]*target
	rules    []RuleState
	pending  error // why some series are not known yet
}

// RuleState is the state of one rule.
type RuleState struct {
	Name  string `json:"name"`
	State string `json:"state"`        // InForce or Rejected
	At    string `json:"at,omitempty"` // file:line, or "built in"
	// Metrics are their names in the API.
	Metrics []string `json:"metrics,omitempty"`
	// Alone is why requests need queries of their own: one for each namespace,
	// set of objects and selector.
	Alone string `json:"alone,omitempty"`
	// Problems of the rule itself, or of its last discovery.
	Problems []string `json:"problems,omitempty"`
}

// States of a rule, as in the metric's label.
const (
	InForce  = "in_force"
	Rejected = "rejected"
)

// StateOf returns the state of a rule with the problems of reading it.
func StateOf(name, at string, problems []strict.Problem) RuleState {
	s := RuleState{Name: name, State: InForce, At: at}
	for _, p := range problems {
		s.problem(p)
		s.State = Rejected
	}
	return s
}

func (s *RuleState) problem(err error) {
	if text := err.Error(); !slices.Contains(s.Problems, text) {
		s.Problems = append(s.Problems, text)
	}
}

// newRegistry associates the listed families of each selector with the rules.
// As in v0.12.0 a later rule takes over a name from an earlier one.
func newRegistry(f *File, listings map[string]*listing, mapper apimeta.RESTMapper) *registry {
	r := &registry{custom: map[cma.CustomMetricInfo]*target{}, external: map[string]*target{}}
	for selector, l := range listings {
		if l.err != nil && !l.ever {
			r.pending = fmt.Errorf("listing the series of %s: %w", selector, l.err)
		}
	}
	for _, rule := range f.Rules {
		state := StateOf(rule.ID, fmt.Sprintf("%s:%d", rule.File, rule.Line), rule.Problems)
		if l := listings[rule.SeriesQuery]; l != nil && state.State == InForce {
			if l.err != nil {
				state.problem(fmt.Errorf("listing its series: %w", l.err))
			}
			r.associate(rule, l.families, mapper, &state)
		}
		r.rules = append(r.rules, state)
	}
	for _, p := range f.Problems {
		r.rules = append(r.rules, RuleState{State: Rejected, At: fmt.Sprintf("%s:%d", p.File, p.Line), Problems: []string{p.Error()}})
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
	asked := map[string]bool{} // the object labels that Alone has been checked for
	for _, f := range families {
		for _, info := range n.metrics(rule, f) {
			t, err := n.target(rule, f.Name, info)
			if err != nil {
				state.problem(err)
			} else if !asked[t.object] {
				asked[t.object] = true
				if all, err := t.general(k8slabels.Everything()); err == nil {
					state.Alone = cmp.Or(state.Alone, all.special)
				}
			}
			switch name := info.Metric; {
			case t == nil:
			case rule.External:
				r.external[name] = t
				state.Metrics = append(state.Metrics, name)
			default:
				r.custom[info] = t
				state.Metrics = append(state.Metrics, info.GroupResource.String()+"/"+name)
			}
		}
	}
	slices.Sort(state.Metrics)
	state.Metrics = slices.Compact(state.Metrics)
}

// namer is v0.12.0's own mapping of a rule's series to names and resources in a cluster.
type namer struct {
	naming.MetricNamer
	overrides map[string]schema.GroupResource // by label
}

// namer returns a good rule's mapping, and the resources of the file that the cluster does not
// have. v0.12.0 does not start if there are any.
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

// metrics returns the metrics of a family of series, one if the rule is external; none if a
// filter excludes it or its name is empty.
func (n namer) metrics(rule *Rule, f prom.Family) (all []cma.CustomMetricInfo) {
	s := theirs.Series{Name: f.Name, Labels: pmodel.LabelSet{}}
	for _, label := range f.Labels {
		s.Labels[pmodel.LabelName(label)] = ""
	}
	name, err := n.MetricNameForSeries(s)
	switch {
	case err != nil || name == "" || len(n.FilterSeries([]theirs.Series{s})) == 0:
		return nil
	case rule.External:
		return []cma.CustomMetricInfo{{Namespaced: rule.Namespaced, Metric: name}}
	}
	resources, namespaced := n.ResourcesForSeries(s)
	for _, gr := range resources {
		all = append(all, cma.CustomMetricInfo{GroupResource: gr, Namespaced: namespaced && !slices.Contains(rootScoped, gr), Metric: name})
	}
	return all
}

// target returns the target of a metric. It is nil if no label names the metric's objects.
// A target with an error answers every request with that error.
func (n namer) target(rule *Rule, series string, info cma.CustomMetricInfo) (t *target, err error) {
	t = &target{rule: rule, series: series}
	if !rule.External {
		if t.object, err = n.label(info.GroupResource); err != nil {
			return nil, err
		}
	}
	switch {
	case info.GroupResource == naming.NsGroupResource:
		t.namespace = t.object // a Namespace is its own namespace
	case info.Namespaced:
		if t.namespace, err = n.label(naming.NsGroupResource); err != nil {
			t.unlabelled = fmt.Errorf("%w: add resources.overrides or resources.template; an external rule may say resources: {namespaced: false}", err)
		}
	}
	return t, t.unlabelled
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
