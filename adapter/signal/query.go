package signal

import (
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// PartLabel is added to each series of an answer and names its part and source:
//   - "v0" is a value of source 0;
//   - "t0" is the Unix time at which the newest sample in that value was scraped;
//   - "n0" is the time of the evidence for what NaN means;
//   - "a0" is the time of the evidence for what a missing series means;
//   - "p0" is the time of a series that the target always has;
//   - "s0" is a pod that reports about other pods.
//
// No series of an answer has this label from its target: every selector excludes it.
const PartLabel = "gpuscale_part"

// maxQueryBytes bounds one query. VictoriaMetrics refuses more than 16,384 bytes.
const maxQueryBytes = 15_000

// Query returns the PromQL expression that answers a rule for some namespaces;
// for all if none is named. It joins the parts of all sources with `or`,
// distinguished by the part label. It is built as a syntax tree, so no name or
// matcher can inject PromQL.
func (r Rule) Query(namespaces ...string) string {
	return anyPart(slices.Concat(r.parts(namespaces)...)).String()
}

// Queries returns Query in pieces that are short enough for every server; their answers
// together are Query's. With over, they return the last sample of each series in the
// last [Forget]. A table that reads these first knows the stale pods, as if it had
// existed all the time. Without them, a sum right after a start would leave these pods
// out and be too low.
func (r Rule) Queries(over bool, namespaces ...string) []string {
	text := func(parts []parser.Expr) string {
		if over {
			return past(anyPart(parts)).String()
		}
		return anyPart(parts).String()
	}
	var all []string
	var open []parser.Expr
	size := 0
	for _, parts := range r.parts(namespaces) {
		own := len(text(parts))
		if half := len(namespaces) / 2; own > maxQueryBytes && half > 0 {
			return append(r.Queries(over, namespaces[:half]...), r.Queries(over, namespaces[half:]...)...)
		}
		if size > 0 && size+own > maxQueryBytes {
			all = append(all, text(open))
			open, size = nil, 0
		}
		open, size = append(open, parts...), size+own+len(" or ()")
	}
	return append(all, text(open))
}

// Suspects returns one query for each of the rule's series in one namespace, with
// the series' name. A query that fails names the series at fault.
func (r Rule) Suspects(namespace string) (names, queries []string) {
	for i, parts := range r.parts([]string{namespace}) {
		if i < len(r.Sources) {
			names, queries = append(names, r.Sources[i].Metric), append(queries, anyPart(parts).String())
		}
	}
	return names, queries
}

// pastStep is the resolution of the past. A series that lived shorter may be
// missed.
const pastStep = 30 * time.Second

func past(e parser.Expr) parser.Expr {
	return Call("last_over_time", &parser.SubqueryExpr{Expr: &parser.ParenExpr{Expr: e}, Range: Forget, Step: pastStep})
}

// parts returns the parts of each source. For a rule of subject Exported the
// part about scrapers comes last.
func (r Rule) parts(namespaces []string) [][]parser.Expr {
	reaches := r.reaches(namespaces)
	var all [][]parser.Expr
	for i, s := range r.Sources {
		n := strconv.Itoa(i)
		var parts []parser.Expr
		add := func(kind string, of func(query) parser.Expr) {
			var whole parser.Expr
			for _, reach := range reaches {
				whole = Or(whole, of(query{r, s, reach, namespaces}))
			}
			if whole != nil {
				parts = append(parts, Part(kind+n, whole))
			}
		}
		add("v", query.value)
		add("t", query.scrapeTime)
		add("n", query.idle)
		add("a", query.absent)
		add("p", query.page)
		all = append(all, parts)
	}
	if r.Subject == Exported && len(namespaces) > 0 {
		all = append(all, []parser.Expr{Part("s0", r.scraping(namespaces))})
	}
	return all
}

// reaches returns sets of matchers that together select the series about some
// namespaces.
func (r Rule) reaches(namespaces []string) [][]*labels.Matcher {
	ours := labels.MustNewMatcher(labels.MatchEqual, PartLabel, "")
	with := func(more ...*labels.Matcher) []*labels.Matcher {
		if r.Subject != Namespace {
			// Prometheus renames a series' pod to exported_pod only where the
			// target has a pod label, so this matches with and without
			// honor_labels.
			more = append(more, present(r.pod()))
		}
		return append(more, ours)
	}
	if len(namespaces) == 0 {
		return [][]*labels.Matcher{with(present(r.namespace()))}
	}
	switch {
	case r.Subject != Exported:
		return [][]*labels.Matcher{with(OneOf(r.namespace(), namespaces))}
	case r.Exporters == nil:
		return [][]*labels.Matcher{
			with(OneOf(exportedNamespaceLabel, namespaces), present(namespaceLabel)),
			with(labels.MustNewMatcher(labels.MatchEqual, exportedNamespaceLabel, ""), OneOf(namespaceLabel, namespaces)),
		}
	}
	// A target may report its own namespace. Selecting no other one keeps a
	// tenant's pages out of another tenant's answer and budget.
	all := [][]*labels.Matcher{with(OneOf(exportedNamespaceLabel, append([]string{""}, namespaces...)), OneOf(namespaceLabel, namespaces))}
	if len(r.Exporters) > 0 {
		all = append(all, with(OneOf(exportedNamespaceLabel, namespaces), OneOf(namespaceLabel, r.Exporters)))
	}
	return all
}

// OneOf matches any of some values.
func OneOf(label string, values []string) *labels.Matcher {
	if len(values) == 1 {
		return labels.MustNewMatcher(labels.MatchEqual, label, values[0])
	}
	return labels.MustNewMatcher(labels.MatchRegexp, label, AnyOf(values))
}

// scraping selects the pods of the namespaces that report about other pods. Each name is
// matched exactly: Google's managed Prometheus takes no regular expression for it.
func (r Rule) scraping(namespaces []string) parser.Expr {
	var all []parser.Expr
	for _, s := range r.Sources {
		reporting := series(s.Metric, []*labels.Matcher{OneOf(namespaceLabel, namespaces), present(exportedPodLabel)})
		all = append(all, group(parser.GROUP, reporting, []string{namespaceLabel, podLabel}))
	}
	return anyPart(all)
}

// anyPart joins with `or` as a balanced tree: each `or` hashes every series
// below it, so a chain of thirty would hash each thirty times.
func anyPart(parts []parser.Expr) parser.Expr {
	if len(parts) == 1 {
		return parts[0]
	}
	half := (len(parts) + 1) / 2
	return Or(anyPart(parts[:half]), anyPart(parts[half:]))
}

// Part marks an expression's series by the part label.
func Part(name string, e parser.Expr) parser.Expr { return With(PartLabel, name, e) }

// With gives an expression's series a label.
func With(label, value string, e parser.Expr) parser.Expr {
	return Call("label_replace", e, text(label), text(value), text(""), text(""))
}

// Call returns a call of a PromQL function.
func Call(function string, args ...parser.Expr) parser.Expr {
	return &parser.Call{Func: parser.Functions[function], Args: args}
}

func text(s string) parser.Expr { return &parser.StringLiteral{Val: s} }

func number(v float64) parser.Expr { return &parser.NumberLiteral{Val: v} }

// Or joins two expressions by PromQL's or; nil means no expression.
func Or(a, b parser.Expr) parser.Expr {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return set(parser.LOR, a, b)
}

// set joins two vectors by their whole label sets. Chains associate to the
// left, so the right operand keeps its parentheses.
func set(op parser.ItemType, a, b parser.Expr) *parser.BinaryExpr {
	if _, nested := b.(*parser.BinaryExpr); nested {
		b = &parser.ParenExpr{Expr: b}
	}
	return &parser.BinaryExpr{
		Op: op, LHS: a, RHS: b, VectorMatching: &parser.VectorMatching{Card: parser.CardManyToMany},
	}
}
