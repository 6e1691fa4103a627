package compat

import (
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	k8slabels "k8s.io/apimachinery/pkg/labels"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

// target is a metric of the API: a rule, one of its series and the labels that
// name the object and its namespace.
type target struct {
	rule   *Rule
	series string
	// namespace is the label of the namespace; "" for cluster-scoped objects and
	// for external rules that are not namespaced.
	namespace string
	// object is the label of the object; "" for external metrics.
	object string
	// unlabelled is why a required namespace label is missing.
	unlabelled error
}

// plan is one query and how to read its answer.
type plan struct {
	// value is the query of the values alone, for error messages.
	value string
	// query is the query sent: the values and their ages. A general one is that
	// about all namespaces; within is the one about some.
	query  string
	within func(namespaces []string) string
	// namespace and object are the labels that tell the answer's series apart; "" where
	// the query is about one namespace or about no object.
	namespace, object string
	// special is why the query is for this request alone; "" if it is for all
	// objects.
	special  string
	constant bool // see generalizer.root
	aged     bool // see withAges
	window   time.Duration
}

// general returns the query for all objects in some namespaces, in all if none is
// named, or a plan without a query and with the reason.
func (t *target) general(selector k8slabels.Selector, namespaces ...string) (*plan, error) {
	all, err := conditions(selector)
	if err != nil {
		return nil, err
	}
	for _, label := range t.keys() {
		all = append(all, named(label, []string{placeholder}))
	}
	e, alone, err := t.expression(all)
	switch {
	case alone:
		return &plan{special: "the template uses .LabelValuesByName"}, nil
	case err != nil:
		return nil, err
	}
	g := generalizer{t.namespace, t.object, func(label string) *labels.Matcher {
		if label == t.namespace && len(namespaces) > 0 {
			return named(label, namespaces).matcher
		}
		return labels.MustNewMatcher(labels.MatchNotEqual, label, "")
	}}
	if g.namespace == g.object {
		g.namespace = ""
	}
	constant, err := g.rewrite(e)
	if err != nil {
		return &plan{special: err.Error()}, nil
	}
	p := t.plan(e, t.keys())
	p.namespace, p.object, p.constant = t.namespace, t.object, constant
	p.within = func(namespaces []string) string {
		if some, err := t.general(selector, namespaces...); err == nil {
			return some.query
		}
		return p.query // cannot be: it was made a moment ago
	}
	return p, nil
}

// keys returns the labels that distinguish the answers of a general query.
func (t *target) keys() []string {
	return slices.DeleteFunc(slices.Compact([]string{t.namespace, t.object}), func(label string) bool { return label == "" })
}

// specific returns the query about some objects in one namespace, as v0.12.0
// sends it. It rejects names that no Kubernetes object can have: only plain ones
// are put into text.
func (t *target) specific(selector k8slabels.Selector, namespace string, objects []string, why string) (*plan, error) {
	all, err := conditions(selector)
	if err != nil {
		return nil, err
	}
	for _, name := range append([]string{namespace}, objects...) {
		if name != "" && !plainName.MatchString(name) {
			return nil, fmt.Errorf("%w: %q is no name of a namespace or object", errSelector, name)
		}
	}
	if t.namespace != "" && namespace != "" && t.namespace != t.object {
		all = append(all, named(t.namespace, []string{namespace}))
	}
	var keys []string
	if t.object != "" {
		all = append(all, named(t.object, objects))
		keys = []string{t.object}
	}
	e, _, err := t.expression(all)
	if err != nil {
		return nil, err
	}
	p := t.plan(e, keys)
	p.object, p.special, p.constant = t.object, why, t.object == "" && hasDefault(e)
	return p, nil
}

func (t *target) plan(e parser.Expr, keys []string) *plan {
	value := e.String()
	unmarked(e)
	by := parser.ItemType(parser.SUM) // as the HPA does with the series of an external metric
	if t.object != "" {
		by = parser.MAX // v0.12.0 takes any of several series for one object
	}
	whole, aged := withAges(e, by, keys)
	return &plan{value: value, query: whole.String(), aged: aged, window: window(e)}
}

// unmarked excludes the series that have our own label.
func unmarked(e parser.Expr) {
	for s := range signal.Selectors(e) {
		s.LabelMatchers = append(s.LabelMatchers, labels.MustNewMatcher(labels.MatchEqual, signal.PartLabel, ""))
	}
}

// expression renders the rule's template for conditions and parses it. alone says that the
// values of the conditions are in it.
func (t *target) expression(all []condition) (e parser.Expr, alone bool, err error) {
	var groupBy []string
	if t.object != "" {
		groupBy = []string{t.object}
	}
	args := arguments(t.series, all, groupBy...)
	text, err := t.rule.query.render(args)
	if err != nil {
		return nil, args.used, fmt.Errorf("%s: metricsQuery: %w", t.rule.ID, err)
	}
	if e, err = signal.Parser.ParseExpr(text); err != nil {
		return nil, args.used, fmt.Errorf("%s: metricsQuery renders to %q: %w", t.rule.ID, text, err)
	}
	quote(e, all)
	switch {
	case e.Type() == parser.ValueTypeVector:
		return e, args.used, nil
	case e.Type() == parser.ValueTypeScalar && t.rule.External:
		return signal.Call("vector", e), args.used, nil
	}
	return nil, args.used, fmt.Errorf("%s: metricsQuery gives a %s: must be a vector", t.rule.ID, parser.DocumentedType(e.Type()))
}

// hasDefault reports whether a query may return a value without a series.
func hasDefault(e parser.Expr) bool {
	found := false
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		c, ok := n.(*parser.Call)
		found = found || ok && slices.Contains([]string{"vector", "scalar", "absent", "absent_over_time"}, c.Func.Name)
		return nil
	})
	return found
}

// quote fixes the regular expressions that a template makes of
// .LabelValuesByName, in which a dot would match any character.
func quote(e parser.Expr, all []condition) {
	for s := range signal.Selectors(e) {
		for i, m := range s.LabelMatchers {
			if m.Type != labels.MatchRegexp && m.Type != labels.MatchNotRegexp {
				continue
			}
			for _, c := range all {
				if c.joined == m.Value && c.quoted != m.Value {
					s.LabelMatchers[i] = labels.MustNewMatcher(m.Type, m.Name, c.quoted)
				}
			}
		}
	}
}
