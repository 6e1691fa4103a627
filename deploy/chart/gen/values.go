package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// value is a key of values.yaml with what its comment says of it.
type value struct {
	path     string // "adapter.pdb.enabled"
	key      string
	help     string
	node     *yaml.Node // its default
	children []value    // of an object whose fields are known

	free     bool   // an object that Kubernetes checks, not we
	items    string // of a list: string or object
	enum     []string
	min, max *int
	pattern  string
	or       string // other types that are taken, with bars between
}

// parseValues reads values.yaml. All problems are returned, each with its key.
func parseValues(text []byte) ([]value, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("want an object")
	}
	return parseObject("", doc.Content[0])
}

func parseObject(path string, n *yaml.Node) ([]value, error) {
	var out []value
	var errs []error
	for i := 0; i+1 < len(n.Content); i += 2 {
		v, err := parseValue(path, n.Content[i], n.Content[i+1])
		if err != nil {
			errs = append(errs, err)
		}
		out = append(out, v)
	}
	return out, errors.Join(errs...)
}

func parseValue(parent string, key, node *yaml.Node) (value, error) {
	v := value{path: strings.TrimPrefix(parent+"."+key.Value, "."), key: key.Value, node: node}
	var help []string
	// A comment that a blank line parts from the key is about the file.
	comment := key.HeadComment
	if i := strings.LastIndex(comment, "\n\n"); i >= 0 {
		comment = comment[i+2:]
	}
	for line := range strings.Lines(comment) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#"))
		if !strings.HasPrefix(line, "@") {
			help = append(help, line)
			continue
		}
		if err := v.note(line); err != nil {
			return v, fmt.Errorf("%s: %w", v.path, err)
		}
	}
	v.help = strings.Join(help, " ")
	switch {
	case node.Kind == yaml.SequenceNode && v.items == "":
		return v, fmt.Errorf("%s: a list: say # @items string or object", v.path)
	case node.Kind == yaml.MappingNode && !v.free:
		if len(node.Content) == 0 {
			return v, fmt.Errorf("%s: an empty object: say # @free, or which fields it has", v.path)
		}
		var err error
		v.children, err = parseObject(v.path, node)
		return v, err
	case node.Kind == yaml.ScalarNode && node.Tag == "!!null":
		return v, fmt.Errorf("%s: null has no type: give a default", v.path)
	case node.Kind == yaml.AliasNode:
		return v, fmt.Errorf("%s: an alias: write it out", v.path)
	}
	return v, nil
}

// note reads a line that begins with @.
func (v *value) note(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	number := func(into **int) error {
		n, err := strconv.Atoi(rest)
		*into = &n
		return err
	}
	switch word {
	case "@free":
		v.free = true
	case "@items":
		if rest != "string" && rest != "object" {
			return fmt.Errorf("%s: want @items string or @items object", line)
		}
		v.items = rest
	case "@enum":
		v.enum = strings.Split(rest, "|")
	case "@min":
		return number(&v.min)
	case "@max":
		return number(&v.max)
	case "@or":
		v.or = rest
	case "@pattern":
		v.pattern = rest
	default:
		return fmt.Errorf("%s: want @free, @items, @enum, @min, @max, @or or @pattern", line)
	}
	return nil
}
