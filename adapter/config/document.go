package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
)

// maxFileBytes bounds a configuration file. A ConfigMap holds 1 MiB.
const maxFileBytes = 4 << 20

// document is a YAML file with its lines.
type document struct {
	name string
	root *yaml.Node // a mapping, or nil for an empty file
}

func parse(name string, raw []byte) (*document, error) {
	d := &document{name: name}
	if len(raw) > maxFileBytes {
		return nil, Problem{File: name, Err: fmt.Errorf("%d bytes; a configuration has at most %d", len(raw), maxFileBytes)}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	var first, second yaml.Node
	switch err := decoder.Decode(&first); {
	case errors.Is(err, io.EOF):
		return d, nil
	case err != nil:
		return nil, Problem{File: name, Err: fmt.Errorf("parsing configuration: %w", err)}
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, Problem{File: name, Line: second.Line, Err: errors.New("parsing configuration: more than one document; keep the first and remove the others")}
	}
	if len(first.Content) == 0 {
		return d, nil
	}
	root := resolve(first.Content[0])
	switch {
	case null(root):
		return d, nil
	case root.Kind != yaml.MappingNode:
		return nil, Problem{File: name, Line: root.Line, Err: errors.New("parsing configuration: the file is no mapping of fields to values")}
	}
	d.root = root
	return d, nil
}

// fields sets the fields of into, a pointer to a struct, from a mapping. Each
// field is read separately, so that each problem has its line. Fields in skip
// are ignored.
func (d *document) fields(n *yaml.Node, path string, into any, skip ...string) []Problem {
	n = resolve(n)
	if null(n) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		return []Problem{{File: d.name, Line: line(n), Path: path, Err: errors.New("is no mapping of fields to values")}}
	}
	var problems []Problem
	bad := func(at *yaml.Node, path string, err error) {
		problems = append(problems, Problem{File: d.name, Line: at.Line, Path: path, Err: err})
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name := key.Value
		switch {
		case seen[name]:
			bad(key, dotted(path, name), errors.New("is already set above"))
			continue
		case slices.Contains(skip, name):
			seen[name] = true
			continue
		}
		seen[name] = true
		for _, err := range setField(name, value, into) {
			at := key
			field := name
			if m := unknownField.FindStringSubmatch(err.Error()); m != nil {
				field = m[1]
				if _, found, _ := lookup(n, field); found != nil {
					at = found
				}
				err = fmt.Errorf("unknown field %q", field[strings.LastIndex(field, ".")+1:])
			}
			bad(at, dotted(path, field), err)
		}
	}
	return problems
}

var unknownField = regexp.MustCompile(`unknown field "(.*)"`)

// setField sets one field through JSON, since the types have JSON tags.
func setField(name string, value *yaml.Node, into any) []error {
	var plain any
	if err := value.Decode(&plain); err != nil {
		return []error{err}
	}
	raw, err := json.Marshal(map[string]any{name: plain})
	if err != nil {
		return []error{fmt.Errorf("cannot be read: %w", err)}
	}
	strict, err := kjson.UnmarshalStrict(raw, into)
	var mistyped *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mistyped) && mistyped.Field != "":
		// The library's message names Go types, and its path embedded ones.
		path := slices.DeleteFunc(strings.Split(mistyped.Field, "."), func(part string) bool {
			return part == name || part != "" && part[0] >= 'A' && part[0] <= 'Z'
		})
		below := strings.Join(path, ".")
		if below != "" {
			below += ": "
		}
		return []error{fmt.Errorf("%sis %s, not %s", below, found(mistyped.Value), wanted(mistyped.Type.Kind()))}
	case err != nil:
		return []error{err}
	}
	return strict
}

// found names a JSON type, with article.
func found(kind string) string {
	switch kind {
	case "bool":
		return "true or false"
	case "array":
		return "a list"
	case "object":
		return "a mapping"
	case "string":
		return "text"
	}
	return "a number"
}

func wanted(k reflect.Kind) string {
	switch k {
	case reflect.String:
		return "text or a duration such as 5s"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "a mapping"
	case reflect.Bool:
		return "true or false"
	}
	return "a number"
}

func resolve(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func null(n *yaml.Node) bool {
	return n == nil || n.Kind == 0 || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

func line(n *yaml.Node) int {
	if n == nil {
		return 0
	}
	return n.Line
}

// entry returns a mapping's key and value nodes; nil if it has no such key.
func entry(n *yaml.Node, name string) (key, value *yaml.Node) {
	n = resolve(n)
	if n == nil || n.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}
