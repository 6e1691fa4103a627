package signal

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// NamespacesVariable in the value of a matcher stands for the namespaces that a query is
// about: queue_length{namespace=~"$namespaces"}.
const NamespacesVariable = "$namespaces"

// Parser reads PromQL with the experimental features of current Prometheus: whether they are
// on is the server's affair.
var Parser = parser.NewParser(parser.Options{
	EnableExperimentalFunctions: true, ExperimentalDurationExpr: true, EnableExtendedRangeSelectors: true,
})

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
	case e.Type() != parser.ValueTypeVector && (e.Type() != parser.ValueTypeScalar || len(namespaces) == 0):
		return fmt.Errorf("gives a %s, not a vector", parser.DocumentedType(e.Type()))
	case len(narrowed) == 0 && len(namespaces) == 0:
		return fmt.Errorf(`no selector has namespace=~"%s": it would read every namespace; name those that it is for in namespaces`, NamespacesVariable)
	case len(narrowed) > 0 && len(namespaces) > 0:
		return fmt.Errorf("is for the namespaces that it stands beside: leave %s out", NamespacesVariable)
	case FirstMetric(text) == "":
		return errors.New("reads no series")
	case len(namespaces) > 0:
		narrowed = allSelectors(e)
	}
	if len(unshifted(e, narrowed)) == 0 {
		return errors.New("reads the past only (offset, @): nothing says how old its result is")
	}
	return nil
}

// Shifted reports whether a selector below these nodes reads the past on purpose, with an
// offset or @: its age means nothing.
func Shifted(s *parser.VectorSelector, path []parser.Node) bool {
	return s.OriginalOffset != 0 || s.OriginalOffsetExpr != nil || s.Timestamp != nil || s.StartOrEnd != 0 || slices.ContainsFunc(path, func(n parser.Node) bool {
		q, ok := n.(*parser.SubqueryExpr)
		return ok && (q.OriginalOffset != 0 || q.OriginalOffsetExpr != nil || q.Timestamp != nil || q.StartOrEnd != 0)
	})
}

// Selectors yields the selectors of a query, each with the nodes above it.
func Selectors(e parser.Expr) iter.Seq2[*parser.VectorSelector, []parser.Node] {
	return func(yield func(*parser.VectorSelector, []parser.Node) bool) {
		parser.Inspect(e, func(n parser.Node, path []parser.Node) error {
			if s, ok := n.(*parser.VectorSelector); ok && !yield(s, path) {
				return io.EOF // no more
			}
			return nil
		})
	}
}

// unshifted are those of a query's selectors that read the present.
func unshifted(e parser.Expr, of []*parser.VectorSelector) (out []*parser.VectorSelector) {
	for s, path := range Selectors(e) {
		if slices.Contains(of, s) && !Shifted(s, path) {
			out = append(out, s)
		}
	}
	return out
}

// GroupsBy reports whether a query groups by a label, and so gives a number for each of its
// values, whatever it computes of that.
func GroupsBy(text, label string) bool {
	e, err := Parser.ParseExpr(text)
	return err == nil && e.Type() == parser.ValueTypeVector && labelled(e, label, false)
}

// Labelled reports whether the series of an expression have a label that all of its selectors'
// series have.
func Labelled(e parser.Expr, label string) bool { return labelled(e, label, true) }

// labelled is Labelled, given whether selectors' series have the label.
func labelled(e parser.Expr, label string, selected bool) bool {
	switch e := e.(type) {
	case *parser.VectorSelector, *parser.MatrixSelector:
		return selected
	case *parser.ParenExpr, *parser.UnaryExpr, *parser.SubqueryExpr:
		return labelled(parser.Children(e)[0].(parser.Expr), label, selected)
	case *parser.Call:
		vector := e.Func.ReturnType == parser.ValueTypeVector && e.Func.Name != "vector" && e.Func.Name != "absent"
		return vector && slices.ContainsFunc(e.Args, func(a parser.Expr) bool { return labelled(a, label, selected) })
	case *parser.AggregateExpr:
		named := slices.Contains(e.Grouping, label)
		whole := e.Op == parser.TOPK || e.Op == parser.BOTTOMK // these keep all labels
		return named && !e.Without || (whole || e.Without && !named) && labelled(e.Expr, label, selected)
	case *parser.BinaryExpr:
		m := e.VectorMatching
		switch {
		case m == nil: // with a scalar
			return labelled(e.LHS, label, selected) || labelled(e.RHS, label, selected)
		case m.Card == parser.CardOneToMany:
			return labelled(e.RHS, label, selected)
		case m.Card == parser.CardOneToOne && slices.Contains(m.MatchingLabels, label) != m.On:
			return false
		}
		return labelled(e.LHS, label, selected)
	}
	return false
}

// FirstMetric returns the name of the first series of a query, of those that it narrows if
// there are such, or the selector where that has no name; "" if it reads none.
func FirstMetric(text string) string {
	e, selectors, err := parsePromQL(text, func(m *labels.Matcher) (*labels.Matcher, error) { return m, nil })
	if err == nil && len(selectors) == 0 {
		selectors = allSelectors(e)
	}
	if err != nil || len(selectors) == 0 {
		return ""
	}
	for _, m := range selectors[0].LabelMatchers {
		if m.Name == labels.MetricName && m.Type == labels.MatchEqual {
			return m.Value
		}
	}
	return selectors[0].String()
}

func allSelectors(e parser.Expr) (out []*parser.VectorSelector) {
	for s := range Selectors(e) {
		out = append(out, s)
	}
	return out
}

// parsePromQL parses a query, replaces the matchers with the variable, and returns the
// selectors that have one.
func parsePromQL(text string, replace func(*labels.Matcher) (*labels.Matcher, error)) (parser.Expr, []*parser.VectorSelector, error) {
	if text == "" {
		return nil, nil, errors.New("is required")
	}
	e, err := Parser.ParseExpr(text)
	if err != nil {
		return nil, nil, err
	}
	var narrowed []*parser.VectorSelector
	for s := range Selectors(e) {
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
	}
	return e, narrowed, err
}

// narrowed is a source's query about the namespaces, and the selectors of the present that
// they narrow.
func (r query) narrowed(s Source) (parser.Expr, []*parser.VectorSelector) {
	e, selectors, err := parsePromQL(s.Query, func(m *labels.Matcher) (*labels.Matcher, error) {
		if len(r.namespaces) == 0 {
			return present(m.Name), nil
		}
		return OneOf(m.Name, r.namespaces), nil
	})
	if err != nil { // the rule has not been validated
		return Call("vector", number(0)), nil
	}
	if len(r.Namespaces) > 0 {
		selectors = allSelectors(e)
	}
	selectors = unshifted(e, selectors)
	if e.Type() == parser.ValueTypeScalar {
		e = Call("vector", e)
	}
	return e, selectors
}

// forEach gives one number to each of the namespaces that the rule names and the query is about.
func (r query) forEach(one parser.Expr) parser.Expr {
	var all parser.Expr
	for _, n := range r.Namespaces {
		if len(r.namespaces) == 0 || slices.Contains(r.namespaces, n) {
			all = or(all, Call("label_replace", one, text(r.namespace()), text(n), text(""), text("")))
		}
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
		if all != nil { // the older where both have a sample, or the one that has
			older := &parser.BinaryExpr{Op: parser.LTE, LHS: &parser.ParenExpr{Expr: all}, RHS: oldest, VectorMatching: &parser.VectorMatching{Card: parser.CardOneToOne}}
			oldest = or(or(older, oldest), &parser.ParenExpr{Expr: all})
		}
		all = oldest
	}
	if len(r.Namespaces) > 0 {
		return r.forEach(all)
	}
	return all
}
