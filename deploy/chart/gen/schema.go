package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// schemaJSON is the strict schema of the values: a key that there is not is an
// error, so that a typo cannot turn into a default.
func schemaJSON(values []value) ([]byte, error) {
	root, err := object(values)
	if err != nil {
		return nil, err
	}
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	root["title"] = "Values of the gpuscale chart"
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(root); err != nil {
		return nil, fmt.Errorf("writing the schema: %w", err)
	}
	return b.Bytes(), nil
}

func object(values []value) (map[string]any, error) {
	properties := map[string]any{}
	var required []string
	for _, v := range values {
		s, err := v.schema()
		if err != nil {
			return nil, err
		}
		if v.help != "" {
			s["description"] = v.help
		}
		properties[v.key] = s
		if v.needed() {
			required = append(required, v.key)
		}
	}
	out := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if required != nil {
		out["required"] = required
	}
	return out, nil
}

// needed reports whether a value must be there. Helm takes a key away that is null,
// and one that is newer than the chart of a release is not there with --reuse-values:
// templates read both as empty, which is only right where empty is a value.
func (v value) needed() bool {
	if v.free || v.node.Kind == yaml.SequenceNode || slices.Contains(strings.Split(v.or, "|"), "null") {
		return false
	}
	return v.node.Kind == yaml.MappingNode || v.node.Tag != "!!str" || v.enum != nil || v.node.Value != ""
}

// oneOf are the words of an enum; true and false also without quotes, where booleans
// are taken.
func (v value) oneOf() []any {
	var out []any
	for _, word := range v.enum {
		out = append(out, word)
	}
	if slices.Contains(strings.Split(v.or, "|"), "boolean") {
		out = append(out, true, false)
	}
	return out
}

func (v value) schema() (map[string]any, error) {
	switch v.node.Kind {
	case yaml.MappingNode:
		if v.free {
			return map[string]any{"type": "object"}, nil
		}
		return object(v.children)
	case yaml.SequenceNode:
		return map[string]any{"type": "array", "items": map[string]any{"type": v.items}}, nil
	}
	s := map[string]any{}
	switch v.node.Tag {
	case "!!str":
		s["type"] = "string"
	case "!!bool":
		s["type"] = "boolean"
	case "!!int":
		s["type"] = "integer"
	case "!!float":
		s["type"] = "number"
	default:
		return nil, fmt.Errorf("%s: %s has no type in a schema", v.path, v.node.Tag)
	}
	if v.or != "" {
		types := []any{s["type"]}
		for other := range strings.SplitSeq(v.or, "|") {
			types = append(types, other)
		}
		s["type"] = types
	}
	if v.enum != nil {
		s["enum"] = v.oneOf()
	}
	if v.pattern != "" {
		s["pattern"] = v.pattern
	}
	if v.min != nil {
		s["minimum"] = *v.min
	}
	if v.max != nil {
		s["maximum"] = *v.max
	}
	return s, nil
}
