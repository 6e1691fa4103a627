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

// UnmarshalJSON decodes a pool. An object that an earlier, laxer schema has let into etcd is decoded
// as its metadata and the reason: an error would fail the decoding of a whole list, and with it the
// cache of all pools. Such a pool is not acted on.
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

// UnmarshalJSON decodes a quota, as GPUNodePool's does a pool. Each field of the spec that can be decoded
// holds; of amounts that cannot there is none.
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

// readable decodes a field if it can be decoded whole.
func readable[T any](text json.RawMessage, into *T) {
	var v T
	if decode(text, &v) == nil {
		*into = v
	}
}

// decode refuses amounts that would take for ever: the CRD's pattern admits them.
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
