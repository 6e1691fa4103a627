package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Strict reads a YAML file over the values of into. All unknown fields are errors, by their
// paths, and so is a value of another type.
func Strict(text []byte, into any) error {
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		var all map[string]any
		if errors.As(err, new(*json.UnsupportedValueError)) && yamlv3.Unmarshal(text, &all) == nil {
			err = fmt.Errorf("%s: want a finite number", refused(all, reflect.TypeOf(into).Elem()))
		}
		return err
	}
	unknown, err := kjson.UnmarshalStrict(asJSON, into)
	var mistyped *json.UnmarshalTypeError
	if errors.As(err, &mistyped) && mistyped.Field != "" { // the library's message names Go types
		err = fmt.Errorf("%s: is a %s, want %s", mistyped.Field, mistyped.Value, mistyped.Type)
	} else if err != nil {
		var all map[string]any
		if json.Unmarshal(asJSON, &all) == nil {
			if path := refused(all, reflect.TypeOf(into).Elem()); path != "" {
				err = fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	return errors.Join(append(unknown, err)...)
}

// refused returns the path of a field that a type does not take alone; empty for none. A
// field's own reader, as that of durations, names no field in its errors.
func refused(all map[string]any, as reflect.Type) string {
	fails := func(path []string, value any) bool {
		for _, key := range slices.Backward(path) {
			value = map[string]any{key: value}
		}
		text, err := json.Marshal(value)
		return err != nil || kjson.UnmarshalCaseSensitivePreserveInts(text, reflect.New(as).Interface()) != nil
	}
	var path []string
	for all != nil {
		var next map[string]any
		found := false
		for _, key := range slices.Sorted(maps.Keys(all)) {
			if at := append(slices.Clone(path), key); fails(at, all[key]) {
				path, found = at, true
				next, _ = all[key].(map[string]any)
				break
			}
		}
		if !found {
			break
		}
		all = next
	}
	return strings.Join(path, ".")
}

// Located returns err with each of its problems, which begin with a field's path, as a line that names the file and
// the line of the field, or of the innermost field around it that is in the text.
func Located(file string, text []byte, err error) error {
	var doc yamlv3.Node
	if yamlv3.Unmarshal(text, &doc) != nil || len(doc.Content) == 0 {
		doc.Content = []*yamlv3.Node{{}} // its error has a line
	}
	var out []error
	for _, problem := range Single(err) {
		path, _, _ := strings.Cut(strings.TrimPrefix(problem, `unknown field "`), ":")
		if line := lineOf(doc.Content[0], strings.TrimSuffix(path, `"`)); line > 0 {
			problem = fmt.Sprintf("line %d: %s", line, problem)
		}
		out = append(out, fmt.Errorf("%s: %s", file, problem))
	}
	return errors.Join(out...)
}

// lineOf finds a path such as forecasts[0].step; 0 for none.
func lineOf(at *yamlv3.Node, path string) (line int) {
	for _, word := range strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		var next *yamlv3.Node
		if i, err := strconv.Atoi(word); err == nil && at.Kind == yamlv3.SequenceNode && i < len(at.Content) {
			next, line = at.Content[i], at.Content[i].Line
		}
		for i := 0; at.Kind == yamlv3.MappingNode && i+1 < len(at.Content); i += 2 {
			if at.Content[i].Value == word {
				next, line = at.Content[i+1], at.Content[i].Line
			}
		}
		if next == nil {
			break
		}
		at = next
	}
	return line
}

// Single splits joined problems; a prefix of all is repeated before each.
func Single(err error) []string {
	var joined interface {
		error
		Unwrap() []error
	}
	if !errors.As(err, &joined) {
		return []string{err.Error()}
	}
	before := strings.TrimSuffix(err.Error(), joined.Error())
	var out []string
	for _, e := range joined.Unwrap() {
		for _, problem := range Single(e) {
			out = append(out, before+problem)
		}
	}
	return out
}
