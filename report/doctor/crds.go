package doctor

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// kinds are our CRDs and the types that programs of this version write.
var kinds = []struct {
	crd string
	of  reflect.Type
}{
	{"gpunodepools.gpuscale.io", reflect.TypeFor[v1alpha1.GPUNodePool]()},
	{"gpuquotas.gpuscale.io", reflect.TypeFor[v1alpha1.GPUQuota]()},
}

func crdOld(l *look) {
	programs := l.programs("autoscaler")
	if !l.has(CRDs) || len(l.f.CRDs) == 0 && l.without("neither the autoscaler nor a CRD of gpuscale was found", programs) {
		return
	}
	for _, k := range kinds {
		c := find(l.f.CRDs, "", k.crd)
		plural, group, _ := strings.Cut(k.crd, ".")
		file := fmt.Sprintf("%s/files/crds/%s_%s.yaml", chartPath, group, plural)
		f := Finding{Object: "CustomResourceDefinition " + k.crd, Fix: "Install the CRD of this version."}
		if c == nil {
			if len(programs) == 0 {
				continue // it is not written
			}
			f.Seen, f.Means = "it does not exist", "the autoscaler has no pools and no quotas, and does not start"
			f.Commands = []string{l.installFile(programs[0], file)}
			l.fault(f)
			continue
		}
		missing := lacking(c, k.of)
		if len(missing) == 0 {
			continue
		}
		f.Seen = "its schema has no " + several(missing)
		f.Means = "the API server drops these fields silently: yours, and the autoscaler's, which loses that state"
		// Not by Helm: the old schema's field manager owns it, and Helm stops at the conflict.
		f.Commands = []string{l.kubectl("apply", "--server-side", "--force-conflicts", "-f", file)}
		l.fault(f)
	}
}

// lacking lists the fields of a type that the CRD's schema does not have.
func lacking(c *crd, t reflect.Type) []string {
	for _, v := range c.Spec.Versions {
		if v.Name != "v1alpha1" {
			continue
		}
		var out []string
		for _, part := range []string{"spec", "status"} {
			field, ok := t.FieldByNameFunc(func(name string) bool { return strings.EqualFold(name, part) })
			if !ok {
				continue
			}
			var schema *apiextensionsv1.JSONSchemaProps
			if v.Schema != nil {
				schema = property(v.Schema.OpenAPIV3Schema, part)
			}
			lacks(part, field.Type, schema, &out)
		}
		slices.Sort(out)
		return out
	}
	return []string{"version v1alpha1"}
}

// property returns the schema of a field, nil where there is none.
func property(s *apiextensionsv1.JSONSchemaProps, name string) *apiextensionsv1.JSONSchemaProps {
	if s == nil {
		return nil
	}
	p, ok := s.Properties[name]
	if !ok {
		return nil
	}
	return &p
}

// leaves are types that are one value in a schema, whatever fields they have in Go.
var leaves = []reflect.Type{
	reflect.TypeFor[resource.Quantity](), reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[metav1.Duration](),
}

// lacks walks a type and a schema side by side. Types of ours have no circles.
func lacks(path string, t reflect.Type, s *apiextensionsv1.JSONSchemaProps, out *[]string) {
	if s == nil {
		*out = append(*out, path)
		return
	}
	if s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields || slices.Contains(leaves, t) {
		return
	}
	switch t.Kind() {
	case reflect.Pointer:
		lacks(path, t.Elem(), s, out)
	case reflect.Slice:
		if s.Items != nil && s.Items.Schema != nil {
			lacks(path+"[]", t.Elem(), s.Items.Schema, out)
		}
	case reflect.Map:
		if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
			lacks(path+"{}", t.Elem(), s.AdditionalProperties.Schema, out)
		}
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "-" || !f.IsExported() {
				continue
			}
			if name == "" { // inlined
				lacks(path, f.Type, s, out)
				continue
			}
			lacks(path+"."+name, f.Type, property(s, name), out)
		}
	}
}
