package compat

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/prometheus-adapter/pkg/config"
	"sigs.k8s.io/prometheus-adapter/pkg/naming"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/strict"
)

// Rule is one compiled rule of the file. It is immutable.
type Rule struct {
	// Problems: if there are any, the rule is not to be used.
	Problems []strict.Problem
	// ID is its place in the file, "rules[3]".
	ID   string
	File string
	Line int
	// External rules serve external metrics, the others custom ones.
	External bool
	// SeriesQuery selects the series that discovery looks at.
	SeriesQuery string
	// Namespaced: external queries are narrowed to the request's namespace.
	Namespaced bool

	raw   config.DiscoveryRule
	query queryTemplate
}

// compile checks and prepares a rule. The error joins all problems, each with its field.
func compile(raw config.DiscoveryRule, external bool) (*Rule, error) {
	r := &Rule{External: external, SeriesQuery: strings.TrimSpace(raw.SeriesQuery), Namespaced: *cmp.Or(raw.Resources.Namespaced, new(true)), raw: raw}
	var all []error
	check := func(field string, err error) {
		if err != nil {
			all = append(all, fmt.Errorf("%s: %w", field, err))
		}
	}
	check("seriesQuery", selects(r.SeriesQuery))
	for i, f := range raw.SeriesFilters {
		_, err := naming.NewReMatcher(f)
		check(fmt.Sprintf("seriesFilters[%d]", i), err)
	}
	matches, err := regexp.Compile(raw.Name.Matches)
	check("name.matches", err)
	if err == nil && raw.Name.As == "" && matches.NumSubexp() > 1 {
		check("name.as", fmt.Errorf("is required: name.matches has %d groups", matches.NumSubexp()))
	}
	for label, to := range raw.Resources.Overrides {
		if to.Resource == "" {
			check("resources.overrides."+label, errors.New("resource is required, for example {resource: pod}"))
		}
	}
	if raw.Resources.Template != "" {
		if _, err = newQueryTemplate(raw.Resources.Template); err == nil {
			_, err = naming.NewResourceConverter(raw.Resources.Template, nil, nil)
		}
		check("resources.template", err)
	} else if !external && len(raw.Resources.Overrides) == 0 {
		check("resources", errors.New("neither template nor overrides: the rule can serve no object; add one of them"))
	}
	r.query, err = newQueryTemplate(raw.MetricsQuery)
	check("metricsQuery", err)
	if len(all) == 0 {
		check("metricsQuery", r.rehearse())
	}
	return r, errors.Join(all...)
}

func selects(series string) error {
	if series == "" {
		return errors.New("is required: a selector like 'http_requests_total{namespace!=\"\"}'")
	}
	_, err := signal.Parser.ParseMetricSelector(series)
	return err
}

// rehearse renders the query once with example names, so that broken PromQL is
// found when the file is read.
func (r *Rule) rehearse() error {
	series := signal.FirstMetric(r.SeriesQuery)
	if !model.LegacyValidation.IsValidMetricName(series) { // the selector names no series
		series = "series"
	}
	var groupBy []string
	if !r.External {
		groupBy = []string{"pod"}
	}
	_, err := r.expression(series, []condition{named("namespace", "x"), named("pod", "x")}, groupBy...)
	if errors.Is(err, errNoVector) {
		return nil // v0.12.0 lists such a rule; its requests say what is wrong
	}
	return err
}

var errNoVector = errors.New("must be a vector")

// expression is the query for a series and conditions: a vector.
func (r *Rule) expression(series string, all []condition, groupBy ...string) (parser.Expr, error) {
	text, err := r.query.render(arguments(series, all, groupBy...))
	if err != nil {
		return nil, err
	}
	e, err := signal.Parser.ParseExpr(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("renders to %q, which is not PromQL: %w", text, err)
	case e.Type() == parser.ValueTypeScalar && r.External:
		e = signal.Call("vector", e)
	case e.Type() != parser.ValueTypeVector:
		return nil, fmt.Errorf("gives a %s: %w", parser.DocumentedType(e.Type()), errNoVector)
	}
	quote(e, all)
	return e, nil
}

// condition is one matcher of a query and its values. The matcher has them quoted.
type condition struct {
	*labels.Matcher
	values []string
}

// joined returns the values as v0.12.0 passes them to templates.
func (c condition) joined() string { return strings.Join(c.values, "|") }

// conditions translates a request's metric selector. Values are quoted in
// regular expressions, and every key becomes a valid label name. An error is the request's.
func conditions(selector k8slabels.Selector) ([]condition, error) {
	requirements, selectable := selector.Requirements()
	if !selectable {
		return nil, apierrors.NewBadRequest("metric selector: matches nothing")
	}
	var all []condition
	for _, r := range requirements {
		m, err := signal.MatcherOf(r)
		if err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("metric selector: %s: %v", r.Key(), err))
		}
		all = append(all, condition{m, slices.Sorted(slices.Values(r.ValuesUnsorted()))})
	}
	return all, nil
}

// named selects objects by label: one by equality, several by a regular
// expression.
func named(label string, objects ...string) condition {
	return condition{signal.OneOf(label, objects), objects}
}

// arguments are the template's arguments for conditions.
func arguments(series string, all []condition, groupBy ...string) Args {
	matchers, values := make([]string, len(all)), map[string]string{}
	for i, c := range all {
		matchers[i] = c.String()
		values[c.Name] = c.joined()
	}
	return Args{
		Series: series, LabelMatchers: strings.Join(matchers, ","), LabelValuesByName: values,
		GroupBy: strings.Join(groupBy, ","), GroupBySlice: groupBy,
	}
}

// quote fixes the regular expressions that a template makes of
// .LabelValuesByName, in which a dot would match any character.
func quote(e parser.Expr, all []condition) {
	for s := range signal.Selectors(e) {
		for i, m := range s.LabelMatchers {
			for _, c := range all {
				if (m.Type == labels.MatchRegexp || m.Type == labels.MatchNotRegexp) && m.Value == c.joined() {
					s.LabelMatchers[i] = labels.MustNewMatcher(m.Type, m.Name, signal.AnyOf(c.values))
				}
			}
		}
	}
}
