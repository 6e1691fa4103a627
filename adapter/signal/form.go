package signal

import (
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// value is what a source's numbers are.
func (r Rule) value(s Source) parser.Expr {
	switch s.Form {
	case Quantile:
		classic := sum(r.windowed("rate", s.bucket(), s.Matchers), append(r.subject(s), labels.BucketLabel))
		native := sum(r.windowed("rate", s.Metric, native(s.Matchers)), r.subject(s))
		q := number(s.Quantile)
		return or(call("histogram_quantile", q, classic), call("histogram_quantile", q, native))
	case Rate:
		return over(r.windowed("rate", s.Metric, s.Matchers), s, func() parser.Expr {
			return r.windowed("rate", s.Over, s.Matchers)
		})
	}
	return over(r.selector(s.Metric, s.Matchers), s, func() parser.Expr { return r.selector(s.Over, s.Matchers) })
}

// over divides if the source says so.
func over(value parser.Expr, s Source, divisor func() parser.Expr) parser.Expr {
	if s.Over == "" {
		return value
	}
	return &parser.BinaryExpr{
		Op: parser.DIV, LHS: value, RHS: divisor(), VectorMatching: &parser.VectorMatching{Card: parser.CardOneToOne},
	}
}

// scrapeTime is when the newest sample of each value was scraped: a window's
// value is as old as that, not as young as its evaluation.
func (r Rule) scrapeTime(s Source) parser.Expr {
	if s.Form != Quantile {
		return call("timestamp", r.selector(s.Metric, s.Matchers))
	}
	// Every classic histogram has this bucket, and one is enough.
	whole := labels.MustNewMatcher(labels.MatchEqual, labels.BucketLabel, "+Inf")
	classic := call("timestamp", r.selector(s.bucket(), append([]*labels.Matcher{whole}, s.Matchers...)))
	other := call("timestamp", r.selector(s.Metric, native(s.Matchers)))
	return or(newest(classic, r.subject(s)), newest(other, r.subject(s)))
}

// idle is the scrape time of what shows that nothing happened in the window.
func (r Rule) idle(s Source) parser.Expr {
	if s.Idle == nil || len(s.Idle.While) == 0 {
		return nil
	}
	var e parser.Expr
	for _, w := range s.Idle.While {
		if e == nil {
			e = newest(call("timestamp", r.selector(w.Metric, w.Matchers)), r.owner())
		}
		most := r.selector(w.Metric, w.Matchers)
		if r.Window > 0 {
			most = r.windowed("max_over_time", w.Metric, w.Matchers)
		}
		e = set(parser.LAND, e, is(newest(most, r.owner()), 0))
	}
	return e
}

// absent is the scrape time of what shows that the target is there.
func (r Rule) absent(s Source) parser.Expr {
	a := s.Absent
	if a == nil {
		return nil
	}
	e := call("timestamp", r.selector(a.While.Metric, a.While.Matchers))
	if a.Is != nil {
		e = set(parser.LAND, e, is(r.selector(a.While.Metric, a.While.Matchers), *a.Is))
	}
	if a.Label != "" {
		e = call("label_replace", e, text(a.Label), text("$1"), text(a.From), text("(.*)"))
	}
	return e
}

func is(e parser.Expr, v float64) parser.Expr {
	return &parser.BinaryExpr{Op: parser.EQLC, LHS: e, RHS: number(v)}
}

// owner are the labels that say whose a series is.
func (r Rule) owner() []string {
	switch r.Subject {
	case Namespace:
		return []string{namespaceLabel}
	case Holder:
		return []string{exportedNamespaceLabel, exportedPodLabel, namespaceLabel, podLabel}
	}
	return []string{namespaceLabel, podLabel}
}

// subject are the labels that tell apart what a source speaks about.
func (r Rule) subject(s Source) []string {
	by := append(r.owner(), s.identity(&r)...)
	slices.Sort(by)
	return slices.Compact(by)
}

func sum(e parser.Expr, by []string) parser.Expr    { return group(parser.SUM, e, by) }
func newest(e parser.Expr, by []string) parser.Expr { return group(parser.MAX, e, by) }

func group(op parser.ItemType, e parser.Expr, by []string) parser.Expr {
	return &parser.AggregateExpr{Op: op, Expr: e, Grouping: by}
}

// windowed applies a function of a range to the rule's window.
func (r Rule) windowed(function, name string, matchers []*labels.Matcher) parser.Expr {
	return call(function, &parser.MatrixSelector{
		VectorSelector: r.selector(name, matchers), Range: r.Window.Round(time.Millisecond),
	})
}

// bucket is the name of a histogram's classic series.
func (s Source) bucket() string { return s.Metric + "_bucket" }

// native narrows to what can be a native histogram. A summary's series share
// the name, and one of them would make Prometheus warn about the whole answer.
func native(matchers []*labels.Matcher) []*labels.Matcher {
	return append([]*labels.Matcher{
		labels.MustNewMatcher(labels.MatchEqual, model.QuantileLabel, ""),
	}, matchers...)
}

// selector adds what every usable series has: the labels of an owner. Where
// Prometheus renamed the holder's pod to exported_pod it did so because the
// target brought a pod of its own, so pod!="" holds in both styles.
func (r Rule) selector(name string, matchers []*labels.Matcher) parser.Expr {
	owned := []*labels.Matcher{present(namespaceLabel)}
	if r.Subject != Namespace {
		owned = append(owned, present(podLabel))
	}
	return series(name, append(owned, matchers...))
}

// series selects the series of one name. A name that is not of the classic
// alphabet can only stand as a matcher.
func series(name string, matchers []*labels.Matcher) *parser.VectorSelector {
	byName := labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, name)
	s := &parser.VectorSelector{LabelMatchers: append([]*labels.Matcher{byName}, matchers...)}
	if model.LegacyValidation.IsValidMetricName(name) {
		s.Name = name
	}
	return s
}

func present(label string) *labels.Matcher {
	return labels.MustNewMatcher(labels.MatchNotEqual, label, "")
}
