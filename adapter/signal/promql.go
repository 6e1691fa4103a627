package signal

import (
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// NamespacesVariable in the value of a matcher stands for the namespaces that a query is
// about: queue_length{namespace=~"$namespaces"}.
const NamespacesVariable = "$namespaces"

var promQL = parser.NewParser(parser.Options{})

// CheckPromQL returns what is wrong with the query of a source that is for some namespaces;
// for all that ask if none is named.
func CheckPromQL(text string, namespaces ...string) error {
	e, narrowed, err := parsePromQL(text, func(m *labels.Matcher) (*labels.Matcher, error) {
		if m.Type != labels.MatchRegexp && m.Type != labels.MatchEqual {
			return nil, fmt.Errorf(`%s: write %s=~"%s"`, m, m.Name, NamespacesVariable)
		}
		return m, nil
	})
	switch {
	case err != nil:
		return err
	case e.Type() != parser.ValueTypeVector:
		return fmt.Errorf("gives a %s, not a vector", parser.DocumentedType(e.Type()))
	case len(narrowed) == 0 && len(namespaces) == 0:
		return fmt.Errorf(`no selector has namespace=~"%s": it would read every namespace; name those that it is for in namespaces`, NamespacesVariable)
	case len(narrowed) > 0 && len(namespaces) > 0:
		return fmt.Errorf("is for the namespaces that it stands beside: leave %s out", NamespacesVariable)
	case FirstMetric(text) == "":
		return errors.New("reads no series")
	}
	return nil
}

// GroupsBy reports whether the result of a query has only the labels that it groups by,
// and a label among them.
func GroupsBy(text, label string) bool {
	e, err := promQL.ParseExpr(text)
	if err != nil {
		return false
	}
	for {
		switch inner := e.(type) {
		case *parser.ParenExpr:
			e = inner.Expr
		case *parser.AggregateExpr:
			return !inner.Without && slices.Contains(inner.Grouping, label)
		default:
			return false
		}
	}
}

// FirstMetric returns the name of the first series of a query, of those that it narrows if
// there are such; "" if it has none.
func FirstMetric(text string) string {
	e, selectors, err := parsePromQL(text, func(m *labels.Matcher) (*labels.Matcher, error) { return m, nil })
	if err == nil && len(selectors) == 0 {
		selectors = allSelectors(e)
	}
	if err != nil || len(selectors) == 0 {
		return ""
	}
	return selectors[0].Name
}

func allSelectors(e parser.Expr) (out []*parser.VectorSelector) {
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok {
			out = append(out, s)
		}
		return nil
	})
	return out
}

// parsePromQL parses a query, replaces the matchers with the variable, and returns the
// selectors that have one.
func parsePromQL(text string, replace func(*labels.Matcher) (*labels.Matcher, error)) (parser.Expr, []*parser.VectorSelector, error) {
	if text == "" {
		return nil, nil, errors.New("is required")
	}
	e, err := promQL.ParseExpr(text)
	if err != nil {
		return nil, nil, err
	}
	var narrowed []*parser.VectorSelector
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		s, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		found := false
		for i, m := range s.LabelMatchers {
			if m.Value != NamespacesVariable {
				continue
			}
			next, bad := replace(m)
			if err = errors.Join(err, bad); bad == nil {
				s.LabelMatchers[i], found = next, true
			}
		}
		if found {
			narrowed = append(narrowed, s)
		}
		return nil
	})
	return e, narrowed, err
}

// narrowed is a source's query about the namespaces, and the selectors that they narrow.
func (r query) narrowed(s Source) (parser.Expr, []*parser.VectorSelector) {
	e, selectors, err := parsePromQL(s.Query, func(m *labels.Matcher) (*labels.Matcher, error) {
		if len(r.namespaces) == 0 {
			return present(m.Name), nil
		}
		return oneOf(m.Name, r.namespaces), nil
	})
	if err != nil { // the rule has not been validated
		return Call("vector", number(0)), nil
	}
	if len(r.Namespaces) > 0 {
		selectors = allSelectors(e)
	}
	return e, selectors
}

// forEach gives one number to each of the namespaces that the rule names and the query is about.
func (r query) forEach(one parser.Expr) parser.Expr {
	var all parser.Expr
	for _, n := range r.Namespaces {
		if len(r.namespaces) > 0 && !slices.Contains(r.namespaces, n) {
			continue
		}
		own := Call("label_replace", one, text(r.namespace()), text(n), text(""), text(""))
		if all == nil {
			all = own
			continue
		}
		all = or(all, own)
	}
	if all == nil { // the rule is for others
		return Call("vector", number(0))
	}
	return all
}

var aggregators = map[Aggregation]parser.ItemType{Sum: parser.SUM, Average: parser.AVG, Max: parser.MAX, Min: parser.MIN}

// promql is the query's result for each subject.
func (r query) promql(s Source) parser.Expr {
	e, _ := r.narrowed(s)
	if len(r.Namespaces) > 0 {
		return r.forEach(group(aggregators[r.PerPod], e, nil))
	}
	return group(aggregators[r.PerPod], e, r.owner())
}

// promqlTime is when the oldest sample behind a subject's result was scraped.
func (r query) promqlTime(s Source) parser.Expr {
	_, selectors := r.narrowed(s)
	by := r.owner()
	if len(r.Namespaces) > 0 {
		by = nil
	}
	var all parser.Expr
	for _, selector := range selectors {
		own := *selector
		oldest := group(parser.MIN, Call("timestamp", &own), by)
		if all == nil {
			all = oldest
			continue
		}
		// The older where both have a sample, or the one that has.
		older := &parser.BinaryExpr{Op: parser.LTE, LHS: &parser.ParenExpr{Expr: all}, RHS: oldest, VectorMatching: &parser.VectorMatching{Card: parser.CardOneToOne}}
		all = or(or(older, oldest), &parser.ParenExpr{Expr: all})
	}
	if len(r.Namespaces) > 0 {
		return r.forEach(all)
	}
	return all
}
