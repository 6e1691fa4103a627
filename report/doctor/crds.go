package doctor

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// kinds lists our CRDs with the Go types that programs of this version write.
var kinds = []struct {
	crd string
	of  reflect.Type
}{
	{"gpunodepools.gpuscale.io", reflect.TypeFor[v1alpha1.GPUNodePool]()},
	{"gpuquotas.gpuscale.io", reflect.TypeFor[v1alpha1.GPUQuota]()},
}

func crdOld(l *look) {
	programs := l.programs("autoscaler")
	if len(CRDs.in(l))+len(programs) == 0 {
		l.skip("neither the autoscaler nor a CRD of gpuscale was found")
	}
	for _, k := range kinds {
		c := find(CRDs.in(l), "", k.crd)
		plural, group, _ := strings.Cut(k.crd, ".")
		file := fmt.Sprintf("%s/files/crds/%s_%s.yaml", chartPath, group, plural)
		const fix = "Install the CRD of this version."
		if c == nil && len(programs) > 0 { // without programs nothing is written
			l.fault("CustomResourceDefinition "+k.crd, "the CRD does not exist", fix, l.installFile(programs[0], file)).Means = "The autoscaler cannot read pools and quotas, and does not start."
		}
		if missing := lacking(c, k.of); len(missing) > 0 {
			// Not by Helm: another field manager owns the old schema, and Helm stops at the conflict.
			l.fault("CustomResourceDefinition "+k.crd, "the schema lacks "+several(missing), fix, l.kubectl("apply", "--server-side", "--force-conflicts", "-f", file)).
				Means = "The API server silently drops these fields, from your objects and from the state that the autoscaler stores."
		}
	}
}

// lacking lists the fields of a type that the CRD's schema lacks. It is empty if there is no CRD.
func lacking(c *apiextensionsv1.CustomResourceDefinition, t reflect.Type) (out []string) {
	if c == nil {
		return nil
	}
	v := the(c.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == "v1alpha1" })
	if v == nil {
		return []string{"version v1alpha1"}
	}
	schema := apiextensionsv1.JSONSchemaProps{}
	if v.Schema != nil && v.Schema.OpenAPIV3Schema != nil {
		schema = *v.Schema.OpenAPIV3Schema
	}
	for _, part := range []string{"Spec", "Status"} {
		field, _ := t.FieldByName(part)
		out = append(out, undeclared(field, "", schema)...)
	}
	slices.Sort(out)
	return out
}

// undeclared lists what a schema lacks of a field and its subfields. path is the path of the struct around
// the field.
func undeclared(f reflect.StructField, path string, around apiextensionsv1.JSONSchemaProps) (out []string) {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	schema := around
	switch {
	case name == "-" || !f.IsExported():
		return nil
	case name != "": // without a name it is inlined
		var there bool
		path = strings.TrimPrefix(path+"."+name, ".")
		if schema, there = around.Properties[name]; !there {
			return []string{path}
		}
	}
	t := f.Type
	for {
		if schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields {
			return nil
		}
		switch t.Kind() {
		case reflect.Slice:
			if schema.Items == nil || schema.Items.Schema == nil {
				return nil
			}
			path, schema = path+"[]", *schema.Items.Schema
		case reflect.Map:
			if schema.AdditionalProperties == nil || schema.AdditionalProperties.Schema == nil {
				return nil
			}
			path, schema = path+"{}", *schema.AdditionalProperties.Schema
		case reflect.Struct: // our types have no cycles
			// A time or a quantity is one value, whatever fields it has in Go. The API server requires the type of every other
			// schema (apiextensions-apiserver 0.37, pkg/apiserver/schema/validation.go).
			if schema.Type != "object" {
				return nil
			}
			for inner := range t.Fields() {
				out = append(out, undeclared(inner, path, schema)...)
			}
			return out
		case reflect.Pointer:
		default:
			return nil
		}
		t = t.Elem()
	}
}
