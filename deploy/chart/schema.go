package chart

import (
	"cmp"
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
	fields := fieldsOf(of)
	fields["type"] = []string{"object", "null"} // draft 7 ignores a type beside the reference
	raw, err := json.Marshal(fields)
	if err != nil {
		return "", fmt.Errorf("describing %s: %w", of, err)
	}
	line := regexp.MustCompile(`(?m)^    "` + regexp.QuoteMeta(definition) + `": .*,$`)
	if n := len(line.FindAll(schema, -1)); n != 1 {
		return "", fmt.Errorf("the schema has %d lines of the definition %s, want one", n, definition)
	}
	return string(line.ReplaceAllLiteral(schema, fmt.Appendf(nil, "    %q: %s,", definition, raw))), nil
}

// fieldsOf describes the field names of a type as internal/strict reads it, or as YAML where it has no JSON names. A
// struct without names has its own notation and may be anything. One that only embeds another, to read it strictly,
// has the definition with the name of that one.
func fieldsOf(t reflect.Type) map[string]any {
	switch t.Kind() {
	case reflect.Pointer:
		return fieldsOf(t.Elem())
	case reflect.Slice:
		return map[string]any{"items": fieldsOf(t.Elem())}
	case reflect.Map:
		if t.Elem().Kind() == reflect.String {
			return map[string]any{"$ref": "#/definitions/strings"}
		}
		return map[string]any{"additionalProperties": fieldsOf(t.Elem())}
	case reflect.Struct:
		if t.NumField() == 1 && t.Field(0).Anonymous && t.Field(0).Type.Kind() == reflect.Struct {
			return map[string]any{"$ref": "#/definitions/" + t.Field(0).Type.Name()}
		}
		properties := map[string]any{}
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(cmp.Or(f.Tag.Get("json"), f.Tag.Get("yaml")), ",")
			if name != "" && name != "-" {
				properties[name] = fieldsOf(f.Type)
			}
		}
		if len(properties) > 0 {
			return map[string]any{"properties": properties, "additionalProperties": false}
		}
	}
	return map[string]any{}
}
