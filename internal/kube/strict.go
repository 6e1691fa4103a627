package kube

import (
	"encoding/json"
	"errors"
	"fmt"

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
	}
	return errors.Join(append(unknown, err)...)
}
