package alerts_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/dashboards/alerts"
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
		if a.Threshold != nil {
			changed := a.With(fmt.Sprint(factor * *a.Threshold))
			all = append(all, mutant{rule{a.Name, changed, a.For}, fmt.Sprintf("threshold × %g", factor)})
		}
	}
	// The threshold has been changed above; here it is a number like others, and would
	// only be counted twice.
	for i := 0; ; i++ {
		changes, ok := changesOf(t, r.query, i, a.Threshold)
		if !ok {
			return all
		}
		for what, query := range changes {
			all = append(all, mutant{rule{a.Name, query, a.For}, what})
		}
	}
}

// changesOf are the queries with the i-th operator changed, by what was changed.
func changesOf(t *testing.T, query string, i int, threshold *float64) (map[string]string, bool) {
	t.Helper()
	out := map[string]string{}
	add := func(what string, change func(*parser.BinaryExpr)) bool {
		e, err := promQL.ParseExpr(query)
		if err != nil {
			t.Fatal(err)
		}
		ops := operators(e)
		if i >= len(ops) {
			return false
		}
		before := ops[i].String()
		change(ops[i])
		if e.String() != query {
			out[fmt.Sprintf("%s in: %s", what, before)] = e.String()
		}
		return true
	}
	e, err := promQL.ParseExpr(query)
	if err != nil {
		t.Fatal(err)
	}
	ops := operators(e)
	if i >= len(ops) {
		return nil, false
	}
	op := ops[i]
	switch {
	case op.Op.IsSetOperator():
		add("without the right side", func(b *parser.BinaryExpr) { b.Op, b.RHS = parser.LOR, b.LHS })
		add("without the left side", func(b *parser.BinaryExpr) { b.Op, b.LHS = parser.LOR, b.RHS })
	case op.Op.IsComparisonOperator():
		add("flipped", func(b *parser.BinaryExpr) { b.Op = flipped[b.Op] })
		n, ok := op.RHS.(*parser.NumberLiteral)
		if !ok || n.Val == 0 || threshold != nil && n.Val == *threshold {
			break
		}
		for _, factor := range []float64{0.5, 2} {
			add(fmt.Sprintf("number × %g", factor), func(b *parser.BinaryExpr) { b.RHS.(*parser.NumberLiteral).Val *= factor })
		}
	}
	return out, true
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

// harmless are the mutants that give the same alert, and why.
var harmless = map[string]string{}

// Every mutant of an alert is caught by one of its cases.
func TestCasesCatchEveryMutant(t *testing.T) {
	testall.Only(t, "it judges the cases, which judge the alerts")
	noticed, total := 0, 0
	used := map[string]bool{}
	for _, a := range alerts.All() {
		checks := checksOf(t, a.Name)
		for _, m := range mutants(t, a) {
			total++
			killed := false
			for _, c := range checks {
				got, err := c.answer(t.Context(), m.rule)
				if killed = err != nil || got != c.want; killed {
					break
				}
			}
			key := a.Name + ": " + m.what
			switch {
			case killed && harmless[key] == "":
				noticed++
			case killed:
				t.Errorf("%s is caught, and yet: %s", key, harmless[key])
			case harmless[key] == "":
				t.Errorf("no case catches %s\n%s", key, m.query)
			default:
				used[key] = true
			}
		}
	}
	for key := range harmless {
		if !used[key] {
			t.Errorf("%s is no mutant, or caught", key)
		}
	}
	t.Logf("%d of %d mutants are caught, %d are harmless", noticed, total, len(used))
	if total < 100 {
		t.Errorf("only %d mutants", total)
	}
}
