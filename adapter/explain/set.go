package explain

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	autoscaling "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/adapter/explain/hpa"
	"github.com/gpuscale/gpuscale/internal/strict"
)

// ReadHPA reads a HorizontalPodAutoscaler of autoscaling/v2 from YAML or JSON.
func ReadHPA(file string, raw []byte) (*autoscaling.HorizontalPodAutoscaler, error) {
	var h autoscaling.HorizontalPodAutoscaler
	return &h, strict.Read(file, raw, &h, func() error {
		if h.Kind != "HorizontalPodAutoscaler" || h.APIVersion != "autoscaling/v2" {
			return fmt.Errorf("is %s of %s, not a HorizontalPodAutoscaler of autoscaling/v2", cmp.Or(h.Kind, "nothing"), cmp.Or(h.APIVersion, "nothing"))
		}
		return errors.Join(strict.Under("spec", sane(h.Spec))...)
	})
}

// sane rejects specs that the API server rejects and the arithmetic cannot
// handle.
func sane(spec autoscaling.HorizontalPodAutoscalerSpec) error {
	var errs []error
	when := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	s := hpa.Defaulted(spec)
	minimum := *s.MinReplicas
	when(minimum < 0 || s.MaxReplicas < 1 || minimum > s.MaxReplicas,
		"minReplicas: %d, and maxReplicas %d: maxReplicas must be at least 1, minReplicas not negative, the first not above the second", minimum, s.MaxReplicas)
	for i, m := range s.Metrics {
		_, t := partsOf(m)
		when(t != nil && (t.Value != nil && t.Value.MilliValue() <= 0 || t.AverageValue != nil && t.AverageValue.MilliValue() <= 0 || t.Value == nil && t.AverageValue == nil),
			"metrics[%d]: a target needs a value or an averageValue, of at least a thousandth", i)
	}
	if s.Behavior == nil {
		return errors.Join(errs...)
	}
	for _, rules := range []*autoscaling.HPAScalingRules{s.Behavior.ScaleUp, s.Behavior.ScaleDown} {
		for _, p := range rules.Policies {
			when(p.Value <= 0 || p.PeriodSeconds <= 0 || p.PeriodSeconds > 1800, "behavior: a policy's value must be positive, its periodSeconds between 1 and 1800")
		}
		w := rules.StabilizationWindowSeconds
		when(w != nil && (*w < 0 || *w > 3600), "behavior: stabilizationWindowSeconds must be between 0 and 3600")
	}
	return errors.Join(errs...)
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
	if !fieldPath.MatchString(path) {
		return spec, fmt.Errorf("path %q is not like metrics[0].target.value", path)
	}
	steps := strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune(".[]", r) })
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
	d, err := strict.Parse("spec", raw)
	if err != nil {
		return spec, err
	}
	var next autoscaling.HorizontalPodAutoscalerSpec
	for _, p := range d.Fields(d.Root, "", &next) {
		return spec, fmt.Errorf("%s: %w", p.Path, p.Err)
	}
	next = hpa.Defaulted(next)
	return next, sane(next)
}

// fieldPath is a path like "metrics[0].target.value", of twelve steps at most.
var fieldPath = regexp.MustCompile(`^[a-zA-Z]+(\[\d{1,2}\]|\.[a-zA-Z]+){0,11}$`)

// put returns the tree with the value at the path. parent is the name of an
// element's list.
func put(tree any, path []string, value any, parent string) (any, error) {
	if len(path) == 0 {
		return value, nil
	}
	if index, err := strconv.Atoi(path[0]); err == nil {
		items, ok := tree.([]any)
		if !ok || index >= len(items) {
			return nil, fmt.Errorf("%s has no element %d", parent, index)
		}
		items[index], err = put(items[index], path[1:], value, parent)
		return items, err
	}
	fields, ok := tree.(map[string]any)
	if tree == nil {
		fields, ok = map[string]any{}, true
	}
	if !ok {
		return nil, fmt.Errorf("there is no field %s in a plain value", path[0])
	}
	// The part named after a metric's type may be left out.
	if kind, _ := fields["type"].(string); parent == "metrics" && path[0] != "type" && kind != "" {
		source := strings.ToLower(kind[:1]) + kind[1:]
		if _, has := fields[source]; has && path[0] != source {
			path = append([]string{source}, path...)
		}
	}
	below, err := put(fields[path[0]], path[1:], value, path[0])
	fields[path[0]] = below
	return fields, err
}
