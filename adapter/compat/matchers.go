package compat

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// errSelector marks what a request's own selector is to blame for.
var errSelector = errors.New("metric selector")

// condition is one matcher of a query, and the values it came from.
type condition struct {
	matcher *labels.Matcher
	// joined is the values as v0.12.0 joins them, for .LabelValuesByName, and
	// quoted the same as a regular expression that means what it says.
	joined, quoted string
}

// conditions translates a request's metric selector. Values are quoted in
// regular expressions, and a key of any spelling becomes a proper label name.
func conditions(selector k8slabels.Selector) ([]condition, error) {
	requirements, selectable := selector.Requirements()
	if !selectable {
		return nil, fmt.Errorf("%w: matches nothing", errSelector)
	}
	var all []condition
	for _, r := range requirements {
		values := slices.Sorted(slices.Values(r.ValuesUnsorted()))
		kind, text := labels.MatchEqual, ""
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals:
			text = values[0]
		case selection.NotEquals:
			kind, text = labels.MatchNotEqual, values[0]
		case selection.In:
			kind, text = labels.MatchRegexp, anyOf(values)
		case selection.NotIn:
			kind, text = labels.MatchNotRegexp, anyOf(values)
		case selection.Exists:
			kind = labels.MatchNotEqual
		case selection.DoesNotExist:
		default:
			return nil, fmt.Errorf("%w: %s: operator %q cannot be said in PromQL", errSelector, r.Key(), r.Operator())
		}
		m, err := labels.NewMatcher(kind, r.Key(), text)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", errSelector, r.Key(), err)
		}
		all = append(all, condition{m, strings.Join(values, "|"), anyOf(values)})
	}
	return all, nil
}

// named selects objects by label: one exactly, several by their names.
func named(label string, objects []string) condition {
	joined, quoted := strings.Join(objects, "|"), anyOf(objects)
	if len(objects) == 1 {
		return condition{labels.MustNewMatcher(labels.MatchEqual, label, objects[0]), joined, quoted}
	}
	return condition{labels.MustNewMatcher(labels.MatchRegexp, label, quoted), joined, quoted}
}

// present selects every series with a label.
func present(label string) condition {
	return condition{matcher: labels.MustNewMatcher(labels.MatchNotEqual, label, "")}
}

func anyOf(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = regexp.QuoteMeta(v)
	}
	return strings.Join(quoted, "|")
}

// arguments are what a template gets for conditions.
func arguments(series string, all []condition, groupBy ...string) Args {
	texts := make([]string, len(all))
	values := map[string]string{}
	for i, c := range all {
		texts[i] = c.matcher.String()
		values[c.matcher.Name] = c.joined
	}
	return Args{
		Series: series, LabelMatchers: strings.Join(texts, ","), LabelValuesByName: values,
		GroupBy: strings.Join(groupBy, ","), GroupBySlice: groupBy,
	}
}

// plainName is what the name of a Kubernetes object may consist of. Only such
// names are ever put into a query's text.
var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,252}$`)
