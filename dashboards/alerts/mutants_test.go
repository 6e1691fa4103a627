package alerts_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/dashboards/alerts"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
)

// flipped is the opposite of a comparison.
var flipped = map[parser.ItemType]parser.ItemType{
	parser.EQLC: parser.NEQ, parser.NEQ: parser.EQLC, parser.GTR: parser.LSS, parser.LSS: parser.GTR, parser.GTE: parser.LTE, parser.LTE: parser.GTE,
}

// mutant is an alert with one change.
type mutant struct {
	rule
	what string
}

// mutants are the alert with half and twice its threshold and its time, each comparison
// reversed, each other number it compares with halved and doubled, and each "and", "or"
// and "unless" without its left and its right side.
func mutants(t *testing.T, a alerts.Alert) []mutant {
	t.Helper()
	var all []mutant
	r := ruleOf(a)
	for _, factor := range []float64{0.5, 2} {
		if a.For > 0 {
			changed := r
			changed.hold = time.Duration(factor * float64(a.For))
			all = append(all, mutant{changed, fmt.Sprintf("for × %g", factor)})
		}
		if a.Threshold != 0 {
			changed := a.With(fmt.Sprint(factor * a.Threshold))
			all = append(all, mutant{rule{changed, a.For}, fmt.Sprintf("threshold × %g", factor)})
		}
	}
	parsed := func() parser.Expr {
		e, err := promQL.ParseExpr(r.query)
		require.NoError(t, err)
		return e
	}
	for i, op := range operators(parsed()) {
		for what, change := range changesOf(op, a.Threshold) {
			e := parsed()
			changed := operators(e)[i]
			change(changed)
			if query := e.String(); query != r.query {
				all = append(all, mutant{rule{query, a.For}, fmt.Sprintf("%s in: %s", what, op)})
			}
		}
	}
	return all
}

// changesOf are the changes of an operator, by what is changed. The threshold is changed
// elsewhere: here it would be counted twice.
func changesOf(op *parser.BinaryExpr, threshold float64) map[string]func(*parser.BinaryExpr) {
	if op.Op.IsSetOperator() {
		return map[string]func(*parser.BinaryExpr){
			"without the right side": func(b *parser.BinaryExpr) { b.Op, b.RHS = parser.LOR, b.LHS },
			"without the left side":  func(b *parser.BinaryExpr) { b.Op, b.LHS = parser.LOR, b.RHS },
		}
	}
	if !op.Op.IsComparisonOperator() {
		return nil
	}
	all := map[string]func(*parser.BinaryExpr){"flipped": func(b *parser.BinaryExpr) { b.Op = flipped[b.Op] }}
	if n, ok := op.RHS.(*parser.NumberLiteral); ok && n.Val != 0 && n.Val != threshold {
		for _, factor := range []float64{0.5, 2} {
			all[fmt.Sprintf("number × %g", factor)] = func(b *parser.BinaryExpr) { b.RHS.(*parser.NumberLiteral).Val *= factor }
		}
	}
	return all
}

// operators are the binary ones, in the order of the text.
func operators(e parser.Expr) []*parser.BinaryExpr {
	var all []*parser.BinaryExpr
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if b, ok := n.(*parser.BinaryExpr); ok {
			all = append(all, b)
		}
		return nil
	})
	return all
}

// Every mutant of an alert is caught by one of its cases.
func TestCasesCatchEveryMutant(t *testing.T) {
	testall.Only(t, "it judges the cases, which judge the alerts")
	total := 0
	for _, a := range alerts.All() {
		checks := checksOf(t, a.Name)
		for _, m := range mutants(t, a) {
			total++
			if !slices.ContainsFunc(checks, func(c check) bool {
				got, err := c.answer(t.Context(), m.rule)
				return err != nil || got != c.want
			}) {
				t.Errorf("no case catches %s: %s\n%s", a.Name, m.what, m.query)
			}
		}
	}
	if total < 100 {
		t.Errorf("only %d mutants", total)
	}
}
