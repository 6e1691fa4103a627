package schemas

import (
	"fmt"
	"strings"
)

// Where types lie in OpenAPI and in our schemas.
const (
	here  = "#/components/schemas/"
	there = "#/definitions/"
)

// same are the keywords that mean the same on both sides: OpenAPI 3.0 took them
// from this draft.
var same = words(`type format enum pattern minLength maxLength minimum maximum exclusiveMinimum exclusiveMaximum multipleOf
	minItems maxItems uniqueItems minProperties maxProperties`)

// silent are the keywords that refuse nothing.
var silent = words(`description title default example externalDocs nullable`)

func words(text string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(text) {
		out[w] = true
	}
	return out
}

// conversion is of one type.
type conversion struct {
	needs map[string]bool // types it refers to
}

// value converts a schema that says what a value is: fields that it does not name
// are unknown to the server. root is a type as such: one without any fields is
// anything (RawExtension), whereas a field like that is an object with nothing in it.
func (c conversion) value(in object, at string, root bool) (any, error) {
	return c.convert(in, at, func(out object) {
		_, fields := in["properties"]
		_, more := in["additionalProperties"]
		open := in["x-kubernetes-preserve-unknown-fields"] == true
		if !more && !open && (fields || !root && in["type"] == "object") {
			out["additionalProperties"] = false
		}
	})
}

// condition converts a schema below allOf, anyOf, oneOf or not: it says something
// of a value whose fields are named elsewhere.
func (c conversion) condition(in object, at string) (any, error) {
	return c.convert(in, at, nil)
}

// convert is for both; closing is what is done where a value is described.
func (c conversion) convert(in object, at string, closing func(object)) (any, error) {
	below := func(v any, at string) (any, error) {
		schema, isObject := v.(object)
		switch {
		case !isObject:
			return nil, fmt.Errorf("%s: %T in place of a schema", at, v)
		case closing != nil:
			return c.value(schema, at, false)
		}
		return c.condition(schema, at)
	}
	out := object{}
	for key, v := range in {
		var err error
		at := at + "." + key
		switch {
		case same[key]:
			out[key] = v
		case silent[key] || strings.HasPrefix(key, "x-"):
		case key == "required":
			if list, _ := v.([]any); len(list) > 0 { // the draft has no empty one
				out[key] = v
			}
		case key == "$ref":
			out[key], err = c.ref(v, at)
		case key == "properties":
			out[key], err = fields(v, at, below)
		case key == "items":
			out[key], err = below(v, at)
		case key == "additionalProperties":
			out[key] = v
			if _, isBool := v.(bool); !isBool {
				out[key], err = below(v, at)
			}
		case key == "allOf" || key == "anyOf" || key == "oneOf":
			out[key], err = c.conditions(v, at)
		case key == "not":
			if schema, isObject := v.(object); isObject {
				out[key], err = c.condition(schema, at)
			} else {
				err = fmt.Errorf("%s: %T in place of a schema", at, v)
			}
		default:
			err = fmt.Errorf("%s: a keyword that is not known", at)
		}
		if err != nil {
			return nil, err
		}
	}
	if closing != nil {
		closing(out)
	}
	if in["x-kubernetes-int-or-string"] == true {
		out["type"] = []any{"integer", "string"}
	}
	if in["nullable"] == true {
		return object{"anyOf": []any{out, object{"type": "null"}}}, nil
	}
	return out, nil
}

func (c conversion) ref(v any, at string) (any, error) {
	text, _ := v.(string)
	name, ok := strings.CutPrefix(text, here)
	if !ok || !word.MatchString(name) {
		return nil, fmt.Errorf("%s: %v is not below %s", at, v, here)
	}
	c.needs[name] = true
	return there + name, nil
}

func fields(v any, at string, below func(any, string) (any, error)) (any, error) {
	in, isObject := v.(object)
	if !isObject {
		return nil, fmt.Errorf("%s: %T in place of fields", at, v)
	}
	out := object{}
	for name, schema := range in {
		var err error
		if out[name], err = below(schema, at+"."+name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (c conversion) conditions(v any, at string) (any, error) {
	in, isList := v.([]any)
	if !isList || len(in) == 0 {
		return nil, fmt.Errorf("%s: %T in place of schemas", at, v)
	}
	out := make([]any, len(in))
	for i, one := range in {
		schema, isObject := one.(object)
		if !isObject {
			return nil, fmt.Errorf("%s.%d: %T in place of a schema", at, i, one)
		}
		var err error
		if out[i], err = c.condition(schema, fmt.Sprintf("%s.%d", at, i)); err != nil {
			return nil, err
		}
	}
	return out, nil
}
