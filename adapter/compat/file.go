package compat

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
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
	File string
	Line int
	// Rule is "rules[3]" or "externalRules[0]"; "" for the file itself.
	Rule string
	// Field is the path within the file, "rules[3].name.matches".
	Field string
	Err   error
}

func (p Problem) Error() string {
	return fmt.Sprintf("%s:%d: %s: %v", p.File, p.Line, p.Field, p.Err)
}

// Unwrap returns the cause.
func (p Problem) Unwrap() error { return p.Err }

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
	SeriesQuery   string       `yaml:"seriesQuery"`
	SeriesFilters []rawFilter  `yaml:"seriesFilters"`
	Resources     rawResources `yaml:"resources"`
	Name          rawName      `yaml:"name"`
	MetricsQuery  string       `yaml:"metricsQuery"`
}

type rawFilter struct {
	Is    string `yaml:"is"`
	IsNot string `yaml:"isNot"`
}

type rawResources struct {
	Template   string                      `yaml:"template"`
	Overrides  map[string]rawGroupResource `yaml:"overrides"`
	Namespaced *bool                       `yaml:"namespaced"`
}

type rawGroupResource struct {
	Group    string `yaml:"group"`
	Resource string `yaml:"resource"`
}

type rawName struct {
	Matches string `yaml:"matches"`
	As      string `yaml:"as"`
}

// shape is the schema of a part of the file: a mapping with named fields, a
// mapping with free keys, a list, or a scalar if all are nil.
type shape struct {
	fields map[string]*shape
	values *shape
	items  *shape
}

var (
	scalar         = &shape{}
	overridesShape = &shape{values: &shape{fields: map[string]*shape{"group": scalar, "resource": scalar}}}
	resourcesShape = &shape{fields: map[string]*shape{
		"template": scalar, "namespaced": scalar, "overrides": overridesShape,
	}}
	rulesShape = &shape{items: &shape{fields: map[string]*shape{
		"seriesQuery": scalar, "metricsQuery": scalar, "resources": resourcesShape,
		"seriesFilters": {items: &shape{fields: map[string]*shape{"is": scalar, "isNot": scalar}}},
		"name":          {fields: map[string]*shape{"matches": scalar, "as": scalar}},
	}}}
	resourceRuleShape = &shape{fields: map[string]*shape{
		"containerQuery": scalar, "nodeQuery": scalar, "containerLabel": scalar, "resources": resourcesShape,
	}}
	fileShape = &shape{fields: map[string]*shape{
		"rules": rulesShape, "externalRules": rulesShape,
		"resourceRules": {fields: map[string]*shape{"cpu": resourceRuleShape, "memory": resourceRuleShape, "window": scalar}},
	}}
)
