package schemas

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Location is where kubeconform looks for a kind, below the folder that the files
// of FromOpenAPI are written to.
const Location = "{{.Group}}_{{.ResourceAPIVersion}}_{{.ResourceKind}}.json"

// file is the name that kubeconform makes of Location: in its words the core
// group is called like its version.
func file(group, version, kind string) string {
	if group == "" {
		group = version
	}
	return group + "_" + version + "_" + strings.ToLower(kind) + ".json"
}

// word is what names of types and kinds are made of, and nothing that a path or a
// JSON pointer would take apart.
var word = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

type object = map[string]any

// FromOpenAPI returns the JSON schema (draft 4) of each kind of an OpenAPI v3
// document, by file name. Types that are of many groups, such as DeleteOptions,
// are nobody's manifest and left out. A keyword that is not known here is an
// error: left out in silence it would make the schema say less than the server.
func FromOpenAPI(text []byte) (map[string][]byte, error) {
	var doc struct {
		Components struct{ Schemas map[string]object }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("reading OpenAPI: %w", err)
	}
	types := map[string]definition{}
	for name, in := range doc.Components.Schemas {
		if !word.MatchString(name) {
			return nil, fmt.Errorf("type %q: not a name", name)
		}
		c := conversion{needs: map[string]bool{}}
		out, err := c.value(in, name, true)
		if err != nil {
			return nil, err
		}
		types[name] = definition{out, c.needs}
	}
	files := map[string][]byte{}
	for name, in := range doc.Components.Schemas {
		kind, err := kindOf(in)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if kind == "" {
			continue
		}
		if files[kind], err = standalone(types, name); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// kindOf is the file of the one kind that a type is of, "" for none and for many.
func kindOf(in object) (string, error) {
	kinds, _ := in["x-kubernetes-group-version-kind"].([]any)
	if len(kinds) != 1 {
		return "", nil
	}
	kind, _ := kinds[0].(object)
	var names [3]string
	for i, key := range []string{"group", "version", "kind"} {
		names[i], _ = kind[key].(string)
		if !word.MatchString(names[i]) && (i > 0 || names[i] != "") {
			return "", fmt.Errorf("%s %q: not a name", key, names[i])
		}
	}
	return file(names[0], names[1], names[2]), nil
}

// definition is a converted type and the types that it refers to.
type definition struct {
	schema any
	needs  map[string]bool
}

// standalone is a schema of one type with all that it needs.
func standalone(types map[string]definition, name string) ([]byte, error) {
	reached := object{}
	next := []string{name}
	for len(next) > 0 {
		at := next[0]
		next = next[1:]
		if reached[at] != nil {
			continue
		}
		d, known := types[at]
		if !known {
			return nil, fmt.Errorf("%s refers to %s, which is not there", name, at)
		}
		reached[at] = d.schema
		next = append(next, slices.Sorted(maps.Keys(d.needs))...)
	}
	return json.Marshal(object{
		"$schema":     "http://json-schema.org/draft-04/schema#",
		"allOf":       []any{object{"$ref": there + name}},
		"definitions": reached,
	})
}
