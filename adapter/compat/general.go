package compat

import (
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// generalizer rewrites a query about one namespace and some objects into one
// about all of them, with the same answer for each. The query must already
// select by presence of the labels. The rewriting keeps the labels through every
// operation, and fails where they cannot be kept.
//
// In a query about one namespace its label is constant, so adding it to a
// grouping changes nothing, provided both sides of a binary operation have it.
// The object's label is not constant and must be there already.
type generalizer struct {
	namespace string // label; "" if the query is about no namespace
	object    string // label; "" for external metrics
}

// root rewrites a whole query. constant is set if it has a default for a missing
// sum, as in `sum(…) or vector(0)`.
func (g *generalizer) root(e parser.Expr) (constant bool, err error) {
	if b, ok := bare(e).(*parser.BinaryExpr); ok && g.object == "" && defaulted(b) {
		// The default replaces a single series without labels only.
		if sum, ok := bare(b.LHS).(*parser.AggregateExpr); ok && !sum.Without && len(sum.Grouping) == 0 && !picks(sum.Op) {
			_, err := g.expr(b.LHS)
			return true, err
		}
	}
	_, err = g.expr(e)
	return false, err
}

// expr rewrites e. added reports that its series now have the namespace's label
// and did not before.
func (g *generalizer) expr(e parser.Expr) (added bool, err error) {
	switch e := e.(type) {
	case *parser.NumberLiteral, *parser.StringLiteral, nil:
		return false, nil
	case *parser.ParenExpr:
		return g.expr(e.Expr)
	case *parser.UnaryExpr:
		return g.expr(e.Expr)
	case *parser.SubqueryExpr:
		return g.expr(e.Expr)
	case *parser.MatrixSelector:
		return g.expr(e.VectorSelector)
	case *parser.VectorSelector:
		return false, g.selector(e)
	case *parser.Call:
		return g.call(e)
	case *parser.AggregateExpr:
		return g.aggregate(e)
	case *parser.BinaryExpr:
		return g.binary(e)
	}
	return false, fmt.Errorf("%q is not understood", e)
}

func (g *generalizer) selector(s *parser.VectorSelector) error {
	for _, label := range []string{g.namespace, g.object} {
		if label != "" && !narrowed(s, label) {
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

func (g *generalizer) call(c *parser.Call) (added bool, err error) {
	switch c.Func.Name {
	case "absent", "absent_over_time", "scalar", "vector", "info":
		return false, fmt.Errorf("%s() loses the labels of namespaces and objects", c.Func.Name)
	}
	if len(c.Args) == 0 && c.Func.ReturnType == parser.ValueTypeVector {
		return false, fmt.Errorf("%s() has no labels", c.Func.Name)
	}
	for _, arg := range c.Args {
		a, err := g.expr(arg)
		if err != nil {
			return false, err
		}
		added = added || a
	}
	if c.Func.Name == "label_replace" || c.Func.Name == "label_join" {
		for i, arg := range c.Args[1:] {
			text, ok := arg.(*parser.StringLiteral)
			switch {
			case !ok, i == 0 && g.key(text.Val):
				return false, fmt.Errorf("%s() writes the label of namespaces or objects", c.Func.Name)
			case added && text.Val == g.namespace:
				return false, fmt.Errorf("%s() reads the label of namespaces, which is not there", c.Func.Name)
			}
		}
	}
	return added, nil
}

func (g *generalizer) key(label string) bool {
	return label != "" && (label == g.namespace || label == g.object)
}

// picks reports whether an aggregation keeps whole series with their labels.
func picks(op parser.ItemType) bool {
	switch op {
	case parser.TOPK, parser.BOTTOMK, parser.LIMITK, parser.LIMIT_RATIO:
		return true
	}
	return false
}

func (g *generalizer) aggregate(a *parser.AggregateExpr) (added bool, err error) {
	if g.object != "" && slices.Contains(a.Grouping, g.object) == a.Without {
		return false, fmt.Errorf("%s does not keep the label %s; by (<<.GroupBy>>) would", a.Op, g.object)
	}
	switch param := a.Param.(type) {
	case nil, *parser.NumberLiteral:
	case *parser.StringLiteral:
		if g.key(param.Val) {
			return false, fmt.Errorf("%s writes the label %s", a.Op, param.Val)
		}
	default:
		return false, fmt.Errorf("the parameter of %s is computed", a.Op)
	}
	dropped := g.namespace != "" && slices.Contains(a.Grouping, g.namespace) == a.Without
	a.Grouping = g.keeping(a.Grouping, !a.Without)
	added, err = g.expr(a.Expr)
	return added || dropped && !picks(a.Op), err
}

// keeping adds the namespace's label to a list of labels to keep, or removes it
// from a list of labels to drop.
func (g *generalizer) keeping(list []string, keep bool) []string {
	if g.namespace == "" || slices.Contains(list, g.namespace) == keep {
		return list
	}
	if keep {
		return append(slices.Clip(list), g.namespace)
	}
	return slices.DeleteFunc(slices.Clone(list), func(l string) bool { return l == g.namespace })
}

func (g *generalizer) binary(b *parser.BinaryExpr) (added bool, err error) {
	m := b.VectorMatching
	if g.object != "" && defaulted(b) {
		return g.expr(b.LHS) // a series without the object's label belongs to no object
	}
	if m == nil { // a scalar on one side or both
		left, err := g.expr(b.LHS)
		if err != nil {
			return false, err
		}
		right, err := g.expr(b.RHS)
		return left || right, err
	}
	if g.object != "" && slices.Contains(m.MatchingLabels, g.object) != m.On {
		return false, fmt.Errorf("%s does not match on the label %s", b.Op, g.object)
	}
	if slices.ContainsFunc(m.Include, g.key) {
		return false, fmt.Errorf("group_left or group_right takes the label of namespaces or objects from one side")
	}
	matches := slices.Contains(m.MatchingLabels, g.namespace) == m.On // it matched on the namespace before
	m.MatchingLabels = g.keeping(m.MatchingLabels, m.On)
	left, err := g.expr(b.LHS)
	if err != nil {
		return false, err
	}
	right, err := g.expr(b.RHS)
	if err != nil {
		return false, err
	}
	if left != right && (matches || b.Op == parser.LOR) {
		return false, fmt.Errorf("only one side of %s has the label %s", b.Op, g.namespace)
	}
	switch {
	case m.Card == parser.CardOneToMany:
		return right, nil
	case m.Card == parser.CardOneToOne && !matches:
		return g.namespace != "", nil
	}
	return left, nil
}

// defaulted reports whether b is `… or vector(number)`.
func defaulted(b *parser.BinaryExpr) bool {
	m := b.VectorMatching
	if b.Op != parser.LOR || m == nil || m.On || len(m.MatchingLabels) > 0 {
		return false
	}
	c, ok := bare(b.RHS).(*parser.Call)
	if !ok || c.Func.Name != "vector" {
		return false
	}
	_, number := c.Args[0].(*parser.NumberLiteral)
	return number
}

// bare removes parentheses.
func bare(e parser.Expr) parser.Expr {
	for {
		inner, ok := e.(*parser.ParenExpr)
		if !ok {
			return e
		}
		e = inner.Expr
	}
}
