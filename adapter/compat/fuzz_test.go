package compat

import (
	"slices"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

// forced checks that a query has exactly one selector, with the given matchers.
func forced(t *testing.T, query string, matchers ...string) {
	t.Helper()
	e, err := signal.Parser.ParseExpr(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	if _, ok := e.(*parser.AggregateExpr); !ok {
		t.Fatalf("%s is no longer one sum", query)
	}
	selectors := 0
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		s, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		selectors++
		var have []string
		for _, m := range s.LabelMatchers {
			have = append(have, m.String())
		}
		for _, want := range matchers {
			if !slices.Contains(have, want) {
				t.Fatalf("%s has lost %s", query, want)
			}
		}
		return nil
	})
	if selectors != 1 {
		t.Fatalf("%s has %d selectors", query, selectors)
	}
}
