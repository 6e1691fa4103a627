package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

// Rule is a signal of the user's own.
type Rule struct {
	Name string `json:"name"`
	// Like names a built-in rule whose fields are the defaults of this one.
	Like string `json:"like,omitempty"`
	// Backend to query, of the configured ones; the default one if unset.
	Backend string `json:"backend,omitempty"`
	// Query in PromQL, in place of sources: one number for each pod if it groups by the
	// pod, else one for each namespace. $namespaces in a matcher stands for the
	// namespaces from which requests come.
	Query   string         `json:"query,omitempty"`
	Labels  Labels         `json:"labels,omitempty"`
	Subject signal.Subject `json:"subject"`
	Sources []Source       `json:"sources"`
	// Identity are the labels that distinguish the parts of a pod.
	Identity    []string           `json:"identity,omitempty"`
	Duplicates  signal.Aggregation `json:"duplicates,omitempty"` // "max" if unset
	PerPod      signal.Aggregation `json:"perPod"`
	PerWorkload signal.Aggregation `json:"perWorkload"`
	// Minimum and Maximum bound plausible values: 0 and 1e9 if unset.
	Minimum *float64         `json:"minimum,omitempty"`
	Maximum *float64         `json:"maximum,omitempty"`
	MaxAge  *metav1.Duration `json:"maxAge,omitempty"`
	Window  *metav1.Duration `json:"window,omitempty"`
	// Wide is the window where Window holds fewer than two scrapes; none if unset.
	Wide *metav1.Duration `json:"wide,omitempty"`
	// AtZero is the value for a workload that is scaled to zero; none if unset.
	AtZero *float64 `json:"atZero,omitempty"`
	// Activation: an external answer up to it is 0.
	Activation *float64 `json:"activation,omitempty"`
}

// Labels hold the pod that a series is about, and its namespace.
type Labels struct {
	Pod       string `json:"pod,omitempty"`       // "pod" if unset
	Namespace string `json:"namespace,omitempty"` // "namespace" if unset
}

// query sets the fields of a rule that is a query, and the defaults of others.
func (r Rule) query(out *signal.Rule) error {
	if r.Sources != nil || r.Like != "" {
		return errors.New("query: stands for itself; leave out sources and like")
	}
	out.Sources = []signal.Source{{Metric: signal.FirstMetric(r.Query), Form: signal.PromQL, Query: r.Query}}
	out.Subject, out.PerPod, out.PerWorkload = signal.Namespace, signal.Sum, signal.Sum
	if signal.GroupsBy(r.Query, cmp.Or(r.Labels.Pod, "pod")) {
		out.Subject = signal.Target
	}
	return nil
}

// signal converts the rule. signal.Rule's Validate checks it as a whole.
func (r Rule) signal(maxAge time.Duration) (signal.Rule, error) {
	out, err := r.base(maxAge)
	if err != nil {
		return out, err
	}
	out.Name = r.Name
	if r.Query != "" {
		if err := r.query(&out); err != nil {
			return out, err
		}
	}
	out.PodLabel, out.NamespaceLabel = r.Labels.Pod, r.Labels.Namespace
	replace(&out.Subject, r.Subject)
	replace(&out.Duplicates, r.Duplicates)
	replace(&out.PerPod, r.PerPod)
	replace(&out.PerWorkload, r.PerWorkload)
	if r.Identity != nil {
		out.Identity = r.Identity
	}
	override(&out.Minimum, r.Minimum)
	override(&out.Maximum, r.Maximum)
	override(&out.Activation, r.Activation)
	if r.AtZero != nil {
		out.AtZero = r.AtZero
	}
	if r.Window != nil {
		out.Window = r.Window.Duration
	}
	if r.Wide != nil {
		out.Wide = r.Wide.Duration
	}
	if len(r.Sources) == 0 {
		return out, nil
	}
	out.Sources = nil
	var errs []error
	for i, s := range r.Sources {
		source, err := s.signal(i)
		if err != nil {
			errs = append(errs, prefix(fmt.Sprintf("sources[%d]", i), err))
		}
		out.Sources = append(out.Sources, source)
	}
	return out, errors.Join(errs...)
}

// base returns the rule that this one starts from.
func (r Rule) base(maxAge time.Duration) (signal.Rule, error) {
	if r.Like == "" {
		return signal.Rule{Duplicates: signal.Max, Maximum: 1e9, MaxAge: maxAge}, nil
	}
	builtin := signal.Builtin(maxAge)
	var names []string
	for _, b := range builtin {
		if b.Name == r.Like {
			return b, nil
		}
		names = append(names, b.Name)
	}
	slices.Sort(names)
	return signal.Rule{}, fmt.Errorf("like: no built-in rule is called %q; there are %q", r.Like, names)
}

func replace[S ~string](to *S, with S) {
	if with != "" {
		*to = with
	}
}

func override(to *float64, with *float64) {
	if with != nil {
		*to = *with
	}
}

// Matcher is a label matcher as data, so that nothing is spliced into PromQL.
type Matcher struct {
	Label string `json:"label"`
	Op    string `json:"op"` // "=", "!=", "=~", "!~"
	Value string `json:"value"`
}

func (m Matcher) promql() (*labels.Matcher, error) {
	ops := map[string]labels.MatchType{
		"=": labels.MatchEqual, "!=": labels.MatchNotEqual, "=~": labels.MatchRegexp, "!~": labels.MatchNotRegexp,
	}
	op, ok := ops[m.Op]
	if !ok {
		return nil, fmt.Errorf(`op: %q is not one of "=", "!=", "=~", "!~"`, m.Op)
	}
	if m.Label == "" || m.Label == labels.MetricName {
		return nil, fmt.Errorf("label: %q cannot be matched", m.Label)
	}
	return labels.NewMatcher(op, m.Label, m.Value)
}

func matchers(all []Matcher) ([]*labels.Matcher, error) {
	var out []*labels.Matcher
	var errs []error
	for i, m := range all {
		matcher, err := m.promql()
		if err != nil {
			errs = append(errs, fmt.Errorf("matchers[%d]: %w", i, err))
			continue
		}
		out = append(out, matcher)
	}
	return out, errors.Join(errs...)
}
