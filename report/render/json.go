package render

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/gpuscale/gpuscale/report/model"
)

// JSON writes the report in its versioned form, indented.
func JSON(w io.Writer, r model.Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	return nil
}

// Schema describes that form in JSON Schema (2020-12): docs/schema/report-v1.json is made
// from the types of package model.
func Schema() ([]byte, error) {
	s := describe(reflect.TypeFor[model.Report](), "")
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "Capacity report of gpuscale-report, schema 1"
	s["$defs"] = map[string]any{"number": map[string]any{
		"description": "A number, or why there is none. It is never 0 for unknown.",
		"oneOf": []any{
			map[string]any{"type": "number"},
			map[string]any{"type": "object", "properties": map[string]any{"unknown": map[string]any{"type": "string", "minLength": 1}}, "required": []string{"unknown"}, "additionalProperties": false},
		},
	}}
	s["properties"].(map[string]any)["schema"] = map[string]any{"const": model.Schema}
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the schema: %w", err)
	}
	return append(raw, '\n'), nil
}

func describe(t reflect.Type, doc string) map[string]any {
	s := map[string]any{}
	if doc != "" {
		s["description"] = doc
	}
	switch {
	case t == reflect.TypeFor[model.Number]():
		s["$ref"] = "#/$defs/number"
	case t == reflect.TypeFor[time.Time]():
		s["type"], s["format"] = "string", "date-time"
	case t.Kind() == reflect.Slice:
		s["type"], s["items"] = "array", describe(t.Elem(), "")
	case t.Kind() == reflect.Struct:
		properties := map[string]any{}
		var required []string
		for i := range t.NumField() {
			f := t.Field(i)
			name := f.Tag.Get("json")
			properties[name] = describe(f.Type, f.Tag.Get("doc"))
			required = append(required, name)
		}
		s["type"], s["properties"], s["required"], s["additionalProperties"] = "object", properties, required, false
	case t.Kind() == reflect.String:
		s["type"] = "string"
	case t.Kind() == reflect.Bool:
		s["type"] = "boolean"
	case t.Kind() == reflect.Int:
		s["type"] = "integer"
	case t.Kind() == reflect.Float64:
		s["type"] = "number"
	}
	return s
}
