package explain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	autoscaling "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/yaml"
)

// ReadHPA reads a HorizontalPodAutoscaler of autoscaling/v2 from YAML or JSON.
func ReadHPA(file string, raw []byte) (*autoscaling.HorizontalPodAutoscaler, error) {
	var h autoscaling.HorizontalPodAutoscaler
	if err := yaml.UnmarshalStrict(raw, &h); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if h.Kind != "HorizontalPodAutoscaler" || h.APIVersion != "autoscaling/v2" {
		return nil, fmt.Errorf("%s: is %s of %s, not a HorizontalPodAutoscaler of autoscaling/v2", file, orNothing(h.Kind), orNothing(h.APIVersion))
	}
	if err := sane(&h.Spec); err != nil {
		return nil, fmt.Errorf("%s: spec: %w", file, err)
	}
	return &h, nil
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// sane rejects specs that the API server rejects and the arithmetic cannot
// handle.
func sane(s *autoscaling.HorizontalPodAutoscalerSpec) error {
	minimum := int32(1)
	if s.MinReplicas != nil {
		minimum = *s.MinReplicas
	}
	if minimum < 0 || s.MaxReplicas < 1 || minimum > s.MaxReplicas {
		return fmt.Errorf("minReplicas %d and maxReplicas %d: maxReplicas must be at least 1, minReplicas not negative, the first not above the second", minimum, s.MaxReplicas)
	}
	for i, m := range s.Metrics {
		a, err := metricOf(m)
		if err != nil {
			continue // reported with the explanation
		}
		t := a.target
		if t.Value != nil && t.Value.MilliValue() <= 0 || t.AverageValue != nil && t.AverageValue.MilliValue() <= 0 || t.Value == nil && t.AverageValue == nil {
			return fmt.Errorf("metrics[%d]: a target needs a value or an averageValue, of at least a thousandth", i)
		}
	}
	for _, rules := range behaviors(s) {
		for _, p := range rules.Policies {
			if p.Value <= 0 || p.PeriodSeconds <= 0 || p.PeriodSeconds > 1800 {
				return fmt.Errorf("behavior: a policy's value must be positive, its periodSeconds between 1 and 1800")
			}
		}
		if w := rules.StabilizationWindowSeconds; w != nil && (*w < 0 || *w > 3600) {
			return fmt.Errorf("behavior: stabilizationWindowSeconds must be between 0 and 3600")
		}
	}
	return nil
}

func behaviors(s *autoscaling.HorizontalPodAutoscalerSpec) []*autoscaling.HPAScalingRules {
	var all []*autoscaling.HPAScalingRules
	if s.Behavior != nil {
		for _, r := range []*autoscaling.HPAScalingRules{s.Behavior.ScaleUp, s.Behavior.ScaleDown} {
			if r != nil {
				all = append(all, r)
			}
		}
	}
	return all
}

// Set applies changes like "minReplicas=2", "metrics[0].target.averageValue=12"
// or "behavior.scaleDown.stabilizationWindowSeconds=60" to a spec. Paths are
// those below spec; in metrics[i] the part named after the metric's type may
// be left out.
func Set(spec autoscaling.HorizontalPodAutoscalerSpec, changes []string) (autoscaling.HorizontalPodAutoscalerSpec, error) {
	for _, change := range changes {
		path, text, found := strings.Cut(change, "=")
		if !found {
			return spec, fmt.Errorf("--set %s: is not of the form path=value", change)
		}
		next, err := set(spec, path, text)
		if err != nil {
			return spec, fmt.Errorf("--set %s: %w", change, err)
		}
		spec = next
	}
	return spec, nil
}

func set(spec autoscaling.HorizontalPodAutoscalerSpec, path, text string) (autoscaling.HorizontalPodAutoscalerSpec, error) {
	steps, err := parsePath(path)
	if err != nil {
		return spec, err
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		return spec, err
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return spec, err
	}
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		return spec, fmt.Errorf("the value: %w", err)
	}
	if tree, err = put(tree, steps, value, ""); err != nil {
		return spec, err
	}
	if raw, err = json.Marshal(tree); err != nil {
		return spec, err
	}
	var next autoscaling.HorizontalPodAutoscalerSpec
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&next); err != nil {
		return spec, err
	}
	return next, sane(&next)
}

// step is a field, or an index if field is empty.
type step struct {
	field string
	index int
}

const maxDepth = 12

// parsePath splits "metrics[0].target.value".
func parsePath(path string) ([]step, error) {
	var steps []step
	for field := range strings.SplitSeq(path, ".") {
		name, rest, indexed := strings.Cut(field, "[")
		if name == "" {
			return nil, fmt.Errorf("path %q has an empty field", path)
		}
		steps = append(steps, step{field: name})
		for indexed {
			var number string
			if number, rest, indexed = strings.Cut(rest, "]"); !indexed {
				return nil, fmt.Errorf("path %q lacks a closing bracket", path)
			}
			n, err := strconv.ParseUint(number, 10, 8)
			if err != nil {
				return nil, fmt.Errorf("path %q: %q is no index", path, number)
			}
			steps = append(steps, step{index: int(n)})
			if indexed = strings.HasPrefix(rest, "["); indexed {
				rest = rest[1:]
			} else if rest != "" {
				return nil, fmt.Errorf("path %q: %q after an index", path, rest)
			}
		}
	}
	if len(steps) > maxDepth {
		return nil, fmt.Errorf("path %q is deeper than any field", path)
	}
	return steps, nil
}

// put returns the tree with the value at the path. parent is the name of an
// element's list.
func put(tree any, steps []step, value any, parent string) (any, error) {
	if len(steps) == 0 {
		return value, nil
	}
	s := steps[0]
	if s.field == "" {
		items, ok := tree.([]any)
		if !ok || s.index >= len(items) {
			return nil, fmt.Errorf("%s has no element %d", orNothing(parent), s.index)
		}
		item, err := put(items[s.index], steps[1:], value, parent)
		items[s.index] = item
		return items, err
	}
	fields, ok := tree.(map[string]any)
	if tree == nil {
		fields, ok = map[string]any{}, true
	}
	if !ok {
		return nil, fmt.Errorf("there is no field %s in a plain value", s.field)
	}
	if parent == "metrics" && s.field != "type" {
		if kind, _ := fields["type"].(string); kind != "" {
			source := strings.ToLower(kind[:1]) + kind[1:]
			if _, has := fields[source]; has && s.field != source {
				steps = append([]step{{field: source}}, steps...)
				s = steps[0]
			}
		}
	}
	below, err := put(fields[s.field], steps[1:], value, s.field)
	fields[s.field] = below
	return fields, err
}
