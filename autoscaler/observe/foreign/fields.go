package foreign

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/gpuscale/gpuscale/autoscaler/api/amount"
)

// fields reads the fields of an object by their paths. A field that is missing or of the wrong type is read as zero.
// The first one of a wrong type is recorded in err.
type fields struct {
	of  map[string]any
	at  string // the path to of, with a dot at its end
	err *error
}

func (f fields) fail(path string, err error) {
	if *f.err == nil {
		*f.err = fmt.Errorf("%s%s: %w", f.at, path, err)
	}
}

// value returns nil for a field that is missing or null.
func (f fields) value(path string) any {
	var v any = f.of
	for name := range strings.SplitSeq(path, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			f.fail(path, fmt.Errorf("field %s cannot be read in %.50v", name, v))
			return nil
		}
		if v = m[name]; v == nil {
			return nil
		}
	}
	return v
}

// words are the types of fields in users' words.
var words = map[string]string{"[]interface {}": "list", "map[string]interface {}": "object", "string": "text", "bool": "boolean"}

func read[T any](f fields, path string) (out T) {
	if v := f.value(path); v != nil {
		var ok bool
		if out, ok = v.(T); !ok {
			f.fail(path, fmt.Errorf("%.50v is no %s", v, words[fmt.Sprintf("%T", out)]))
		}
	}
	return out
}

func (f fields) text(path string) string { return read[string](f, path) }

func (f fields) is(path string) bool { return read[bool](f, path) }

// isNot reports a field that is false, not one that is missing.
func (f fields) isNot(path string) bool { return f.value(path) != nil && !f.is(path) }

// number returns nil for a missing one. Unstructured objects have integers of either type.
func (f fields) number(path string) *float64 {
	var n float64
	switch v := f.value(path).(type) {
	case nil:
		return nil
	case int64:
		n = float64(v)
	case float64:
		n = v
	default:
		f.fail(path, fmt.Errorf("%.50v is not a number", v))
		return nil
	}
	return &n
}

// maxCount bounds every number of pods that is read from an object.
const maxCount = 10_000

// count returns a number of pods, bounded: a custom resource may have more than 32 bits.
func (f fields) count(path string, otherwise int) int {
	n := f.number(path)
	switch {
	case n == nil:
		return otherwise
	case *n != math.Trunc(*n):
		f.fail(path, fmt.Errorf("%v is not a number of pods", *n))
	}
	return int(min(max(*n, 0), maxCount))
}

// amount reads a quantity, nil for a missing one.
func (f fields) amount(path string) *float64 {
	q := intoAmounts[*resource.Quantity](f, path, true)
	if q == nil {
		return nil
	}
	return ptr.To(q.AsApproximateFloat64())
}

func (f fields) resources(path string) corev1.ResourceList {
	return intoAmounts[corev1.ResourceList](f, path, true)
}

func (f fields) names(path string) map[string]string { return into[map[string]string](f, path) }

// template keeps what decides where the pods go and what they request. The API server does not validate templates in
// custom resources: a negative amount would add to the free capacity of a node.
func (f fields) template(path string) corev1.PodTemplateSpec {
	t := slim(intoAmounts[corev1.PodTemplateSpec](f, path, false))
	all := []corev1.ResourceRequirements{{Requests: t.Spec.Overhead}, ptr.Deref(t.Spec.Resources, corev1.ResourceRequirements{})}
	for _, c := range slices.Concat(t.Spec.InitContainers, t.Spec.Containers) {
		all = append(all, c.Resources)
	}
	for _, r := range all {
		for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
			for name, q := range list {
				if q.Sign() < 0 {
					f.fail(path, fmt.Errorf("%s is negative", name))
				}
			}
		}
	}
	return t
}

// intoAmounts is into for a value with quantities, or with all for a value of quantities only. It checks them: the API
// server has not parsed those of a custom resource.
func intoAmounts[T any](f fields, path string, all bool) (none T) {
	if err := amount.Check(f.value(path), all); err != nil {
		f.fail(path, err)
		return none
	}
	return into[T](f, path)
}

func (f fields) conditions() []metav1.Condition {
	return into[[]metav1.Condition](f, "status.conditions")
}

// list are the objects in a field.
func (f fields) list(path string) (out []fields) {
	for i, v := range read[[]any](f, path) {
		out = append(out, f.part(fmt.Sprintf("%s[%d]", path, i), v))
	}
	return out
}

// entries are the objects in a field, by name.
func (f fields) entries(path string) map[string]fields {
	out := map[string]fields{}
	for name, v := range read[map[string]any](f, path) {
		out[name] = f.part(path+"."+name, v)
	}
	return out
}

func (f fields) part(path string, v any) fields {
	of, ok := v.(map[string]any)
	if !ok && v != nil {
		f.fail(path, fmt.Errorf("%.50v is not an object", v))
	}
	return fields{of, f.at + path + ".", f.err}
}

// into decodes a field by JSON names. On a part of the wrong type it decodes again through JSON text, which
// is slower but names the part.
func into[T any](f fields, path string) T {
	var box struct {
		V T `json:"v"`
	}
	v := f.value(path)
	if v == nil {
		return box.V
	}
	object := map[string]any{"v": v}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &box)
	if err != nil {
		var text []byte
		if text, err = json.Marshal(object); err == nil {
			err = json.Unmarshal(text, &box)
		}
	}
	if err != nil {
		f.fail(path, err)
	}
	return box.V
}
