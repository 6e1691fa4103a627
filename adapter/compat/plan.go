package compat

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	k8slabels "k8s.io/apimachinery/pkg/labels"

	"github.com/gpuscale/gpuscale/adapter/provider"
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
	// query is the query sent: the values and their times. A general query is
	// about all namespaces; within returns the one about some of them.
	query  string
	within func(namespaces []string) string
	// namespace and object are the labels that distinguish the answer's series.
	// namespace is "" if the query is about one namespace, object is "" if it is about
	// no object.
	namespace, object string
	// special is why the query is for this request only; "" if it is for all
	// objects.
	special string
	window  *int64 // in seconds; nil for a single sample
}

// general returns the query for all objects in some namespaces, or in all if none
// is named. If there is no such query, the plan has only the reason, in special.
func (t *target) general(selector k8slabels.Selector, namespaces ...string) (*plan, error) {
	e, err := t.expression(selector, placeholder, placeholder)
	switch {
	case apierrors.IsBadRequest(err):
		return nil, err
	case t.rule.query.alone:
		return &plan{special: "the template uses .LabelValuesByName"}, nil
	case err != nil:
		return nil, err
	}
	g := generalizer{t.namespace, t.object, func(label string) *labels.Matcher {
		if label == t.namespace && len(namespaces) > 0 {
			return signal.OneOf(label, namespaces)
		}
		return labels.MustNewMatcher(labels.MatchNotEqual, label, "")
	}}
	if g.namespace == g.object {
		g.namespace = ""
	}
	if err := g.rewrite(e); err != nil {
		return &plan{special: err.Error()}, nil
	}
	keys := slices.DeleteFunc(slices.Compact([]string{t.namespace, t.object}), func(label string) bool { return label == "" })
	p := t.plan(e, keys)
	p.namespace = t.namespace
	p.within = func(namespaces []string) string {
		if some, err := t.general(selector, namespaces...); err == nil {
			return some.query
		}
		return p.query // unreachable: the same call has just succeeded
	}
	return p, nil
}

// specific returns the query about some objects in one namespace, as v0.12.0
// sends it. It rejects names that no Kubernetes object can have: only plain ones
// are put into text.
func (t *target) specific(selector k8slabels.Selector, namespace string, objects []string, why string) (*plan, error) {
	for _, name := range append([]string{namespace}, objects...) {
		if name != "" && !plainName.MatchString(name) {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("%q is not a name of a namespace or object", name))
		}
	}
	e, err := t.expression(selector, namespace, objects...)
	if err != nil {
		return nil, err
	}
	var keys []string
	if t.object != "" {
		keys = []string{t.object}
	}
	p := t.plan(e, keys)
	p.special = why
	return p, nil
}

// plainName matches the names of Kubernetes objects. Only such names are put
// into a query's text.
var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,252}$`)

// expression returns the rule's query for a selector, some objects and their namespace, if
// they have one. Errors are the API's: 400 for the selector, 500 for the rule.
func (t *target) expression(selector k8slabels.Selector, namespace string, objects ...string) (parser.Expr, error) {
	all, err := conditions(selector)
	if err != nil {
		return nil, err
	}
	if t.namespace != "" && namespace != "" && t.namespace != t.object {
		all = append(all, named(t.namespace, namespace))
	}
	var groupBy []string
	if t.object != "" {
		all, groupBy = append(all, named(t.object, objects...)), []string{t.object}
	}
	e, err := t.rule.expression(t.series, all, groupBy...)
	if err != nil {
		return nil, provider.Internal("%s: metricsQuery: %v", t.rule.ID, err)
	}
	return e, nil
}

// plan returns the plan of a query. The keys are the labels that distinguish
// its answers.
func (t *target) plan(e parser.Expr, keys []string) *plan {
	p := &plan{value: e.String(), object: t.object, window: window(e)}
	for s := range signal.Selectors(e) { // no series has our own label
		s.LabelMatchers = append(s.LabelMatchers, labels.MustNewMatcher(labels.MatchEqual, signal.PartLabel, ""))
	}
	by := parser.ItemType(parser.SUM) // as the HPA does with the series of an external metric
	if t.object != "" {
		by = parser.MAX // v0.12.0 takes any of several series for one object
	}
	p.query = timed(e, by, keys).String()
	return p
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
