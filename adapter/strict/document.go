package strict

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

// MaxFileBytes bounds a configuration file. A ConfigMap holds 1 MiB.
const MaxFileBytes = 4 << 20

// Document is a YAML file with its lines.
type Document struct {
	Name string
	Root *yaml.Node // a mapping, or nil for an empty file
	// Second is the line of a second document, which is not read; 0 if there is none.
	Second int
}

// Parse reads the first document of a file.
func Parse(name string, raw []byte) (*Document, error) {
	d := &Document{Name: name}
	if len(raw) > MaxFileBytes {
		return nil, Problem{File: name, Err: fmt.Errorf("%d bytes; a configuration has at most %d", len(raw), MaxFileBytes)}
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
		d.Second = max(1, second.Line)
	}
	if len(first.Content) == 0 {
		return d, nil
	}
	root := Resolve(first.Content[0])
	switch {
	case Null(root):
		return d, nil
	case root.Kind != yaml.MappingNode:
		return nil, Problem{File: name, Line: root.Line, Err: errors.New("parsing configuration: the file is no mapping of fields to values")}
	}
	d.Root = root
	return d, nil
}

// Fields sets the fields of into, a pointer to a struct, from a mapping. Each
// field is read separately, so that each problem has its line. Fields in skip
// are ignored.
func (d *Document) Fields(n *yaml.Node, path string, into any, skip ...string) []Problem {
	n = Resolve(n)
	if Null(n) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		return []Problem{{File: d.Name, Line: Line(n), Path: path, Err: errors.New("is no mapping of fields to values")}}
	}
	var problems []Problem
	bad := func(at *yaml.Node, path string, err error) {
		problems = append(problems, Problem{File: d.Name, Line: at.Line, Path: path, Err: err})
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name := key.Value
		switch {
		case key.Tag == "!!merge": // its fields count where n has none
			var merged map[string]yaml.Node
			if err := n.Decode(&merged); err != nil {
				bad(key, path, err)
			}
			for name, value := range merged {
				if own, _ := Entry(n, name); own == nil && !slices.Contains(skip, name) {
					problems = append(problems, d.set(n, key, &value, path, name, into)...)
				}
			}
			continue
		case seen[name]:
			bad(key, Dotted(path, name), errors.New("is already set above"))
			continue
		case slices.Contains(skip, name):
			seen[name] = true
			continue
		}
		seen[name] = true
		problems = append(problems, d.set(n, key, value, path, name, into)...)
	}
	return problems
}

// set reads one field of the mapping n.
func (d *Document) set(n, key, value *yaml.Node, path, name string, into any) (problems []Problem) {
	for _, err := range setField(name, value, into) {
		at, field := key, name
		if m := unknownField.FindStringSubmatch(err.Error()); m != nil {
			field = m[1]
			if _, found, _ := Lookup(n, field); found != nil {
				at = found
			}
			err = fmt.Errorf("unknown field %q", field[strings.LastIndex(field, ".")+1:])
		}
		problems = append(problems, Problem{File: d.Name, Line: at.Line, Path: Dotted(path, field), Err: err})
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

// Resolve follows an alias.
func Resolve(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// Null reports whether a node has no value.
func Null(n *yaml.Node) bool {
	return n == nil || n.Kind == 0 || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// Line is a node's, 0 if there is none.
func Line(n *yaml.Node) int {
	if n == nil {
		return 0
	}
	return n.Line
}

// Entry returns a mapping's key and value nodes; nil if it has no such key.
func Entry(n *yaml.Node, name string) (key, value *yaml.Node) {
	n = Resolve(n)
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
