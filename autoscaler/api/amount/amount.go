// Package amount refuses texts that apimachinery would take for ever to parse as a quantity: those of
// tags and of custom resources, which no API server has parsed.
package amount

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/api/resource"
)

// endless matches an amount that apimachinery computes digit by digit: "1e111111191999" keeps a
// core busy for hours (v0.37). No amount has a power of ten above 1000.
var endless = regexp.MustCompile(`^[+-]?[0-9.]+[eE][+-]?0*[1-9][0-9]{3,}$`)

// Parse is resource.ParseQuantity.
func Parse(text string) (resource.Quantity, error) {
	if err := bounded(text); err != nil {
		return resource.Quantity{}, err
	}
	return resource.ParseQuantity(text)
}

func bounded(text string) error {
	if endless.MatchString(text) {
		return fmt.Errorf("%.50q is out of range", text)
	}
	return nil
}

// holders are the fields that hold quantities: of pods, and of gpuscale's own objects.
var holders = map[string]bool{
	"requests": true, "limits": true, "overhead": true, "capacity": true, "sizeLimit": true, "divisor": true, "cpu": true, "memory": true,
	"pricePerHour": true, "interruptionsPerHour": true, "resources": true, "guaranteed": true, "limit": true, "borrowLimit": true, "lendLimit": true,
}

// Check refuses such a text in decoded JSON. all says that v holds nothing but quantities; else
// they are looked for by the names of their fields.
func Check(v any, all bool) error {
	switch v := v.(type) {
	case map[string]any:
		for key, of := range v {
			if err := Check(of, all || holders[key]); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
	case []any:
		for i, of := range v {
			if err := Check(of, all); err != nil {
				return fmt.Errorf("[%d]: %w", i, err)
			}
		}
	case string:
		if all {
			return bounded(v)
		}
	case json.Number:
		return bounded(v.String())
	}
	return nil
}

// CheckJSON is Check of text. What is no JSON is the decoder's to refuse.
func CheckJSON(text []byte) error {
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil
	}
	return Check(v, false)
}
