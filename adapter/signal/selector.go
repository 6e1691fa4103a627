package signal

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Hint returns PromQL that shows the series behind a request: the first
// source's, within one namespace, narrowed by the request's metric selector. It
// is for users and never sent: requests are answered from tables. It is "" for a selector
// that PromQL cannot express.
func (r Rule) Hint(namespace string, selector k8slabels.Selector) string {
	requirements, selectable := selector.Requirements()
	var narrowed []*labels.Matcher
	for _, req := range requirements {
		m, err := MatcherOf(req)
		selectable = selectable && err == nil
		narrowed = append(narrowed, m)
	}
	if !selectable {
		return ""
	}
	within := func(label string) parser.Expr {
		only := labels.MustNewMatcher(labels.MatchEqual, label, namespace)
		return series(r.Sources[0].Metric, slices.Concat([]*labels.Matcher{only}, r.Sources[0].Matchers.promql(), narrowed))
	}
	switch {
	case r.Sources[0].Form == PromQL:
		return query{Rule: r, source: r.Sources[0], namespaces: []string{namespace}}.promql().String()
	case r.Subject == Exported:
		return Or(within(namespaceLabel), within(exportedNamespaceLabel)).String()
	}
	return within(r.namespace()).String()
}

// MatcherOf translates one requirement of a Kubernetes selector. Values never reach a regular
// expression unquoted.
func MatcherOf(req k8slabels.Requirement) (*labels.Matcher, error) {
	key, values := req.Key(), slices.Sorted(slices.Values(req.ValuesUnsorted()))
	switch req.Operator() {
	case selection.Equals, selection.DoubleEquals:
		return labels.NewMatcher(labels.MatchEqual, key, values[0])
	case selection.NotEquals:
		return labels.NewMatcher(labels.MatchNotEqual, key, values[0])
	case selection.In:
		return labels.NewMatcher(labels.MatchRegexp, key, AnyOf(values))
	case selection.NotIn:
		return labels.NewMatcher(labels.MatchNotRegexp, key, AnyOf(values))
	case selection.Exists:
		return labels.NewMatcher(labels.MatchNotEqual, key, "")
	case selection.DoesNotExist:
		return labels.NewMatcher(labels.MatchEqual, key, "")
	}
	return nil, fmt.Errorf("operator %q has no equivalent in PromQL", req.Operator())
}

// AnyOf returns a regular expression that matches exactly the values.
func AnyOf(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = regexp.QuoteMeta(v)
	}
	return strings.Join(quoted, "|")
}

// seriesLabels adapts a series to a Kubernetes selector.
type seriesLabels struct {
	labels.Labels
	server string
}

func (s seriesLabels) Lookup(name string) (string, bool) {
	value := s.Get(name)
	return value, value != ""
}

func (s seriesLabels) Has(name string) bool { return s.Get(name) != "" }

func (s seriesLabels) Get(name string) string {
	if name == SourceLabel {
		return s.server
	}
	return s.Labels.Get(name)
}
