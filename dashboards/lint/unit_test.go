package lint

import (
	"cmp"
	"slices"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// kind is what a number measures, as far as the expression shows it: a unit of the catalogue, or one of these.
type kind string

const (
	unclear kind = "?"
	plain   kind = "a plain number"
	rates   kind = "a number in a second"
	watts        = kind(metric.Watts)
	ratio        = kind(metric.Ratio)
	seconds      = kind(metric.Seconds)
	joules       = kind(metric.Joules)
	kwh     kind = "kilowatt-hours"
	hours   kind = "hours"
)

// fits are the units in which a kind of number may be shown: energy in none but kilowatt-hours.
var fits = map[kind][]board.Unit{
	plain: {board.Count, board.Number}, rates: {board.PerSec, board.Number}, watts: {board.Watts}, kwh: {board.KWh}, hours: {board.Number}, ratio: {board.Percent},
	seconds: {board.Seconds}, kind(metric.Bytes): {board.Bytes}, kind(metric.Celsius): {board.Celsius}, joules: {},
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

// shownIn is the unit in which a query's values are shown; in a table, its column's.
func shownIn(p board.Panel, i int) (board.Unit, bool) {
	if p.Kind != board.Table || p.Matrix != nil {
		return p.Unit, true
	}
	for _, column := range p.Columns {
		if column.Value == i+1 {
			return cmp.Or(column.Unit, p.Unit), true
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
	case s.part == "_count" || slices.Contains([]metric.Unit{metric.None, metric.Info, metric.Bool}, s.unit):
		return plain
	}
	return kind(s.unit)
}

func kindOfCall(c *parser.Call) kind {
	if len(c.Args) == 0 {
		return seconds // time()
	}
	inner := kindOf(c.Args[0])
	switch c.Func.Name {
	case "histogram_quantile":
		return kindOf(c.Args[1])
	case "absent":
		return plain
	case "rate", "irate":
		if m, ok := c.Args[0].(*parser.MatrixSelector); ok && inner == seconds {
			if s, _ := find(m.VectorSelector.(*parser.VectorSelector).Name); s.kind == metric.Histogram {
				return seconds // buckets, for a quantile
			}
		}
		// A second in each second is a share of time, or a GPU.
		if growth, ok := map[kind]kind{seconds: unclear, joules: watts, plain: rates}[inner]; ok {
			return growth
		}
	}
	return inner
}

func kindOfBinary(b *parser.BinaryExpr) kind {
	left, right := kindOf(b.LHS), kindOf(b.RHS)
	number, isNumber := b.RHS.(*parser.NumberLiteral)
	switch {
	case b.ReturnBool:
		return plain
	case b.Op.IsComparisonOperator() || b.Op.IsSetOperator() || b.Op == parser.ADD || b.Op == parser.SUB:
		return left
	case b.Op != parser.DIV:
		return unclear
	case isNumber && left == joules && number.Val != 3.6e6:
		return joules
	case isNumber && left == joules:
		return kwh
	case isNumber && left == seconds && number.Val == 3600:
		return hours
	case !isNumber && left == right && left != unclear:
		return ratio
	}
	return unclear
}
