package compat

import (
	"cmp"
	"errors"
	"slices"

	"github.com/gpuscale/gpuscale/adapter/strict"
)

// File is a prometheus-adapter configuration. A rule with a problem is left out
// of Custom or External.
type File struct {
	Name     string
	Custom   []*Rule
	External []*Rule
	// ResourceRules: the file has them. They are checked and not served, since
	// they are for metrics.k8s.io.
	ResourceRules bool
	Problems      []Problem
}

// Problem of one field of the file.
type Problem struct {
	strict.Problem
	// Rule is "rules[3]" or "externalRules[0]"; "" for the file itself.
	Rule string
}

// Err joins the problems in order of their lines; nil if there is none.
func (f *File) Err() error {
	slices.SortStableFunc(f.Problems, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	errs := make([]error, len(f.Problems))
	for i, p := range f.Problems {
		errs[i] = p
	}
	return errors.Join(errs...)
}

// rule is one entry of rules or externalRules, as written.
type rawRule struct {
	SeriesQuery   string       `json:"seriesQuery"`
	SeriesFilters []rawFilter  `json:"seriesFilters"`
	Resources     rawResources `json:"resources"`
	Name          rawName      `json:"name"`
	MetricsQuery  string       `json:"metricsQuery"`
}

type rawFilter struct {
	Is    string `json:"is"`
	IsNot string `json:"isNot"`
}

type rawResources struct {
	Template   string                      `json:"template"`
	Overrides  map[string]rawGroupResource `json:"overrides"`
	Namespaced *bool                       `json:"namespaced"`
}

type rawGroupResource struct {
	Group    string `json:"group"`
	Resource string `json:"resource"`
}

type rawName struct {
	Matches string `json:"matches"`
	As      string `json:"as"`
}

// rawResourceRules are checked and not served.
type rawResourceRules struct {
	CPU    rawResourceRule `json:"cpu"`
	Memory rawResourceRule `json:"memory"`
	Window string          `json:"window"`
}

type rawResourceRule struct {
	ContainerQuery string       `json:"containerQuery"`
	NodeQuery      string       `json:"nodeQuery"`
	ContainerLabel string       `json:"containerLabel"`
	Resources      rawResources `json:"resources"`
}
