package compat

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	yamlv2 "go.yaml.in/yaml/v2"
	"go.yaml.in/yaml/v3"
)

// MaxFileBytes bounds a configuration file: four times a ConfigMap's limit.
const MaxFileBytes = 4 << 20

// Parse reads a file; name is for its problems. An error means that nothing of
// it can be used; the problems of single rules are in File.Problems.
func Parse(name string, raw []byte) (*File, error) {
	if len(raw) > MaxFileBytes {
		return nil, fmt.Errorf("%s: %d bytes; a configuration has at most %d", name, len(raw), MaxFileBytes)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		// The older library, v0.12.0's, reports the line; this one reports the
		// line where the list begins.
		var ignored any
		if older := yamlv2.Unmarshal(raw, &ignored); older != nil {
			err = older
		}
		return nil, fmt.Errorf("%s: no YAML: %w (put text that contains double quotes in single quotes)", name, err)
	}
	f := &File{Name: name}
	if len(doc.Content) == 0 {
		return f, nil
	}
	root := resolve(doc.Content[0])
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return f, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: the file is no mapping with rules, externalRules or resourceRules", name, root.Line)
	}
	check := checker{file: name}
	check.keys(root, "", fileShape)
	for key, value := range pairs(root) {
		switch key.Value {
		case "rules":
			f.Custom = f.rules(&check, value, "rules", false)
		case "externalRules":
			f.External = f.rules(&check, value, "externalRules", true)
		case "resourceRules":
			f.ResourceRules = resolve(value).Tag != "!!null"
			check.node(value, "resourceRules", fileShape.fields["resourceRules"])
		}
	}
	f.Problems = append(f.Problems, check.problems...)
	return f, nil
}

// rules reads a list of rules, each on its own.
func (f *File) rules(file *checker, list *yaml.Node, path string, external bool) []*Rule {
	list = resolve(list)
	if list.Tag == "!!null" {
		return nil
	}
	if list.Kind != yaml.SequenceNode {
		file.bad(list, path, "is no list of rules")
		return nil
	}
	var good []*Rule
	for i, item := range list.Content {
		item = resolve(item)
		at := fmt.Sprintf("%s[%d]", path, i)
		check := checker{file: f.Name, rule: at}
		var raw rawRule
		if check.node(item, at, rulesShape.items); len(check.problems) == 0 {
			if err := item.Decode(&raw); err != nil {
				check.bad(item, at, "%v", plain(err))
			}
		}
		if len(check.problems) == 0 {
			r, wrong := compile(at, raw, external)
			r.File, r.Line = f.Name, item.Line
			for _, w := range wrong {
				check.bad(find(item, strings.Split(w.field, ".")), at+"."+w.field, "%w", w.err)
			}
			if len(wrong) == 0 {
				good = append(good, r)
			}
		}
		f.Problems = append(f.Problems, check.problems...)
	}
	return good
}

// plain unwraps the library's list of errors. Lines are added here.
func plain(err error) error {
	var typed *yaml.TypeError
	if errors.As(err, &typed) {
		return errors.New(strings.Join(typed.Errors, "; "))
	}
	return err
}

// checker compares nodes with their shapes.
type checker struct {
	file, rule string
	problems   []Problem
}

func (c *checker) bad(n *yaml.Node, path, format string, args ...any) {
	c.problems = append(c.problems, Problem{File: c.file, Line: n.Line, Rule: c.rule, Field: path, Err: fmt.Errorf(format, args...)})
}

func (c *checker) node(n *yaml.Node, path string, s *shape) {
	n = resolve(n)
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
	case s.fields != nil:
		if n.Kind != yaml.MappingNode {
			c.bad(n, path, "is no mapping with the fields %s", names(s.fields))
			return
		}
		c.keys(n, path, s)
		for key, value := range pairs(n) {
			if inner, ok := s.fields[key.Value]; ok {
				c.node(value, join(path, key.Value), inner)
			}
		}
	case s.values != nil:
		if n.Kind != yaml.MappingNode {
			c.bad(n, path, "is no mapping")
			return
		}
		c.keys(n, path, s)
		for key, value := range pairs(n) {
			if s == overridesShape && key.Value == "namespaced" && resolve(value).Tag == "!!bool" {
				// A published guide has this mistake; v0.12.0 does not start with it.
				c.bad(key, join(path, key.Value), "is in overrides; move it up, into resources")
				continue
			}
			c.node(value, join(path, key.Value), s.values)
		}
	case s.items != nil:
		if n.Kind != yaml.SequenceNode {
			c.bad(n, path, "is no list")
			return
		}
		for i, item := range n.Content {
			c.node(item, fmt.Sprintf("%s[%d]", path, i), s.items)
		}
	case n.Kind != yaml.ScalarNode:
		c.bad(n, path, "is no plain value")
	}
}

// keys reports fields that are unknown or there twice.
func (c *checker) keys(n *yaml.Node, path string, s *shape) {
	seen := map[string]bool{}
	for key := range pairs(n) {
		if _, known := s.fields[key.Value]; s.fields != nil && !known {
			c.bad(key, join(path, key.Value), "no such field; there are %s", names(s.fields))
		}
		if seen[key.Value] {
			c.bad(key, join(path, key.Value), "is there twice")
		}
		seen[key.Value] = true
	}
}

func join(path, field string) string {
	if path == "" {
		return field
	}
	return path + "." + field
}

func names(fields map[string]*shape) string {
	var all []string
	for name := range fields {
		all = append(all, name)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
