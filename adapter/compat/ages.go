package compat

import (
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

// maxLeaves bounds the selectors of one query whose ages are queried.
const maxLeaves = 8

// lookback is Prometheus' own lookback delta. A longer range is the author's
// explicit choice of how old a value may be.
const lookback = 5 * time.Minute

// withAges joins a query's values with the oldest scrape times of their series
// per key labels: part "v" is a value, "t0", "t1", … are Unix times. aged is
// false if no selector of the query has an age.
func withAges(e parser.Expr, keys []string) (whole parser.Expr, aged bool) {
	whole = part("v", e)
	for i, leaf := range leaves(e, keys) {
		oldest := &parser.AggregateExpr{Op: parser.MIN, Expr: call("timestamp", leaf), Grouping: keys}
		whole = &parser.BinaryExpr{
			Op: parser.LOR, LHS: whole, RHS: part("t"+strconv.Itoa(i), oldest),
			VectorMatching: &parser.VectorMatching{Card: parser.CardManyToMany},
		}
		aged = true
	}
	return whole, aged
}

func part(name string, e parser.Expr) parser.Expr {
	text := func(s string) parser.Expr { return &parser.StringLiteral{Val: s} }
	return call("label_replace", e, text(signal.PartLabel), text(name), text(""), text(""))
}

func call(function string, args ...parser.Expr) parser.Expr {
	return &parser.Call{Func: parser.Functions[function], Args: args}
}

// leaves returns the selectors of present samples that have the key labels. A
// selector with an offset or @ reads the past on purpose: its age means nothing.
func leaves(e parser.Expr, keys []string) []parser.Expr {
	var found []parser.Expr
	seen := map[string]bool{}
	parser.Inspect(e, func(n parser.Node, path []parser.Node) error {
		s, ok := n.(*parser.VectorSelector)
		if !ok || len(found) == maxLeaves || past(s, path) {
			return nil
		}
		for _, key := range keys {
			if !narrowed(s, key) {
				return nil
			}
		}
		if text := s.String(); !seen[text] {
			seen[text] = true
			found = append(found, s)
		}
		return nil
	})
	return found
}

func past(s *parser.VectorSelector, path []parser.Node) bool {
	if s.OriginalOffset != 0 || s.OriginalOffsetExpr != nil || s.Timestamp != nil || s.StartOrEnd != 0 {
		return true
	}
	return slices.ContainsFunc(path, func(n parser.Node) bool {
		switch n := n.(type) {
		case *parser.MatrixSelector:
			return n.RangeExpr != nil || n.Range > lookback
		case *parser.SubqueryExpr:
			return n.RangeExpr != nil || n.Range > lookback || n.OriginalOffset != 0 || n.OriginalOffsetExpr != nil || n.Timestamp != nil || n.StartOrEnd != 0
		}
		return false
	})
}

// window returns the longest range of a query; zero if it has none.
func window(e parser.Expr) time.Duration {
	var longest time.Duration
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.MatrixSelector:
			longest = max(longest, n.Range)
		case *parser.SubqueryExpr:
			longest = max(longest, n.Range)
		}
		return nil
	})
	return longest
}
