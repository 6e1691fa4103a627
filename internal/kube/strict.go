package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Strict reads a YAML file over the values of into. All unknown fields are errors, by their
// paths, and so is a value of another type.
func Strict(text []byte, into any) error {
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
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
		return err == nil && kjson.UnmarshalCaseSensitivePreserveInts(text, reflect.New(as).Interface()) != nil
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
