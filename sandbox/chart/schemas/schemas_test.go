package schemas

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// document is OpenAPI with one kind, X of group example.org/v1, that has one field.
// The types beside it are what Kubernetes has in every group.
func document(field string) string {
	return `{"components": {"schemas": {
		"org.example.v1.X": {"type": "object", "x-kubernetes-group-version-kind": [{"group": "example.org", "version": "v1", "kind": "X"}],
			"properties": {"kind": {"type": "string"}, "f": ` + field + `}},
		"Meta": {"type": "object", "properties": {"name": {"type": "string", "description": "x", "default": ""}}},
		"Raw": {"type": "object"},
		"Tree": {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}}}},
		"IntOrString": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
		"Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
		"Options": {"type": "object", "x-kubernetes-group-version-kind": [{"group": "a", "version": "v1", "kind": "Options"}, {"group": "b", "version": "v1", "kind": "Options"}]}
	}}}`
}

// compiled is the schema of X, as kubeconform compiles it.
func compiled(t *testing.T, files map[string][]byte) *jsonschema.Schema {
	t.Helper()
	const name = "example.org_v1_x.json"
	if len(files) != 1 || files[name] == nil {
		t.Fatalf("want %s alone, got %d files", name, len(files))
	}
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(files[name]))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft4)
	if err := c.AddResource(name, schema); err != nil {
		t.Fatal(err)
	}
	out, err := c.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestFields: what a field of each sort takes and refuses.
func TestFields(t *testing.T) {
	for name, c := range map[string]struct{ field, good, bad string }{
		"another type's":       {`{"$ref": "#/components/schemas/Meta"}`, `{"name": "a"}`, `{"nam": "a"}`},
		"with words beside it": {`{"allOf": [{"$ref": "#/components/schemas/Meta"}], "description": "x", "default": {}}`, `{}`, `{"nam": "a"}`},
		"an object":            {`{"type": "object", "properties": {"a": {"type": "integer"}}}`, `{"a": 1}`, `{"b": 1}`},
		"a needed one":         {`{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}`, `{"a": 1}`, `{}`},
		"none needed":          {`{"type": "object", "properties": {"a": {"type": "integer"}}, "required": []}`, `{}`, `{"a": ""}`},
		"an object of nothing": {`{"type": "object"}`, `{}`, `{"b": 1}`},
		"a list's":             {`{"type": "array", "items": {"$ref": "#/components/schemas/Meta"}}`, `[{"name": "a"}]`, `[{"name": "a"}, {"b": 1}]`},
		"a map's":              {`{"type": "object", "additionalProperties": {"$ref": "#/components/schemas/Meta"}}`, `{"any": {"name": "a"}}`, `{"any": {"b": 1}}`},
		"a map of anything":    {`{"type": "object", "additionalProperties": true}`, `{"a": 1, "b": []}`, `3`},
		"anything":             {`{"$ref": "#/components/schemas/Raw"}`, `{"a": {"b": [1]}}`, `3`},
		"itself":               {`{"$ref": "#/components/schemas/Tree"}`, `{"children": [{"children": []}]}`, `{"children": [{"child": []}]}`},
		"unknown is kept": {`{"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "object", "properties": {"b": {}}}}}`,
			`{"z": 1, "a": {"b": 1}}`, `{"a": {"c": 1}}`},
		"unknown of any type": {`{"x-kubernetes-preserve-unknown-fields": true}`, `[1, "a"]`, ``},
		"a number or text":    {`{"$ref": "#/components/schemas/IntOrString"}`, `"50%"`, `true`},
		"the number":          {`{"$ref": "#/components/schemas/IntOrString"}`, `50`, `1.5`},
		"a CRD's":             {`{"x-kubernetes-int-or-string": true}`, `"50%"`, `true`},
		"a CRD's, with types": {`{"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^[0-9]+%?$"}`, `7`, `"x"`},
		"a quantity":          {`{"$ref": "#/components/schemas/Quantity"}`, `"1Gi"`, `true`},
		"a quantity's number": {`{"$ref": "#/components/schemas/Quantity"}`, `0.5`, `{}`},
		"nullable":            {`{"type": "string", "nullable": true, "enum": ["a"]}`, `null`, `"b"`},
		"not nullable":        {`{"type": "string"}`, `""`, `null`},
		"a bound left out":    {`{"type": "integer", "minimum": 0, "exclusiveMinimum": true}`, `1`, `0`},
		"one of": {`{"type": "object", "properties": {"a": {}, "b": {}}, "oneOf": [{"required": ["a"], "properties": {"a": {"type": "integer"}}}, {"required": ["b"]}]}`,
			`{"a": 1}`, `{"a": 1, "b": 1}`},
		"of a field of it": {`{"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {}, "c": {}}}}, "anyOf": [{"properties": {"a": {"properties": {"b": {}}, "required": ["b"]}}}]}`,
			`{"a": {"b": 1, "c": 1}}`, `{"a": {"c": 1}}`},
		"not": {`{"type": "object", "properties": {"a": {}, "b": {}}, "not": {"required": ["a"]}}`, `{"b": 1}`, `{"a": 1}`},
	} {
		t.Run(name, func(t *testing.T) {
			files, err := FromOpenAPI([]byte(document(c.field)))
			if err != nil {
				t.Fatal(err)
			}
			schema := compiled(t, files)
			for text, want := range map[string]bool{c.good: true, c.bad: false} {
				if text == "" {
					continue
				}
				v, err := jsonschema.UnmarshalJSON(strings.NewReader(`{"kind": "X", "f": ` + text + `}`))
				if err != nil {
					t.Fatal(err)
				}
				if err := schema.Validate(v); (err == nil) != want {
					t.Errorf("%s is taken: %v, want %v (%v)\n%s", text, err == nil, want, err, files["example.org_v1_x.json"])
				}
			}
		})
	}
}

// TestFiles: the names that kubeconform asks for.
func TestFiles(t *testing.T) {
	for _, c := range []struct{ group, version, kind, want string }{
		{"", "v1", "ConfigMap", "v1_v1_configmap.json"},
		{"apps", "v1", "Deployment", "apps_v1_deployment.json"},
		{"monitoring.coreos.com", "v1", "PodMonitor", "monitoring.coreos.com_v1_podmonitor.json"},
	} {
		if got := file(c.group, c.version, c.kind); got != c.want {
			t.Errorf("%s is looked for as %s, and written as %s", c.kind, c.want, got)
		}
	}
}

// TestNothingIsLeftOutInSilence: what is not understood is an error that says where.
func TestNothingIsLeftOutInSilence(t *testing.T) {
	for _, c := range []struct{ field, want string }{
		{`{"type": "object", "patternProperties": {}}`, "org.example.v1.X.properties.f.patternProperties: a keyword"},
		{`{"anyOf": [{"if": {}}]}`, "f.anyOf.0.if: a keyword"},
		{`{"$ref": "#/components/schemas/Nobody"}`, "refers to Nobody"},
		{`{"$ref": "other.json#/components/schemas/Meta"}`, "is not below"},
		{`{"properties": 3}`, "f.properties: float64 in place of fields"},
		{`{"items": [{}]}`, "f.items: []interface {} in place of a schema"},
		{`{"not": true}`, "f.not: bool in place of a schema"},
		{`{"oneOf": []}`, "f.oneOf"},
		{`{"allOf": [3]}`, "f.allOf.0: float64"},
		{`3`, "f: float64 in place of a schema"},
		{`{`, "reading OpenAPI"},
		{`{}}}, "a/b": {"properties": {"a": {}`, `type "a/b": not a name`},
		{`{}}}, "E": {"x-kubernetes-group-version-kind": [{"group": "../..", "version": "v1", "kind": "E"}], "properties": {"a": {}`, `group "../..": not a name`},
	} {
		if _, err := FromOpenAPI([]byte(document(c.field))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want %q, got %v", c.field, c.want, err)
		}
	}
}

// FuzzFromOpenAPI: whatever a server says, there is an error or there are files with
// harmless names, each a JSON object complete in itself.
func FuzzFromOpenAPI(f *testing.F) {
	for _, field := range []string{`{}`, `{"$ref": "#/components/schemas/Tree"}`, `{"type": "object", "nullable": true}`, `{"oneOf": [{"not": {}}]}`, `3`} {
		f.Add(document(field))
	}
	f.Fuzz(func(t *testing.T, text string) {
		files, err := FromOpenAPI([]byte(text))
		if err != nil {
			return
		}
		for name, text := range files {
			if strings.ContainsAny(name, `/\`) || strings.HasPrefix(name, ".") {
				t.Errorf("a file called %q", name)
			}
			var schema struct {
				AllOf []struct {
					Ref string `json:"$ref"`
				}
				Definitions map[string]json.RawMessage
			}
			if err := json.Unmarshal(text, &schema); err != nil {
				t.Fatal(err)
			}
			if len(schema.AllOf) != 1 || schema.Definitions[strings.TrimPrefix(schema.AllOf[0].Ref, there)] == nil {
				t.Error(fmt.Sprintf("%s is not complete: ", name), string(text))
			}
		}
	})
}
