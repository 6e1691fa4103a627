package signal

import (
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// query is a source of a rule, over the namespaces that its matchers reach.
type query struct {
	Rule
	source     Source
	reach      []*labels.Matcher
	namespaces []string
}

// of selects the source's series of a name.
func (r query) of(name string, more ...*labels.Matcher) *parser.VectorSelector {
	return series(name, slices.Concat(r.reach, more, r.source.Matchers.promql()))
}

// shown selects the series that are evidence about the source's.
func (r query) shown(by Series) *parser.VectorSelector {
	return series(by.Metric, slices.Concat(r.reach, by.Matchers.promql()))
}

// native selects a native histogram. It excludes a summary's series, which share its name: one
// of them makes Prometheus warn about the whole answer.
func (r query) native() *parser.VectorSelector {
	return r.of(r.source.Metric, labels.MustNewMatcher(labels.MatchEqual, model.QuantileLabel, ""))
}

// bounds matches the upper bounds that are numbers. Any other makes Prometheus
// warn about the whole answer.
const bounds = `[+]?Inf|-?[0-9]{1,20}([.][0-9]{1,20})?(e[-+]?[0-9]{1,2})?`

// value is the expression of the source's values.
func (r query) value() parser.Expr {
	switch r.source.Form {
	case PromQL:
		return r.promql()
	case Quantile, Mean:
		value := r.wider(query.histogram)
		if l := r.source.Lives; l != nil {
			value = r.among(value, r.parts(r.shown(l.Series)))
		}
		return value
	case Rate:
		return r.wider(func(r query) parser.Expr {
			return r.ratio(func(name string) parser.Expr { return r.windowed("rate", r.of(name)) })
		})
	}
	value := r.ratio(func(name string) parser.Expr { return r.of(name) })
	if r.source.Unless != "" {
		value = set(parser.LUNLESS, value, is(r.of(r.source.Unless), 0))
	}
	return value
}

// ratio is the source's series, divided by its Over if set.
func (r query) ratio(of func(name string) parser.Expr) parser.Expr {
	value := r.together(parser.SUM, of(r.source.Metric))
	if r.source.Over == "" {
		return value
	}
	return divided(value, r.together(parser.SUM, of(r.source.Over)))
}

// histogram returns the quantile or mean of the histogram's growth in the window. It reads
// the classic and the native series, since a Prometheus may have either or both.
func (r query) histogram() parser.Expr {
	by, name := r.subject(), r.source.Metric
	grown := func(s *parser.VectorSelector, by ...string) parser.Expr {
		return group(parser.SUM, r.windowed("rate", s), by)
	}
	natively := grown(r.native(), by...)
	if r.source.Form == Mean {
		return Or(divided(grown(r.of(name+"_sum"), by...), grown(r.of(name+"_count"), by...)), Call("histogram_avg", natively))
	}
	q := number(r.source.Quantile)
	classic := grown(r.of(name+"_bucket", labels.MustNewMatcher(labels.MatchRegexp, labels.BucketLabel, bounds)), append(slices.Clone(by), labels.BucketLabel)...)
	return Or(Call("histogram_quantile", q, classic), Call("histogram_quantile", q, natively))
}

// together aggregates the series that differ in Without only.
func (r query) together(op parser.ItemType, e parser.Expr) parser.Expr {
	if len(r.source.Without) == 0 {
		return e
	}
	return &parser.AggregateExpr{Op: op, Expr: e, Grouping: r.source.Without, Without: true}
}

// wider returns an expression over the rule's window. What has no value there gets the
// value over the wide window.
func (r query) wider(of func(query) parser.Expr) parser.Expr {
	wide := r
	wide.Window = r.Wide
	if r.Wide <= r.Window {
		return of(r)
	}
	return Or(of(r), of(wide))
}

// scrapeTime returns when the newest sample of each value was scraped. A
// window's value is as old as that sample, not as the evaluation.
func (r query) scrapeTime() parser.Expr {
	if r.source.Form == PromQL {
		return r.promqlTime()
	}
	if !r.source.histogram() {
		return r.together(parser.MIN, Call("timestamp", r.of(r.source.Metric)))
	}
	// Every classic histogram has this bucket, and one is enough.
	classic := r.of(r.source.Metric+"_bucket", labels.MustNewMatcher(labels.MatchEqual, labels.BucketLabel, "+Inf"))
	if r.source.Form == Mean {
		classic = r.of(r.source.Metric + "_count")
	}
	return Or(newest(Call("timestamp", classic), r.subject()), newest(Call("timestamp", r.native()), r.subject()))
}

// idle is the scrape time of the series that show an idle window.
func (r query) idle() parser.Expr {
	idle := r.source.Idle
	if idle == nil || len(idle.While) == 0 {
		return nil
	}
	by := append(r.owner(), metric.WithExported(idle.By...)...)
	var e parser.Expr
	for _, w := range idle.While {
		if e == nil {
			e = newest(Call("timestamp", r.shown(w)), by)
		}
		most := parser.Expr(r.shown(w))
		if r.Window > 0 {
			most = r.wider(func(r query) parser.Expr { return r.windowed("max_over_time", r.shown(w)) })
		}
		e = set(parser.LAND, e, is(newest(most, by), 0))
	}
	if l := r.source.Lives; l != nil {
		free := r.parts(r.wider(func(r query) parser.Expr { return r.windowed("max_over_time", r.shown(l.Series)) }))
		e = Or(e, r.among(newest(r.scrapeTime(), by), is(&parser.ParenExpr{Expr: free}, 0)))
	}
	if idle.Progress == nil {
		return e
	}
	queue := r
	queue.source.Idle, queue.source.Lives = &Idle{While: idle.While[:1], By: idle.By}, nil
	rate := r.wider(func(r query) parser.Expr { return newest(r.windowed("rate", r.shown(*idle.Progress)), by) })
	grows := &parser.BinaryExpr{Op: parser.GTR, LHS: &parser.ParenExpr{Expr: rate}, RHS: number(0)}
	return Or(e, set(parser.LAND, queue.idle(), grows))
}

// parts returns the values of Lives by the parts' label, and the highest of each pod for parts
// without that label.
func (r query) parts(e parser.Expr) parser.Expr {
	l := r.source.Lives
	return Or(l.named(newest(e, append(r.owner(), metric.WithExported(l.From)...))), newest(e, r.owner()))
}

// named gives the evidence its label.
func (e Evidence) named(values parser.Expr) parser.Expr {
	if e.Label == "" {
		return values
	}
	for _, from := range metric.WithExported(e.From) {
		values = Call("label_replace", values, text(e.Label), text("$1"), text(from), text("(.+)"))
	}
	return values
}

// among keeps the values of the parts that exist.
func (r query) among(value, parts parser.Expr) parser.Expr {
	e := set(parser.LAND, &parser.ParenExpr{Expr: value}, parts)
	e.VectorMatching.On, e.VectorMatching.MatchingLabels = true, append(r.owner(), r.source.Lives.Label)
	return e
}

// page is the scrape time of a series that the target always has.
func (r query) page() parser.Expr {
	if r.source.Page == nil {
		return nil
	}
	return newest(Call("timestamp", r.shown(*r.source.Page)), r.owner())
}

// absent returns the scrape time of the series that proves the target is
// scraped. It has one series for each label set that a request can distinguish,
// however many series a page has.
func (r query) absent() parser.Expr {
	if r.source.Absent == nil {
		return nil
	}
	a, by := r.source.Absent.While, r.subject()
	if a.Label != "" {
		by = append(slices.DeleteFunc(by, func(l string) bool { return l == a.Label || l == a.From }), metric.WithExported(a.From)...)
	}
	e := newest(Call("timestamp", r.shown(a.Series)), by)
	if a.Is != nil { // all of them
		e = set(parser.LAND, e, is(newest(r.shown(a.Series), by), *a.Is))
	}
	return a.named(e)
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

// subject are the labels that distinguish the source's subjects, and pods of several clusters.
func (r query) subject() []string {
	by := append(append(r.owner(), metric.WithExported(r.source.Parts(&r.Rule)...)...), clusterLabel)
	slices.Sort(by)
	return slices.Compact(by)
}

// windowed applies a function of a range to the rule's window.
func (r query) windowed(function string, s *parser.VectorSelector) parser.Expr {
	return Call(function, &parser.MatrixSelector{VectorSelector: s, Range: r.Window.Round(time.Millisecond)})
}

func divided(value, by parser.Expr) parser.Expr {
	return &parser.BinaryExpr{Op: parser.DIV, LHS: value, RHS: by, VectorMatching: &parser.VectorMatching{Card: parser.CardOneToOne}}
}

func is(e parser.Expr, v float64) parser.Expr {
	return &parser.BinaryExpr{Op: parser.EQLC, LHS: e, RHS: number(v)}
}

func newest(e parser.Expr, by []string) parser.Expr { return group(parser.MAX, e, by) }

func group(op parser.ItemType, e parser.Expr, by []string) parser.Expr {
	return &parser.AggregateExpr{Op: op, Expr: e, Grouping: by}
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
