package main

import (
	"bytes"
	"encoding/json"
	"fmt"

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
	for _, v := range values {
		s, err := v.schema()
		if err != nil {
			return nil, err
		}
		if v.help != "" {
			s["description"] = v.help
		}
		properties[v.key] = s
	}
	return map[string]any{"type": "object", "properties": properties, "additionalProperties": false}, nil
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
		s["type"] = []any{s["type"], v.or}
	}
	if v.enum != nil {
		s["enum"] = v.enum
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
