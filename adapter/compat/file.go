package compat

import (
	"errors"
	"fmt"
	"slices"

	yamlv2 "go.yaml.in/yaml/v2"
	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/prometheus-adapter/pkg/config"

	"github.com/gpuscale/gpuscale/internal/strict"
)

// File is a prometheus-adapter configuration.
type File struct {
	Name string
	// Rules are the custom ones, then the external ones.
	Rules []*Rule
	// ResourceRules: the file has them. They are not read: they are for metrics.k8s.io.
	ResourceRules bool
	// Problems of the file itself.
	Problems []strict.Problem
}

// Err joins the problems in order of their lines; nil if there is none.
func (f *File) Err() error { return strict.Join(f.problems()) }

func (f *File) problems() []strict.Problem {
	all := slices.Clone(f.Problems)
	for _, r := range f.Rules {
		all = append(all, r.Problems...)
	}
	return all
}

// good are the rules without problems.
func (f *File) good() []*Rule {
	return slices.DeleteFunc(slices.Clone(f.Rules), func(r *Rule) bool { return len(r.Problems) > 0 })
}

// Parse reads a file; name is for its problems. An error means that nothing of
// it can be used. Like v0.12.0 it reads the first document only.
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
	f.Problems = d.Fields(d.Root, "", &struct{}{}, "rules", "externalRules", "resourceRules")
	_, theirs := strict.Entry(d.Root, "resourceRules")
	f.ResourceRules = !strict.Null(strict.Resolve(theirs))
	f.read(d, "rules", false)
	f.read(d, "externalRules", true)
	return f, nil
}

// read reads a list of rules, each on its own.
func (f *File) read(d *strict.Document, field string, external bool) {
	list, problems := d.List(field)
	f.Problems = append(f.Problems, problems...)
	for i, item := range list {
		at := fmt.Sprintf("%s[%d]", field, i)
		var raw config.DiscoveryRule
		problems := append(misplaced(d, item, at), d.Fields(item, at, &raw)...)
		r, err := compile(raw, external)
		if len(problems) == 0 {
			problems = d.Problems(strict.Resolve(item), at, err)
		}
		r.ID, r.File, r.Line, r.Problems = at, f.Name, item.Line, problems
		f.Rules = append(f.Rules, r)
	}
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
