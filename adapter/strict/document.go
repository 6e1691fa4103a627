package strict

import (
	"bytes"
	"cmp"
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
		return []Problem{{File: d.Name, Line: n.Line, Path: path, Err: errors.New("is no mapping of fields to values")}}
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
				bad(key, Dotted(path, key.Value), err)
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

// set reads one field of the mapping n through JSON, since the types have JSON tags.
func (d *Document) set(n, key, value *yaml.Node, path, name string, into any) (problems []Problem) {
	bad := func(at *yaml.Node, field string, err error) {
		problems = append(problems, Problem{File: d.Name, Line: at.Line, Path: Dotted(path, field), Err: err})
	}
	var plain any
	if err := value.Decode(&plain); err != nil {
		bad(key, name, err)
		return problems
	}
	raw, err := json.Marshal(map[string]any{name: plain})
	if err != nil {
		bad(key, name, fmt.Errorf("cannot be read: %w", err))
		return problems
	}
	unknown, err := kjson.UnmarshalStrict(raw, into)
	var mistyped *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mistyped) && mistyped.Field != "":
		// The library's message names Go types, and its path embedded ones.
		below := slices.DeleteFunc(strings.Split(mistyped.Field, "."), func(part string) bool {
			return part == name || part != "" && part[0] >= 'A' && part[0] <= 'Z'
		})
		err = fmt.Errorf("is %s, not %s", cmp.Or(found[mistyped.Value], "a number"), cmp.Or(wanted[mistyped.Type.Kind()], "a number"))
		if len(below) > 0 {
			err = fmt.Errorf("%s: %w", strings.Join(below, "."), err)
		}
		bad(key, name, err)
	case err != nil:
		bad(key, name, err)
	}
	for _, err := range unknown {
		at, field := key, name
		if m := unknownField.FindStringSubmatch(err.Error()); m != nil {
			field = m[1]
			if _, node, _ := Lookup(n, field); node != nil {
				at = node
			}
			err = fmt.Errorf("unknown field %q", field[strings.LastIndex(field, ".")+1:])
			field = cmp.Or(field, `""`)
		}
		bad(at, field, err)
	}
	return problems
}

var unknownField = regexp.MustCompile(`unknown field "(.*)"`)

// found names JSON's types, with article, and wanted Go's; others are a number.
var (
	found  = map[string]string{"bool": "true or false", "array": "a list", "object": "a mapping", "string": "text"}
	wanted = map[reflect.Kind]string{
		reflect.String: "text or a duration such as 5s", reflect.Slice: "a list", reflect.Map: "a mapping", reflect.Struct: "a mapping", reflect.Bool: "true or false",
	}
)

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

// List returns the elements of a top-level field that is a list; none if there is no such field.
func (d *Document) List(field string) ([]*yaml.Node, []Problem) {
	_, n := Entry(d.Root, field)
	switch n = Resolve(n); {
	case Null(n):
		return nil, nil
	case n.Kind != yaml.SequenceNode:
		return nil, []Problem{{File: d.Name, Line: n.Line, Path: field, Err: errors.New("is no list")}}
	}
	return n.Content, nil
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
