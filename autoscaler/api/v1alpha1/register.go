package v1alpha1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gpuscale/gpuscale/autoscaler/api/amount"
)

// GroupVersion of this API.
var GroupVersion = schema.GroupVersion{Group: "gpuscale.io", Version: "v1alpha1"}

// AddToScheme registers the types.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &GPUNodePool{}, &GPUNodePoolList{}, &GPUQuota{}, &GPUQuotaList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// UnmarshalJSON decodes a pool. An earlier, laxer schema may have admitted an object that cannot be
// decoded now. Of that object the result has the metadata and, in Undecodable, the reason. An error would
// fail the decoding of a whole list, and with it the cache of all pools. Such a pool is not acted on.
func (p *GPUNodePool) UnmarshalJSON(text []byte) error {
	type plain GPUNodePool
	var into plain
	if err := decode(text, &into); err != nil {
		meta, broken := metadataOf(text)
		if broken != nil {
			return fmt.Errorf("decoding a GPUNodePool: %w", broken)
		}
		into = plain{TypeMeta: meta.TypeMeta, ObjectMeta: meta.ObjectMeta, Undecodable: err.Error()}
	}
	*p = GPUNodePool(into)
	return nil
}

// UnmarshalJSON decodes a quota, as GPUNodePool's does a pool. Of an object that cannot be decoded the result
// has each of spec.parent, spec.tenants and spec.amounts that can be.
func (q *GPUQuota) UnmarshalJSON(text []byte) error {
	type plain GPUQuota
	var into plain
	if err := decode(text, &into); err != nil {
		meta, broken := metadataOf(text)
		if broken != nil {
			return fmt.Errorf("decoding a GPUQuota: %w", broken)
		}
		into = plain{TypeMeta: meta.TypeMeta, ObjectMeta: meta.ObjectMeta, Undecodable: err.Error()}
		var fields struct {
			Spec map[string]json.RawMessage `json:"spec"`
		}
		if json.Unmarshal(text, &fields) == nil {
			readable(fields.Spec["parent"], &into.Spec.Parent)
			readable(fields.Spec["tenants"], &into.Spec.Tenants)
			readable(fields.Spec["amounts"], &into.Spec.Amounts)
		}
	}
	*q = GPUQuota(into)
	return nil
}

// readable decodes text into a field, or leaves the field unchanged if a part of text cannot be decoded.
func readable[T any](text json.RawMessage, into *T) {
	var v T
	if decode(text, &v) == nil {
		*into = v
	}
}

// decode refuses amounts that would take too long to decode, such as 1e999999999: the CRD's pattern admits them.
func decode(text []byte, into any) error {
	if err := amount.CheckJSON(text); err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

func metadataOf(text []byte) (m metav1.PartialObjectMetadata, err error) {
	err = json.Unmarshal(text, &m)
	return m, err
}
