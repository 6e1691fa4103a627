package lint

import (
	"slices"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/eval"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// kind of a number: what it measures, as far as the expression shows.
type kind string

// Kinds beside the units of the catalogue.
const (
	unclear kind = "?"
	plain   kind = "a plain number"
	rates   kind = "a number in a second"
	watts   kind = "watts"
	kwh     kind = "kilowatt-hours"
	hours   kind = "hours"
	ratio   kind = "a ratio"
	oddWork kind = "energy in no known unit"
)

// fits are the units in which a kind of number may be shown.
var fits = map[kind][]board.Unit{
	plain: {board.Count, board.Number}, rates: {board.PerSec, board.Number}, watts: {board.Watts}, kwh: {board.KWh},
	hours: {board.Number}, ratio: {board.Percent}, kind(metric.Seconds): {board.Seconds}, kind(metric.Bytes): {board.Bytes}, kind(metric.Celsius): {board.Celsius}, kind(metric.Joules): {}, oddWork: {},
}

func units(c *checker) {
	c.panels(func(p *board.Panel) {
		if p.Unit == "" {
			c.report(p, "has no unit")
		}
	})
	c.expressions(func(p *board.Panel, i int, expr parser.Expr) {
		if p == nil {
			return
		}
		unit, shown := shownIn(*p, i)
		k := kindOf(expr)
		if want, judged := fits[k]; shown && judged && !slices.Contains(want, unit) {
			c.report(p, "query %d is %s and is shown as %q", i+1, k, unit)
		}
	})
}

// shownIn is the unit of a query's values: of a table its column's.
func shownIn(p board.Panel, i int) (board.Unit, bool) {
	if p.Kind != board.Table || p.Matrix != nil {
		return p.Unit, true
	}
	for _, column := range p.Columns {
		if column.Value == i+1 {
			return eval.LookOfColumn(p, column).Unit, true
		}
	}
	return "", false // it selects rows
}

// kindOf infers what an expression measures.
func kindOf(e parser.Expr) kind {
	switch e := e.(type) {
	case *parser.ParenExpr:
		return kindOf(e.Expr)
	case *parser.StepInvariantExpr:
		return kindOf(e.Expr)
	case *parser.MatrixSelector:
		return kindOf(e.VectorSelector)
	case *parser.VectorSelector:
		return kindOfSeries(e)
	case *parser.AggregateExpr:
		if slices.Contains([]parser.ItemType{parser.COUNT, parser.GROUP, parser.COUNT_VALUES}, e.Op) {
			return plain
		}
		if inner := kindOf(e.Expr); e.Op != parser.AVG || inner != plain {
			return inner
		}
		return unclear // the mean of 0-or-1 series is a share
	case *parser.Call:
		return kindOfCall(e)
	case *parser.BinaryExpr:
		return kindOfBinary(e)
	}
	return unclear
}

func kindOfSeries(v *parser.VectorSelector) kind {
	names := namesOf(v)
	if len(names) == 0 {
		return unclear
	}
	s, ok := find(names[0])
	switch {
	case !ok:
		return unclear
	case s.rule != "":
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(s.rule)
		if err != nil {
			return unclear
		}
		return kindOf(expr)
	case s.part == "_count" || s.unit == metric.None || s.unit == metric.Info || s.unit == metric.Bool:
		return plain
	case s.unit == metric.Ratio:
		return ratio
	case s.unit == metric.Watts:
		return watts
	}
	return kind(s.unit)
}

func kindOfCall(c *parser.Call) kind {
	if len(c.Args) == 0 {
		return kind(metric.Seconds) // time()
	}
	inner := kindOf(c.Args[0])
	switch c.Func.Name {
	case "histogram_quantile":
		return kindOf(c.Args[1])
	case "absent":
		return plain
	case "rate", "irate":
		switch inner {
		case kind(metric.Seconds):
			if inHistogram(c.Args[0]) {
				return inner // buckets of a histogram, for a quantile
			}
			return unclear // a second in a second is a share of time, or a GPU
		case kind(metric.Joules):
			return watts
		case plain:
			return rates
		}
	}
	return inner
}

func inHistogram(e parser.Expr) bool {
	m, ok := e.(*parser.MatrixSelector)
	if !ok {
		return false
	}
	s, ok := find(m.VectorSelector.(*parser.VectorSelector).Name)
	return ok && s.kind == metric.Histogram
}

func kindOfBinary(b *parser.BinaryExpr) kind {
	left, right := kindOf(b.LHS), kindOf(b.RHS)
	number, isNumber := b.RHS.(*parser.NumberLiteral)
	switch {
	case b.ReturnBool:
		return plain
	case b.Op.IsComparisonOperator() || b.Op.IsSetOperator():
		return left
	case b.Op == parser.ADD || b.Op == parser.SUB:
		return left
	case b.Op == parser.DIV && isNumber && left == kind(metric.Joules) && number.Val == 3.6e6:
		return kwh
	case b.Op == parser.DIV && isNumber && left == kind(metric.Joules):
		return oddWork
	case b.Op == parser.DIV && isNumber && left == kind(metric.Seconds) && number.Val == 3600:
		return hours
	case b.Op == parser.DIV && !isNumber && left == right && left != unclear:
		return ratio
	}
	return unclear
}
