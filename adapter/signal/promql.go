package signal

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// NamespacesVariable in the value of a matcher stands for the namespaces that a query is
// about: queue_length{namespace=~"$namespaces"}.
const NamespacesVariable = "$namespaces"

// Parser reads PromQL with the experimental features of current Prometheus. The server
// decides whether they are on.
var Parser = parser.NewParser(parser.Options{
	EnableExperimentalFunctions: true, ExperimentalDurationExpr: true, EnableExtendedRangeSelectors: true,
})

// written is a query as a user wrote it.
type written struct {
	parser.Expr
	variable bool // a selector has it
	// selectors are those with the variable, or all if none has it. present are those of
	// them that have no offset and no @: the result is as old as their oldest sample.
	selectors, present []*parser.VectorSelector
}

// readPromQL parses a query. put, if not nil, returns the matcher that replaces one with the
// variable.
func readPromQL(text string, put func(label string) *labels.Matcher) (w written, err error) {
	if text == "" {
		return w, errors.New("is required")
	}
	if w.Expr, err = Parser.ParseExpr(text); err != nil {
		if strings.Contains(err.Error(), "unexpected character") {
			err = fmt.Errorf(`%w; a name with other characters than letters, digits, _ and : is written {"a.b", label="x"}`, err)
		}
		return w, err
	}
	for s, path := range Selectors(w.Expr) {
		has := false
		for i, m := range s.LabelMatchers {
			switch {
			case m.Value != NamespacesVariable:
				continue
			case m.Type != labels.MatchRegexp && m.Type != labels.MatchEqual:
				return w, fmt.Errorf(`%s: write %s=~"%s"`, m, m.Name, NamespacesVariable)
			case put != nil:
				s.LabelMatchers[i] = put(m.Name)
			}
			has = true
		}
		if has && !w.variable {
			w.variable, w.selectors, w.present = true, nil, nil
		}
		if has != w.variable {
			continue
		}
		w.selectors = append(w.selectors, s)
		if !Shifted(s, path) {
			w.present = append(w.present, s)
		}
	}
	return w, nil
}

// checkPromQL returns what is wrong with a source's query. namespaces are those that the
// query is for; none means every namespace that requests come from.
func checkPromQL(text string, namespaces ...string) error {
	w, err := readPromQL(text, nil)
	switch {
	case err != nil:
		return err
	case w.Type() != parser.ValueTypeVector && (w.Type() != parser.ValueTypeScalar || len(namespaces) == 0):
		return fmt.Errorf("gives a %s, not a vector", parser.DocumentedType(w.Type()))
	case !w.variable && len(namespaces) == 0:
		return fmt.Errorf(`no selector has namespace=~"%s": it would read every namespace; name those that it is for in namespaces`, NamespacesVariable)
	case w.variable && len(namespaces) > 0:
		return fmt.Errorf("is for the namespaces that it stands beside: leave %s out", NamespacesVariable)
	case len(w.selectors) == 0:
		return errors.New("reads no series")
	case len(w.present) == 0:
		return errors.New("reads the past only (offset, @): nothing says how old its result is")
	}
	return nil
}

// FirstMetric returns the metric name of the first selector that a query is about, or the
// selector itself if it has no name; "" if the query reads no series.
func FirstMetric(text string) string {
	w, err := readPromQL(text, nil)
	if err != nil || len(w.selectors) == 0 {
		return ""
	}
	for _, m := range w.selectors[0].LabelMatchers {
		if m.Name == labels.MetricName && m.Type == labels.MatchEqual {
			return m.Value
		}
	}
	return w.selectors[0].String()
}

// Shifted reports whether a selector, or a subquery of the nodes above it, has an offset
// or @. It reads the past on purpose, so its age means nothing.
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

// GroupsBy reports whether a query groups by a label, and so returns a number for each of
// its values.
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

// written is the source's query about the namespaces.
func (r query) written() written {
	w, err := readPromQL(r.source.Query, func(label string) *labels.Matcher {
		if len(r.namespaces) == 0 {
			return present(label)
		}
		return OneOf(label, r.namespaces)
	})
	switch {
	case err != nil: // the rule has not been validated
		w.Expr = Call("vector", number(0))
	case w.Type() == parser.ValueTypeScalar:
		w.Expr = Call("vector", w.Expr)
	}
	return w
}

var aggregators = map[Aggregation]parser.ItemType{Sum: parser.SUM, Average: parser.AVG, Max: parser.MAX, Min: parser.MIN}

// promql is the query's result for each subject.
func (r query) promql() parser.Expr { return r.perSubject(aggregators[r.PerPod], r.written().Expr) }

// promqlTime is when the oldest sample behind a subject's result was scraped.
func (r query) promqlTime() parser.Expr {
	present := r.written().present
	if len(present) == 0 { // the rule has not been validated
		return nil
	}
	return r.perSubject(parser.MIN, ScrapeTimes(present))
}

// ScrapeTimes returns when each sample of some selectors was scraped, in Unix seconds.
func ScrapeTimes(selectors []*parser.VectorSelector) parser.Expr {
	all := make([]parser.Expr, len(selectors))
	for i, selector := range selectors {
		all[i] = Call("timestamp", selector)
		if len(selectors) > 1 { // without it, series with equal labels would be one
			all[i] = Part(strconv.Itoa(i), all[i])
		}
	}
	return anyPart(all)
}

// perSubject aggregates for each subject. If the rule has Namespaces, it aggregates
// everything and gives the result to each of them.
func (r query) perSubject(op parser.ItemType, e parser.Expr) parser.Expr {
	if len(r.Namespaces) == 0 {
		return group(op, e, r.owner())
	}
	e = group(op, e, nil)
	var all parser.Expr
	for _, n := range r.Namespaces {
		if len(r.namespaces) == 0 || slices.Contains(r.namespaces, n) {
			all = Or(all, With(r.namespace(), n, e))
		}
	}
	if all == nil { // the rule is for other namespaces
		return Call("vector", number(0))
	}
	return all
}
