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
	if !model.LegacyValidation.IsValidMetricName(series) { // it names none
		series = "series"
	}
	args := &Args{Series: series, LabelMatchers: `namespace="x",pod="x"`, values: map[string]string{"namespace": "x", "pod": "x"}}
	if !r.External {
		args.GroupBy, args.GroupBySlice = "pod", []string{"pod"}
	}
	text, err := r.query.render(args)
	if err != nil {
		return err
	}
	if _, err := signal.Parser.ParseExpr(text); err != nil {
		return fmt.Errorf("renders to %q, which is no PromQL: %w", text, err)
	}
	return nil
}

// errSelector marks errors of the request's own selector.
var errSelector = errors.New("metric selector")

// condition is one matcher of a query and its values.
type condition struct {
	matcher *labels.Matcher
	// joined has the values joined like v0.12.0, for .LabelValuesByName; quoted
	// is the same as a regular expression that matches the values literally.
	joined, quoted string
}

// conditions translates a request's metric selector. Values are quoted in
// regular expressions, and every key becomes a valid label name.
func conditions(selector k8slabels.Selector) ([]condition, error) {
	requirements, selectable := selector.Requirements()
	if !selectable {
		return nil, fmt.Errorf("%w: matches nothing", errSelector)
	}
	var all []condition
	for _, r := range requirements {
		values := slices.Sorted(slices.Values(r.ValuesUnsorted()))
		m, err := signal.MatcherOf(r)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", errSelector, r.Key(), err)
		}
		all = append(all, condition{m, strings.Join(values, "|"), signal.AnyOf(values)})
	}
	return all, nil
}

// named selects objects by label: one by equality, several by a regular
// expression.
func named(label string, objects []string) condition {
	return condition{signal.OneOf(label, objects), strings.Join(objects, "|"), signal.AnyOf(objects)}
}

// arguments are the template's arguments for conditions.
func arguments(series string, all []condition, groupBy ...string) *Args {
	texts := make([]string, len(all))
	values := map[string]string{}
	for i, c := range all {
		texts[i] = c.matcher.String()
		values[c.matcher.Name] = c.joined
	}
	return &Args{
		Series: series, LabelMatchers: strings.Join(texts, ","), values: values,
		GroupBy: strings.Join(groupBy, ","), GroupBySlice: groupBy,
	}
}

// plainName matches the names of Kubernetes objects. Only such names are put
// into a query's text.
var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,252}$`)
