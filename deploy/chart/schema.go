package chart

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
)

// Configured returns values.schema.json with one definition generated again, which is one line of the text.
// It lists the fields of a program's configuration type, so Helm rejects a mistyped field. The program itself
// validates the values.
func Configured(schema []byte, definition string, of reflect.Type) (string, error) {
	raw, err := json.Marshal(fieldsOf(of))
	if err != nil {
		return "", fmt.Errorf("describing %s: %w", of, err)
	}
	line := regexp.MustCompile(`(?m)^    "` + regexp.QuoteMeta(definition) + `": .*,$`)
	if n := len(line.FindAll(schema, -1)); n != 1 {
		return "", fmt.Errorf("the schema has %d lines of the definition %s, want one", n, definition)
	}
	return string(line.ReplaceAllLiteral(schema, fmt.Appendf(nil, "    %q: %s,", definition, raw))), nil
}

// fieldsOf describes the field names of a type as internal/strict reads it. A type with its own notation may
// be anything.
func fieldsOf(t reflect.Type) map[string]any {
	switch {
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
	case t.Kind() == reflect.Pointer:
		return fieldsOf(t.Elem())
	case t.Kind() == reflect.Slice:
		return map[string]any{"items": fieldsOf(t.Elem())}
	case t.Kind() == reflect.Map:
		return map[string]any{"additionalProperties": fieldsOf(t.Elem())}
	case t.Kind() == reflect.Struct:
		properties := map[string]any{}
		for _, f := range reflect.VisibleFields(t) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
				properties[name] = fieldsOf(f.Type)
			}
		}
		return map[string]any{"properties": properties, "additionalProperties": false}
	}
	return map[string]any{}
}
