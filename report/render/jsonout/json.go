// Package jsonout writes the report as JSON of a versioned form, reads it back and
// describes it: docs/schema/report-v1.json is generated from the types of package model.
package jsonout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/report/model"
)

// Write writes the report, indented.
func Write(w io.Writer, r model.Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	return nil
}

// maxBytes bounds a report that is read: of 10,000 GPUs it is some megabytes.
const maxBytes = 64 << 20

// Read reads a report of Write. It rejects unknown fields; the error has file, line and,
// where known, field.
func Read(file string, raw []byte) (model.Report, error) {
	if len(raw) > maxBytes {
		return model.Report{}, fmt.Errorf("%s: larger than %d bytes", file, maxBytes)
	}
	var version struct {
		Schema *int `json:"schema"`
	}
	if err := json.Unmarshal(raw, &version); err != nil {
		return model.Report{}, where(file, raw, err, 0)
	}
	switch {
	case version.Schema == nil:
		return model.Report{}, fmt.Errorf("%s:1: schema: is missing: this is not a report of gpuscale-report -o json", file)
	case *version.Schema != model.Schema:
		return model.Report{}, fmt.Errorf("%s:1: schema: is %d, this gpuscale-report reads %d", file, *version.Schema, model.Schema)
	}
	var r model.Report
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return model.Report{}, where(file, raw, err, d.InputOffset())
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return model.Report{}, fmt.Errorf("%s:%d: trailing data after the report", file, line(raw, d.InputOffset()))
	}
	if !(r.Window.Hours > 0) || !r.Window.From.Before(r.Window.Until) {
		return model.Report{}, fmt.Errorf("%s: window: want from before until and hours more than 0", file)
	}
	return r, nil
}

func where(file string, raw []byte, err error, offset int64) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("%s:%d: %w", file, line(raw, syntax.Offset), err)
	case errors.As(err, &kind):
		return fmt.Errorf("%s:%d: %s: want %s, is a JSON %s", file, line(raw, kind.Offset), kind.Field, kind.Type, kind.Value)
	}
	text := err.Error()
	if field, ok := strings.CutPrefix(text, "json: unknown field "); ok {
		// The decoder is past the field, which is the last of its name before that.
		at := bytes.LastIndex(raw[:min(max(offset, 0), int64(len(raw)))], []byte(field))
		return fmt.Errorf("%s:%d: %s: is not a field of a report", file, line(raw, int64(max(at, 0))), strings.Trim(field, `"`))
	}
	return fmt.Errorf("%s:%d: %w", file, line(raw, offset), err)
}

func line(raw []byte, offset int64) int {
	return 1 + bytes.Count(raw[:min(max(offset, 0), int64(len(raw)))], []byte("\n"))
}

// Schema describes the form in JSON Schema (2020-12).
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
