package compat

import (
	"errors"
	"fmt"

	yamlv2 "go.yaml.in/yaml/v2"
	"go.yaml.in/yaml/v3"

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
	var all []strict.Problem
	for _, p := range f.Problems {
		all = append(all, p.Problem)
	}
	return strict.Join(all)
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

// Parse reads a file; name is for its problems. An error means that nothing of
// it can be used; the problems of single rules are in File.Problems. Like v0.12.0 it
// reads the first document only.
func Parse(name string, raw []byte) (*File, error) {
	d, err := strict.Parse(name, raw)
	if err != nil {
		// The older library, v0.12.0's, reports the line; the newer one reports the
		// line where the list begins.
		var ignored any
		if older := yamlv2.Unmarshal(raw, &ignored); older != nil && len(raw) <= strict.MaxFileBytes {
			err = fmt.Errorf("%s: no YAML: %w (put text that contains double quotes in single quotes)", name, older)
		}
		return nil, err
	}
	f := &File{Name: name}
	var rest struct {
		ResourceRules *rawResourceRules `json:"resourceRules"`
	}
	f.add("", d.Fields(d.Root, "", &rest, "rules", "externalRules")...)
	_, theirs := strict.Entry(d.Root, "resourceRules")
	f.ResourceRules = !strict.Null(strict.Resolve(theirs))
	f.Custom = f.rules(d, "rules", false)
	f.External = f.rules(d, "externalRules", true)
	return f, nil
}

func (f *File) add(rule string, problems ...strict.Problem) {
	for _, p := range problems {
		f.Problems = append(f.Problems, Problem{p, rule})
	}
}

// rules reads a list of rules, each on its own.
func (f *File) rules(d *strict.Document, path string, external bool) []*Rule {
	_, list := strict.Entry(d.Root, path)
	list = strict.Resolve(list)
	switch {
	case strict.Null(list):
		return nil
	case list.Kind != yaml.SequenceNode:
		f.add("", strict.Problem{File: f.Name, Line: list.Line, Path: path, Err: errors.New("is no list of rules")})
		return nil
	}
	var good []*Rule
	for i, item := range list.Content {
		item = strict.Resolve(item)
		at := fmt.Sprintf("%s[%d]", path, i)
		var raw rawRule
		problems := append(misplaced(d, item, at), d.Fields(item, at, &raw)...)
		if len(problems) == 0 {
			r, wrong := compile(at, raw, external)
			r.File, r.Line = f.Name, item.Line
			for _, w := range wrong {
				line := item.Line
				if _, found, _ := strict.Lookup(item, w.field); found != nil {
					line = found.Line
				}
				problems = append(problems, strict.Problem{File: f.Name, Line: line, Path: strict.Dotted(at, w.field), Err: w.err})
			}
			if len(wrong) == 0 {
				good = append(good, r)
			}
		}
		f.add(at, problems...)
	}
	return good
}

// misplaced reports a mistake of a published guide, with which v0.12.0 does not start.
func misplaced(d *strict.Document, rule *yaml.Node, path string) []strict.Problem {
	_, resources := strict.Entry(rule, "resources")
	_, overrides := strict.Entry(resources, "overrides")
	key, value := strict.Entry(overrides, "namespaced")
	if key == nil || strict.Resolve(value).Kind != yaml.ScalarNode {
		return nil
	}
	return []strict.Problem{{File: d.Name, Line: key.Line, Path: path + ".resources.overrides.namespaced", Err: errors.New("is in overrides; move it up, into resources")}}
}
