package compat

import (
	"cmp"
	"slices"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	k8slabels "k8s.io/apimachinery/pkg/labels"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// largest is a value of which the thousandths still fit an int64, and so a quantity.
const largest = 9.2e15

// everything is the key of an answer that is not divided.
const everything = "everything"

// rule is how the plan's answers are read: as those of a rule about namespaces, in which the label
// of the objects stands for that of the namespace.
func (p *plan) rule(maxAge time.Duration) signal.Rule {
	return signal.Rule{
		Subject: signal.Namespace, Labels: signal.Labels{Namespace: cmp.Or(p.object, p.namespace)}, Sources: []signal.Source{{Metric: p.value, Form: signal.PromQL}},
		Duplicates: signal.Max, PerPod: signal.Max, PerWorkload: signal.Max, Minimum: -largest, Maximum: largest, MaxAge: maxAge,
	}
}

// answer returns the usable value of an object; of a namespace, for an external metric. subject
// names it in the error.
func (v view) answer(object string, now time.Time, subject string) (signal.Answer, error) {
	if v.plan.object+v.plan.namespace == "" {
		object = everything
	}
	return v.Table.Pods(object, []string{""}, k8slabels.Everything(), now, subject)
}

// timed returns a query for one value of e for each set of key labels, aggregated by an operator,
// and for when the oldest sample in it was scraped. A value that may have no present sample has
// the time of the evaluation without one.
func timed(e parser.Expr, by parser.ItemType, keys []string) parser.Expr {
	value := &parser.AggregateExpr{Op: by, Expr: e, Grouping: keys}
	var times parser.Expr
	selectors, all := leaves(e, keys)
	if len(selectors) > 0 {
		times = &parser.AggregateExpr{Op: parser.MIN, Expr: signal.ScrapeTimes(selectors), Grouping: keys}
	}
	if !all || by == parser.SUM && hasDefault(e) {
		nothing := &parser.BinaryExpr{Op: parser.MUL, LHS: &parser.NumberLiteral{}, RHS: value} // not timestamp(): VictoriaMetrics aligns it
		times = signal.Or(times, &parser.BinaryExpr{Op: parser.ADD, LHS: nothing, RHS: signal.Call("time")})
	}
	e = signal.Or(signal.Part("v0", value), signal.Part("t0", times))
	if len(keys) == 0 {
		return signal.With(metric.LabelNamespace, everything, e)
	}
	return e
}

// leaves returns the selectors of present samples that have the key labels. all is true if every
// value has one of them. An offset, or a range longer than Prometheus' lookback, is the author's
// explicit choice of how old a value may be: such a selector is not returned.
func leaves(e parser.Expr, keys []string) (found []*parser.VectorSelector, all bool) {
	all = true
	seen := map[string]bool{}
	for s, path := range signal.Selectors(e) {
		keyed := !slices.ContainsFunc(keys, func(key string) bool { return !narrowed(s, key) })
		switch text := s.String(); {
		case !keyed || past(s, path) || slices.ContainsFunc(path, absence):
			all = all && !slices.ContainsFunc(path, alternative)
		case !seen[text]:
			seen[text] = true
			found = append(found, s)
		}
	}
	return found, all && len(found) > 0
}

// alternative reports whether an operation may have a value although a selector below it has
// no series.
func alternative(n parser.Node) bool {
	b, ok := n.(*parser.BinaryExpr)
	return ok && (b.Op == parser.LOR || b.Op == parser.LUNLESS) || absence(n)
}

// absence reports whether a call has a value where there is no series.
func absence(n parser.Node) bool {
	c, ok := n.(*parser.Call)
	return ok && (c.Func.Name == "absent" || c.Func.Name == "absent_over_time")
}

// past reports whether a selector reads the past on purpose, so that its age
// means nothing.
func past(s *parser.VectorSelector, path []parser.Node) bool {
	return signal.Shifted(s, path) || slices.ContainsFunc(path, func(n parser.Node) bool {
		switch n := n.(type) {
		case *parser.MatrixSelector:
			return n.RangeExpr != nil || n.Range > signal.Lookback
		case *parser.SubqueryExpr:
			return n.RangeExpr != nil || n.Range > signal.Lookback
		}
		return false
	})
}

// window returns the longest range of a query in seconds; nil if it has none.
func window(e parser.Expr) *int64 {
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
	if longest < time.Second {
		return nil
	}
	return new(int64(longest.Seconds()))
}
