package chart

import (
	_ "embed"
	"strings"

	"sigs.k8s.io/yaml"
)

// Combination is one way to install the chart.
type Combination struct {
	Name   string
	Values string // YAML
}

//go:embed combinations.yaml
var combinations string

// Everything enables all features that can be enabled together.
var Everything = func() string {
	all := strings.Split(combinations, "---\n# ")
	_, values, _ := strings.Cut(all[len(all)-1], "\n")
	return values
}()

// Combinations returns the default values and the combinations of combinations.yaml. The chart must render
// each one, and the API server must accept the result.
func Combinations() []Combination {
	all := []Combination{{"defaults", ""}}
	for _, text := range strings.Split(combinations, "---\n# ")[1:] {
		name, values, _ := strings.Cut(text, "\n")
		all = append(all, Combination{name, enabled(values)})
	}
	return all
}

// enabled turns the adapter and the autoscaler on unless the values set them.
func enabled(values string) string {
	v := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &v); err != nil {
		panic(err) // they are constants
	}
	for _, program := range []string{"adapter", "autoscaler"} {
		of, _ := v[program].(map[string]any)
		if of == nil {
			of = map[string]any{}
		}
		if _, ok := of["enabled"]; !ok {
			of["enabled"] = true
		}
		v[program] = of
	}
	out, err := yaml.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(out)
}
