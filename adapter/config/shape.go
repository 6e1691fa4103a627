package config

import (
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/gpuscale/gpuscale/adapter/strict"
)

// theirFields are the top-level fields of prometheus-adapter's configuration.
var theirFields = []string{"rules", "externalRules", "resourceRules"}

// theirs reports whether the file is in prometheus-adapter's own format: each of
// its rules has a seriesQuery.
func (d document) theirs() bool {
	for _, field := range theirFields[1:] {
		if key, _ := strict.Entry(d.Root, field); key != nil {
			return true
		}
	}
	_, rules := strict.Entry(d.Root, "rules")
	list := strict.Resolve(rules)
	return list != nil && list.Kind == yaml.SequenceNode && slices.ContainsFunc(list.Content, func(item *yaml.Node) bool {
		key, _ := strict.Entry(item, "seriesQuery")
		return key != nil
	})
}

// foreign returns an error for files that contain prometheus-adapter's
// configuration without being it: its ConfigMap and its chart's values.
func (d document) foreign() error {
	kind, what := strict.Entry(d.Root, "kind")
	if version, _ := strict.Entry(d.Root, "apiVersion"); kind != nil && version != nil {
		return strict.Problem{File: d.Name, Line: kind.Line, Path: "kind", Err: fmt.Errorf("this is a Kubernetes manifest of a %s; a configuration is the text under its data: mount it, and name the file", what.Value)}
	}
	_, rules := strict.Entry(d.Root, "rules")
	for _, field := range []string{"default", "custom", "external", "resource"} {
		if key, _ := strict.Entry(rules, field); key != nil {
			return strict.Problem{File: d.Name, Line: key.Line, Path: "rules." + field, Err: errors.New("these are values of prometheus-adapter's chart; a configuration is the config.yaml in the ConfigMap that it makes of them")}
		}
	}
	return nil
}

// mixed returns a problem for each field of this program in a file of
// prometheus-adapter's format.
func (d document) mixed() (problems []strict.Problem) {
	for i := 0; i+1 < len(d.Root.Content); i += 2 {
		if key := d.Root.Content[i]; !slices.Contains(theirFields, key.Value) {
			problems = append(problems, strict.Problem{
				File: d.Name, Line: key.Line, Path: key.Value,
				Err: errors.New("the rules here are in prometheus-adapter's format (seriesQuery); name this file in prometheusAdapter.configFile of another one"),
			})
		}
	}
	return problems
}
