package compat

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	k8slabels "k8s.io/apimachinery/pkg/labels"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

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
		m, err := signal.Matcher(r)
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
	joined, quoted := strings.Join(objects, "|"), signal.AnyOf(objects)
	if len(objects) == 1 {
		return condition{labels.MustNewMatcher(labels.MatchEqual, label, objects[0]), joined, quoted}
	}
	return condition{labels.MustNewMatcher(labels.MatchRegexp, label, quoted), joined, quoted}
}

// present selects every series with a label.
func present(label string) condition {
	return condition{matcher: labels.MustNewMatcher(labels.MatchNotEqual, label, "")}
}

// arguments are the template's arguments for conditions.
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

// plainName matches the names of Kubernetes objects. Only such names are put
// into a query's text.
var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,252}$`)
