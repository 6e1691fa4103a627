package lint

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/eval"
	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// anyWindow stands for a board's time while its queries are read.
var anyWindow = eval.Window{To: time.Unix(3600, 0), From: time.Unix(0, 0), Step: time.Minute, Scrape: 15 * time.Second}

// expressions calls f with the syntax of each query of a panel, by its place, and of the annotations, once variables
// are filled in. Invalid PromQL is a problem of the rule "query".
func (c *checker) expressions(f func(p *board.Panel, i int, expr parser.Expr)) {
	read := func(p *board.Panel, i int, text string) {
		filled, err := eval.Fill(text, c.board, anyWindow)
		if err != nil {
			return // reported by the rule about variables
		}
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(filled)
		switch {
		case err == nil:
			f(p, i, expr)
		case c.rule == "query":
			c.report(p, "%v in %s", err, text)
		}
	}
	c.panels(func(p *board.Panel) {
		for i, q := range p.Queries {
			read(p, i, q.Expr)
		}
	})
	for i, m := range c.board.Marks {
		read(nil, i, m.Expr)
	}
}

// selectors calls f with each selector in them, and with the nodes around it.
func (c *checker) selectors(f func(p *board.Panel, v *parser.VectorSelector, path []parser.Node)) {
	c.expressions(func(p *board.Panel, _ int, expr parser.Expr) {
		parser.Inspect(expr, func(n parser.Node, path []parser.Node) error {
			if v, ok := n.(*parser.VectorSelector); ok {
				f(p, v, path)
			}
			return nil
		})
	})
}

// series is the catalogue's entry of a name.
type series struct {
	kind   metric.Type
	unit   metric.Unit
	labels []string // nil: not known
	part   string   // of a histogram: "_bucket", "_sum", "_count"
	rule   string   // what a recording rule records
}

// find a name in the catalogue or among the recording rules, parts of histograms
// included.
func find(name string) (series, bool) {
	if name == "up" {
		return series{kind: metric.Gauge}, true
	}
	if r, ok := rules.Find(name); ok {
		return series{kind: metric.Gauge, labels: r.Labels, rule: r.Expr}, true
	}
	if d, ok := metric.Find(name); ok {
		return series{kind: d.Type, unit: d.Unit, labels: d.AllLabels()}, true
	}
	if r, ok := metric.FindRead(name); ok {
		return series{kind: r.Type, unit: r.Unit}, true
	}
	for _, part := range []string{"_bucket", "_sum", "_count"} {
		if whole, ok := strings.CutSuffix(name, part); ok {
			if s, ok := find(whole); ok && s.kind == metric.Histogram && s.part == "" {
				s.part = part
				return s, true
			}
		}
	}
	return series{}, false
}

// namesOf are the names that a selector may match: one, or those of a pattern.
func namesOf(v *parser.VectorSelector) []string {
	for _, m := range v.LabelMatchers {
		if m.Name == labels.MetricName {
			if m.Type == labels.MatchEqual {
				return []string{m.Value}
			}
			return strings.Split(m.Value, "|")
		}
	}
	return nil
}

// scraped are the labels that any series may have from its scrape.
var scraped = []string{labels.MetricName, "cluster", "job", "instance", "namespace", "pod", "container",
	"exported_namespace", "exported_pod", "exported_container", "le"}

func queries(c *checker) {
	c.selectors(func(p *board.Panel, v *parser.VectorSelector, _ []parser.Node) {
		names := namesOf(v)
		if len(names) == 0 {
			c.report(p, "%s selects no series by name", v)
		}
		for _, name := range names {
			s, ok := find(name)
			if !ok {
				c.report(p, "%s is not in the catalogue", name)
				continue
			}
			for _, m := range v.LabelMatchers {
				if s.labels != nil && !slices.Contains(s.labels, m.Name) && !slices.Contains(scraped, m.Name) {
					c.report(p, "%s has no label %s", name, m.Name)
				}
			}
		}
	})
}

// ofCounters and ofGauges are functions that make sense for one of the two.
var (
	ofCounters = []string{"rate", "irate", "increase", "resets"}
	ofGauges   = []string{"delta", "idelta", "deriv", "predict_linear"}
)

// ofLife are counters over a GPU's lifetime, whose value matters more than their rate.
var ofLife = []string{metric.DCGMSingleBitErrors.Name, metric.DCGMDoubleBitErrors.Name, metric.DCGMRowsCorrectable.Name, metric.DCGMRowsUncorrectable.Name, metric.DCGMRowsCorrectableNew.Name, metric.DCGMRowsUncorrectableNew.Name}

// counters checks each use of a series by the function around it.
func counters(c *checker) {
	c.selectors(func(p *board.Panel, v *parser.VectorSelector, path []parser.Node) {
		function := around(path)
		for _, name := range namesOf(v) {
			s, known := find(name)
			counts := s.kind == metric.Counter || s.kind == metric.Histogram
			switch {
			case !known:
			case !counts && slices.Contains(ofCounters, function):
				c.report(p, "%s of %s, which is a gauge", function, name)
			case counts && slices.Contains(ofGauges, function):
				c.report(p, "%s of %s, which is a counter", function, name)
			case counts && !slices.Contains(ofCounters, function) && !presence(path) && !newborn(v, path) && !subtracted(function, path) && !slices.Contains(ofLife, name):
				c.report(p, "%s is a counter and is shown as it stands", name)
			}
		}
	})
}

// around is the function that has a selector's range as its argument.
func around(path []parser.Node) string {
	for i := len(path) - 1; i >= 0; i-- {
		switch n := path[i].(type) {
		case *parser.MatrixSelector, *parser.SubqueryExpr, *parser.StepInvariantExpr, *parser.ParenExpr:
		case *parser.Call:
			return n.Func.Name
		default:
			return ""
		}
	}
	return ""
}

// presence reports that series are counted, or tested for existence: their value is not shown.
func presence(path []parser.Node) bool {
	for _, n := range path {
		switch n := n.(type) {
		case *parser.AggregateExpr:
			if n.Op == parser.GROUP || n.Op == parser.COUNT {
				return true
			}
		case *parser.Call:
			if n.Func.Name == "absent" {
				return true
			}
		}
	}
	return false
}

// subtracted is "last_over_time(x[…]) - last_over_time(x[…] offset …)", whose value is the growth.
func subtracted(function string, path []parser.Node) bool {
	return function == "last_over_time" && slices.ContainsFunc(path, func(n parser.Node) bool {
		b, ok := n.(*parser.BinaryExpr)
		return ok && b.Op == parser.SUB
	})
}

// newborn is "x unless x offset …": a counter that began within the time, whose
// value is then its growth.
func newborn(v *parser.VectorSelector, path []parser.Node) bool {
	return slices.ContainsFunc(path, func(n parser.Node) bool {
		b, ok := n.(*parser.BinaryExpr)
		if !ok || b.Op != parser.LUNLESS {
			return false
		}
		right, isSelector := b.RHS.(*parser.VectorSelector)
		return isSelector && right.Name == v.Name && right.OriginalOffset > 0
	})
}
