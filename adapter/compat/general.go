package compat

import (
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

// generalizer rewrites a query about one namespace and some objects into one about all of
// them, with the same answer for each. The query is rendered with a [placeholder] instead
// of the request's names. The rewriting keeps the labels through every operation. Where it
// cannot, it fails.
//
// In a query about one namespace its label is constant, so adding it to a
// grouping changes nothing, provided both sides of a binary operation have it.
// The object's label is not constant and must be there already.
type generalizer struct {
	namespace string // label; "" if the query is about no namespace
	object    string // label; "" for external metrics
	// narrow returns the matcher that replaces one with the placeholder.
	narrow func(label string) *labels.Matcher
}

// placeholder is a value that only .LabelMatchers puts into a query. Matchers that the
// template itself writes say nothing about the request and do not have it.
const placeholder = "gpuscale: of the request"

// rewrite rewrites a whole query.
func (g generalizer) rewrite(whole parser.Expr) (err error) {
	parser.Inspect(whole, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			err = g.selector(n)
		case *parser.Call:
			err = g.call(n)
		case *parser.AggregateExpr:
			err = g.aggregate(n)
		case *parser.BinaryExpr:
			err = g.binary(n)
		}
		return err
	})
	return err
}

func (g generalizer) selector(s *parser.VectorSelector) error {
	for _, label := range []string{g.namespace, g.object} {
		found := label == ""
		for i, m := range s.LabelMatchers {
			if m.Name == label && m.Value == placeholder {
				s.LabelMatchers[i], found = g.narrow(label), true
			}
		}
		if !found {
			return fmt.Errorf("%s is not narrowed by .LabelMatchers", s)
		}
	}
	return nil
}

// narrowed reports whether a selector matches only series with the label.
func narrowed(s *parser.VectorSelector, label string) bool {
	return slices.ContainsFunc(s.LabelMatchers, func(m *labels.Matcher) bool {
		return m.Name == label && !m.Matches("")
	})
}

func (g generalizer) call(c *parser.Call) error {
	switch c.Func.Name {
	case "absent", "absent_over_time", "scalar", "vector", "info":
		return fmt.Errorf("%s() loses the labels of namespaces and objects", c.Func.Name)
	case "label_replace", "label_join":
		for i, arg := range c.Args[1:] {
			text, ok := arg.(*parser.StringLiteral)
			switch {
			case !ok, i == 0 && g.key(text.Val):
				return fmt.Errorf("%s() writes the label of namespaces or objects", c.Func.Name)
			case text.Val == g.namespace && !g.labelled(c.Args[0]):
				return fmt.Errorf("%s() reads the label of namespaces, which is not there", c.Func.Name)
			}
		}
	}
	if len(c.Args) == 0 && c.Func.ReturnType == parser.ValueTypeVector {
		return fmt.Errorf("%s() has no labels", c.Func.Name)
	}
	return nil
}

// labelled reports whether an expression that has not been rewritten has the namespace's label.
func (g generalizer) labelled(e parser.Expr) bool {
	return g.namespace == "" || signal.Labelled(e, g.namespace)
}

func (g generalizer) key(label string) bool {
	return label != "" && (label == g.namespace || label == g.object)
}

func (g generalizer) aggregate(a *parser.AggregateExpr) error {
	if g.object != "" && slices.Contains(a.Grouping, g.object) == a.Without {
		return fmt.Errorf("%s does not keep the label %s; by (<<.GroupBy>>) would", a.Op, g.object)
	}
	if text, ok := a.Param.(*parser.StringLiteral); ok && g.key(text.Val) {
		return fmt.Errorf("%s writes the label %s", a.Op, text.Val)
	}
	a.Grouping = g.keeping(a.Grouping, !a.Without)
	return nil
}

// keeping adds the namespace's label to a list of labels to keep, or removes it
// from a list of labels to drop.
func (g generalizer) keeping(list []string, keep bool) []string {
	if g.namespace == "" || slices.Contains(list, g.namespace) == keep {
		return list
	}
	if keep {
		return append(slices.Clip(list), g.namespace)
	}
	return slices.DeleteFunc(slices.Clone(list), func(l string) bool { return l == g.namespace })
}

func (g generalizer) binary(b *parser.BinaryExpr) error {
	m := b.VectorMatching
	switch {
	case m == nil: // a scalar on one side or both
		return nil
	case g.object != "" && slices.Contains(m.MatchingLabels, g.object) != m.On:
		return fmt.Errorf("%s does not match on the label %s", b.Op, g.object)
	case slices.ContainsFunc(m.Include, g.key):
		return fmt.Errorf("group_left or group_right takes the label of namespaces or objects from one side")
	case slices.Contains(m.MatchingLabels, g.namespace) != m.On && b.Op != parser.LOR:
		// The operation does not match on the namespace.
	case g.labelled(b.LHS) != g.labelled(b.RHS):
		return fmt.Errorf("only one side of %s has the label %s", b.Op, g.namespace)
	}
	m.MatchingLabels = g.keeping(m.MatchingLabels, m.On)
	return nil
}
