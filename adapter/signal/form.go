package signal

import (
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// value is the expression of a source's values.
func (r query) value(s Source) parser.Expr {
	switch s.Form {
	case PromQL:
		return r.promql(s)
	case Quantile, Mean:
		return r.wider(func(r query) parser.Expr { return r.histogram(s) })
	case Rate:
		return r.wider(func(r query) parser.Expr {
			return s.ratio(func(name string) parser.Expr { return r.windowed("rate", name, s.Matchers.promql()) })
		})
	}
	return s.ratio(func(name string) parser.Expr { return r.selector(name, s.Matchers.promql()) })
}

// ratio is a source's series, divided by its Over if set.
func (s Source) ratio(of func(name string) parser.Expr) parser.Expr {
	value := s.together(parser.SUM, of(s.Metric))
	if s.Over == "" {
		return value
	}
	return divided(value, s.together(parser.SUM, of(s.Over)))
}

// histogram is a number of a histogram's growth in the window: of its classic series or of
// its native one, since a Prometheus may have either or both.
func (r query) histogram(s Source) parser.Expr {
	by, only := r.subject(s), s.Matchers.promql()
	grown := func(name string, matchers []*labels.Matcher, by ...string) parser.Expr {
		return sum(r.windowed("rate", name, matchers), by)
	}
	natively := grown(s.Metric, native(only), by...)
	if s.Form == Mean {
		return or(divided(grown(s.Metric+"_sum", only, by...), grown(s.Metric+"_count", only, by...)), Call("histogram_avg", natively))
	}
	q := number(s.Quantile)
	classic := grown(s.bucket(), finite(only), append(slices.Clone(by), labels.BucketLabel)...)
	return or(Call("histogram_quantile", q, classic), Call("histogram_quantile", q, natively))
}

// together aggregates the series that differ in Without only.
func (s Source) together(op parser.ItemType, e parser.Expr) parser.Expr {
	if len(s.Without) == 0 {
		return e
	}
	return &parser.AggregateExpr{Op: op, Expr: e, Grouping: s.Without, Without: true}
}

// wider is an expression over the rule's window, and over the wide one for what has no
// value there.
func (r query) wider(of func(query) parser.Expr) parser.Expr {
	wide := r
	wide.Window = r.Wide
	if r.Wide <= r.Window {
		return of(r)
	}
	return or(of(r), of(wide))
}

func divided(value, by parser.Expr) parser.Expr {
	return &parser.BinaryExpr{Op: parser.DIV, LHS: value, RHS: by, VectorMatching: &parser.VectorMatching{Card: parser.CardOneToOne}}
}

// scrapeTime is when the newest sample of each value was scraped: that is the
// age of a window's value, not the time of evaluation.
func (r query) scrapeTime(s Source) parser.Expr {
	if s.Form == PromQL {
		return r.promqlTime(s)
	}
	if !s.histogram() {
		return s.together(parser.MIN, Call("timestamp", r.selector(s.Metric, s.Matchers.promql())))
	}
	// Every classic histogram has this bucket, and one is enough.
	name, one := s.bucket(), append([]*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, labels.BucketLabel, "+Inf")}, s.Matchers.promql()...)
	if s.Form == Mean {
		name, one = s.Metric+"_count", s.Matchers.promql()
	}
	classic := Call("timestamp", r.selector(name, one))
	other := Call("timestamp", r.selector(s.Metric, native(s.Matchers.promql())))
	return or(newest(classic, r.subject(s)), newest(other, r.subject(s)))
}

// idle is the scrape time of the series that show an idle window.
func (r query) idle(s Source) parser.Expr {
	if s.Idle == nil || len(s.Idle.While) == 0 {
		return nil
	}
	by := append(r.owner(), s.Idle.By...)
	var e parser.Expr
	for _, w := range s.Idle.While {
		if e == nil {
			e = newest(Call("timestamp", r.selector(w.Metric, w.Matchers.promql())), by)
		}
		most := r.selector(w.Metric, w.Matchers.promql())
		if r.Window > 0 {
			most = r.wider(func(r query) parser.Expr { return r.windowed("max_over_time", w.Metric, w.Matchers.promql()) })
		}
		e = set(parser.LAND, e, is(newest(most, by), 0))
	}
	if s.Idle.Progress == nil {
		return e
	}
	queue := s
	queue.Idle = &Idle{While: s.Idle.While[:1], By: s.Idle.By}
	rate := r.wider(func(r query) parser.Expr {
		return newest(r.windowed("rate", s.Idle.Progress.Metric, s.Idle.Progress.Matchers.promql()), by)
	})
	grows := &parser.BinaryExpr{Op: parser.GTR, LHS: &parser.ParenExpr{Expr: rate}, RHS: number(0)}
	return or(e, set(parser.LAND, r.idle(queue), grows))
}

// page is the scrape time of a series that the target always has.
func (r query) page(s Source) parser.Expr {
	if s.Page == nil {
		return nil
	}
	return newest(Call("timestamp", r.selector(s.Page.Metric, s.Page.Matchers.promql())), r.owner())
}

// absent is the scrape time of the series that shows the target is scraped: one
// for each label set that a request can distinguish, however many series a page
// has.
func (r query) absent(s Source) parser.Expr {
	a := s.Absent
	if a == nil {
		return nil
	}
	e := Call("timestamp", r.selector(a.While.Metric, a.While.Matchers.promql()))
	if a.Is != nil {
		e = set(parser.LAND, e, is(r.selector(a.While.Metric, a.While.Matchers.promql()), *a.Is))
	}
	by := r.subject(s)
	if a.Label != "" {
		by = append(slices.DeleteFunc(by, func(l string) bool { return l == a.Label || l == a.From }), a.From)
	}
	e = newest(e, by)
	if a.Label != "" {
		e = Call("label_replace", e, text(a.Label), text("$1"), text(a.From), text("(.*)"))
	}
	return e
}

func is(e parser.Expr, v float64) parser.Expr {
	return &parser.BinaryExpr{Op: parser.EQLC, LHS: e, RHS: number(v)}
}

// owner are the labels that name a series' pod.
func (r Rule) owner() []string {
	switch r.Subject {
	case Namespace:
		return []string{r.namespace()}
	case Exported:
		return []string{exportedNamespaceLabel, exportedPodLabel, namespaceLabel, podLabel}
	}
	return []string{r.namespace(), r.pod()}
}

// subject are the labels that distinguish a source's subjects.
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
func (r query) windowed(function, name string, matchers []*labels.Matcher) parser.Expr {
	return Call(function, &parser.MatrixSelector{
		VectorSelector: r.selector(name, matchers), Range: r.Window.Round(time.Millisecond),
	})
}

// bucket is the name of a histogram's classic series.
func (s Source) bucket() string { return s.Metric + "_bucket" }

// bounds matches the upper bounds that are numbers. Any other makes Prometheus
// warn about the whole answer.
const bounds = `[+]?Inf|-?[0-9]{1,20}([.][0-9]{1,20})?(e[-+]?[0-9]{1,2})?`

func finite(matchers []*labels.Matcher) []*labels.Matcher {
	return append([]*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, labels.BucketLabel, bounds)}, matchers...)
}

// native excludes a summary's series, which share the name of a native
// histogram: one of them makes Prometheus warn about the whole answer.
func native(matchers []*labels.Matcher) []*labels.Matcher {
	return append([]*labels.Matcher{
		labels.MustNewMatcher(labels.MatchEqual, model.QuantileLabel, ""),
	}, matchers...)
}

// query is a rule over the namespaces that its matchers reach.
type query struct {
	Rule
	reach      []*labels.Matcher
	namespaces []string
}

func (r query) selector(name string, matchers []*labels.Matcher) parser.Expr {
	return series(name, slices.Concat(r.reach, matchers))
}

// series selects the series of one name. A UTF-8 name outside the classic
// alphabet needs a matcher.
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
