package signal

import (
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// PartLabel is added to each series of an answer: "v0" is a value of source 0,
// "t0" the Unix time at which that value was scraped.
const PartLabel = "gpuscale_part"

// Query returns the one PromQL expression that answers a rule for all
// namespaces. It joins, for each source, its value and timestamp(its series)
// with `or`; the part label keeps them apart. Built as a syntax tree, so no
// name or matcher can break out of its place.
func (r Rule) Query() string { return r.expression().String() }

// historyStep is how closely [Rule.History] looks at the past. A series that
// lived shorter may go unnoticed.
const historyStep = 30 * time.Second

// History returns the expression for a rule that nobody has watched: Query's
// answer, and beside it the last of each series that has ended within Forget.
// A table built from it knows who has fallen silent, as if it had been there
// all the while; without, a sum right after a start would leave them out and
// be too low.
func (r Rule) History() string {
	past := &parser.SubqueryExpr{Expr: &parser.ParenExpr{Expr: r.expression()}, Range: Forget, Step: historyStep}
	return or(r.expression(), call("last_over_time", past)).String()
}

func (r Rule) expression() parser.Expr {
	var whole parser.Expr
	for i, s := range r.Sources {
		n := strconv.Itoa(i)
		whole = or(whole, part("v"+n, r.value(s)))
		whole = or(whole, part("t"+n, call("timestamp", r.selector(s.Metric, s.Matchers))))
	}
	return whole
}

func (r Rule) value(s Source) parser.Expr {
	value := r.selector(s.Metric, s.Matchers)
	if s.Over == "" {
		return value
	}
	return &parser.BinaryExpr{
		Op: parser.DIV, LHS: value, RHS: r.selector(s.Over, s.Matchers),
		VectorMatching: &parser.VectorMatching{Card: parser.CardOneToOne},
	}
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

func part(name string, e parser.Expr) parser.Expr {
	return call("label_replace", e, text(PartLabel), text(name), text(""), text(""))
}

func call(function string, args ...parser.Expr) parser.Expr {
	return &parser.Call{Func: parser.Functions[function], Args: args}
}

func text(s string) parser.Expr { return &parser.StringLiteral{Val: s} }

func or(a, b parser.Expr) parser.Expr {
	if a == nil {
		return b
	}
	return &parser.BinaryExpr{
		Op: parser.LOR, LHS: a, RHS: b,
		VectorMatching: &parser.VectorMatching{Card: parser.CardManyToMany},
	}
}
