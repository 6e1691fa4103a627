package strict

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
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
	case err != nil && bytes.Contains(raw, []byte("\n\t")):
		return nil, Problem{File: name, Err: fmt.Errorf("parsing configuration: %w; a line begins with a tab, and YAML is indented by spaces", err)}
	case err != nil:
		return nil, Problem{File: name, Err: fmt.Errorf("parsing configuration: %w", err)}
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		d.Second = max(1, second.Line)
	}
	dates(&first)
	var root *yaml.Node
	if len(first.Content) > 0 {
		root = Resolve(first.Content[0])
	}
	switch {
	case Null(root):
	case root.Kind != yaml.MappingNode:
		return nil, Problem{File: name, Line: root.Line, Err: errors.New("parsing configuration: the file is not a mapping of fields to values")}
	default:
		d.Root = root
	}
	return d, nil
}

// dates turns YAML's dates into text: no field is a date.
func dates(n *yaml.Node) {
	if n.ShortTag() == "!!timestamp" {
		n.Tag = "!!str"
	}
	for _, below := range n.Content {
		dates(below)
	}
}

// Read reads a file of one document over the values of into, and checks them. The error joins
// all problems, without those of check about a field that could not be read.
func Read(name string, raw []byte, into any, check func() error) error {
	d, err := Parse(name, raw)
	if err == nil {
		err = d.Alone()
	}
	if err != nil {
		return err
	}
	return Join(d.With(d.Fields(d.Root, "", into), check()))
}

// Alone returns an error if there is a second document.
func (d *Document) Alone() error {
	if d.Second == 0 {
		return nil
	}
	return Problem{File: d.Name, Line: d.Second, Err: errors.New("parsing configuration: more than one document; keep the first and remove the others")}
}

// Fields sets the fields of into, a pointer to a struct, from a mapping. Each
// field is read separately, so that each problem has its line. Fields in skip
// are ignored.
func (d *Document) Fields(n *yaml.Node, path string, into any, skip ...string) (problems []Problem) {
	n = Resolve(n)
	if Null(n) {
		return nil
	}
	bad := func(at *yaml.Node, path string, err error) {
		problems = append(problems, Problem{File: d.Name, Line: at.Line, Path: path, Err: err})
	}
	if n.Kind != yaml.MappingNode {
		bad(n, path, errors.New("is not a mapping of fields to values"))
		return problems
	}
	fields := named(into)
	set := func(key, value *yaml.Node, name string) {
		at := dotted(path, cmp.Or(name, `""`))
		switch f, known := fields[name]; {
		case slices.Contains(skip, name):
		case !known:
			bad(key, at, fmt.Errorf("unknown field %q%s", name, strangers[at]))
		default:
			problems = append(problems, d.value(key, value, at, f)...)
		}
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Tag == "!!merge": // its fields count if n does not have them
			var merged map[string]yaml.Node
			if err := n.Decode(&merged); err != nil {
				bad(key, dotted(path, key.Value), err)
			}
			for name, value := range merged {
				if own, _ := Entry(n, name); own == nil {
					set(key, &value, name)
				}
			}
		case seen[key.Value]:
			bad(key, dotted(path, key.Value), errors.New("is already set above"))
		default:
			seen[key.Value] = true
			set(key, value, key.Value)
		}
	}
	return problems
}

// strangers are other programs' files that users give instead of ours, by a top-level
// field.
var strangers = map[string]string{
	"scrape_configs": ": this is the configuration of a Prometheus server; what is to be given here is ours, which names that server's url",
	"apiVersion":     ": this is a Kubernetes manifest; a configuration is the text under its data",
}

// named returns the fields of a struct by their JSON names, those of embedded ones included.
func named(into any) map[string]reflect.Value {
	v, all := reflect.Indirect(reflect.ValueOf(into)), map[string]reflect.Value{}
	for _, f := range reflect.VisibleFields(v.Type()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			all[name] = v.FieldByIndex(f.Index)
		}
	}
	return all
}

// value sets one field or element; at is its key. Structs, maps and lists are read part by
// part. The rest is read through JSON, and so are types with a JSON notation of their own.
func (d *Document) value(at, n *yaml.Node, path string, to reflect.Value) (problems []Problem) {
	n = Resolve(n)
	is := to.Type()
	if is.Kind() == reflect.Pointer {
		is = is.Elem()
	}
	kind := is.Kind()
	if reflect.PointerTo(is).Implements(reflect.TypeFor[json.Unmarshaler]()) || kind != reflect.Struct && kind != reflect.Bool && is != to.Type() {
		kind = reflect.Invalid // as a whole
	}
	var items map[string]yaml.Node
	switch {
	case kind == reflect.Slice && n.Kind == yaml.SequenceNode:
		to.Set(reflect.MakeSlice(is, len(n.Content), len(n.Content)))
		for i, item := range n.Content {
			problems = append(problems, d.value(item, item, fmt.Sprintf("%s[%d]", path, i), to.Index(i))...)
		}
		return problems
	case kind == reflect.Map && n.Kind == yaml.MappingNode && n.Decode(&items) == nil:
		to.Set(reflect.MakeMap(is))
		for _, name := range slices.Sorted(maps.Keys(items)) {
			key, _ := Entry(n, name) // nil if it is merged
			value, item := items[name], reflect.New(is.Elem()).Elem()
			problems = append(problems, d.value(cmp.Or(key, at), &value, dotted(path, name), item)...)
			to.SetMapIndex(reflect.ValueOf(name).Convert(is.Key()), item)
		}
		return problems
	case kind == reflect.Struct && n.Kind == yaml.MappingNode:
		if to.Kind() == reflect.Struct {
			to = to.Addr()
		} else if to.IsNil() {
			to.Set(reflect.New(is))
		}
		return d.Fields(n, path, to.Interface())
	}
	if kind == reflect.Bool && n.Decode(to.Addr().Interface()) == nil {
		return nil // YAML 1.1's yes and no, too
	}
	into := to.Addr().Interface()
	if d, ok := into.(*time.Duration); ok {
		into = (*duration)(d)
	}
	var read any
	err := n.Decode(&read)
	raw, odd := json.Marshal(read)
	if err = cmp.Or(err, odd); err == nil {
		j := json.NewDecoder(bytes.NewReader(raw))
		j.DisallowUnknownFields()
		err = j.Decode(into)
	}
	var mistyped *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*json.UnsupportedValueError)):
		err = errors.New("is not a finite number")
	case errors.As(err, &mistyped):
		err = fmt.Errorf("is %s, not %s", cmp.Or(found[mistyped.Value], mistyped.Value), cmp.Or(wanted[mistyped.Type.Kind()], "a whole number"))
	}
	// Lines in messages of Prometheus' libraries are not the file's, and the messages repeat values that
	// may be secret.
	for line := range strings.Lines(strings.TrimPrefix(err.Error(), "yaml: unmarshal errors:\n")) {
		line = otherLine.ReplaceAllString(strings.TrimSpace(line), "")
		p := Problem{d.Name, at.Line, path, Example(errors.New(secret.ReplaceAllString(line, "…")))}
		if m := unknownField.FindStringSubmatch(line); m != nil {
			p.Err = fmt.Errorf("unknown field %q", m[1])
			if key, where := search(n, path, m[1]); key != nil {
				p.Line, p.Path = key.Line, where
			}
		}
		problems = append(problems, p)
	}
	return problems
}

// duration is read from text such as "5s".
type duration time.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (d *duration) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return err
	}
	read, err := time.ParseDuration(text)
	if err == nil { // else the field keeps its default
		*d = duration(read)
	}
	return err
}

var (
	otherLine    = regexp.MustCompile(`^line \d+: `)
	unknownField = regexp.MustCompile(`field "?([^\s"]*)"?( not found in type.*)?$`)
	// secret is a value that a message repeats, or the name and password in a URL.
	secret = regexp.MustCompile("`[^`]*`|//[^/@\"]*@")
)

// search returns the first key of a name in or below a node, and its path.
func search(n *yaml.Node, path, name string) (*yaml.Node, string) {
	if key, _ := Entry(n, name); key != nil {
		return key, dotted(path, name)
	}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if key, where := search(Resolve(n.Content[i+1]), dotted(path, n.Content[i].Value), name); key != nil {
			return key, where
		}
	}
	return nil, ""
}

// found names JSON's types, with an article, and wanted Go's. Types that are in neither are
// whole numbers.
var (
	found  = map[string]string{"bool": "true or false", "array": "a list", "object": "a mapping", "string": "text", "number": "a number"}
	wanted = map[reflect.Kind]string{
		reflect.String: "text or a duration such as 5s", reflect.Slice: "a list", reflect.Map: "a mapping", reflect.Struct: "a mapping", reflect.Bool: "true or false", reflect.Float64: "a number",
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
		return nil, []Problem{{File: d.Name, Line: n.Line, Path: field, Err: errors.New("is not a list")}}
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
