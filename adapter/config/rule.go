package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/gpu/trust"
)

// Rule is a user's own signal: signal.Rule's fields, and those that have another form
// in the file.
type Rule struct {
	signal.Rule
	// Like names a built-in rule whose fields are the defaults of this one.
	Like string `json:"like,omitempty"`
	// Query in PromQL, in place of sources: one number for each pod if it groups by the
	// pod, else one for each namespace. $namespaces in a matcher stands for the
	// namespaces from which requests come.
	Query string `json:"query,omitempty"`
}

// over returns the rule whose fields are the defaults of this one. It has no
// MaxAge.
func (r Rule) over() (Rule, error) {
	base := Rule{Rule: signal.Rule{Duplicates: signal.Max, Maximum: signal.MaxValue}}
	if r.Query != "" {
		base.Subject, base.PerPod, base.PerWorkload = signal.Namespace, signal.Sum, signal.Sum
		if len(r.Namespaces) == 0 && signal.GroupsBy(r.Query, cmp.Or(r.Labels.Pod, "pod")) {
			base.Subject = signal.Target
		}
		if r.Sources != nil || r.Like != "" {
			return base, errors.New("query: stands for itself; leave out sources and like")
		}
	}
	if r.Like == "" {
		return base, nil
	}
	var names []string
	for _, b := range signal.Builtin(0) {
		if b.Name == r.Like {
			return Rule{Rule: b}, nil
		}
		names = append(names, b.Name)
	}
	slices.Sort(names)
	return base, fmt.Errorf("like: no built-in rule is called %q; there are %q", r.Like, names)
}

// signal returns the rule. Its Validate checks it as a whole.
func (r Rule) signal() signal.Rule {
	if r.Query != "" {
		r.Sources = []signal.Source{{Metric: signal.FirstMetric(r.Query), Form: signal.PromQL, Query: r.Query}}
	}
	for i := range r.Sources {
		r.Sources[i].Tier = cmp.Or(r.Sources[i].Tier, &i)
	}
	return r.Rule
}

// rule reads one rule of the file: first to know its Like, then again over those
// defaults.
func (d document) rule(n *yaml.Node, path string, c Config) Declared {
	var first Rule
	r := Declared{Path: path, Line: n.Line, Problems: d.Fields(n, path, &first)}
	r.Name = first.Name
	if len(r.Problems) > 0 {
		return r
	}
	own, err := first.over()
	d.Fields(n, path, &own)
	s := own.signal()
	if err == nil {
		c.age(&s)
		s.Exporters = trust.From(c.ExporterNamespaces)
		err = errors.Join(s.Validate(), c.fresh("maxAge", own.MaxAge))
	}
	if own.Backend != "" {
		err = errors.Join(err, c.knows("backend", own.Backend))
	}
	r.Problems = d.Problems(n, path, err)
	r.Rule = s
	return r
}
