package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AnyModel is the model of a QuotaAmount that applies to GPUs of every model.
const AnyModel = "any"

// GPUQuota defines how much a team is guaranteed, may use, may borrow from others and lends to
// them. Amounts are in GPU equivalents: 1 is one whole GPU, or all MIG slices of one. It decides for
// which pods capacity is added or reclaimed; it blocks no pod.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=gpuquotas,shortName=gpuq
// +kubebuilder:printcolumn:name="Parent",type=string,JSONPath=`.spec.parent`
// +kubebuilder:printcolumn:name="Guaranteed",type=string,JSONPath=`.status.guaranteed`
// +kubebuilder:printcolumn:name="Used",type=string,JSONPath=`.status.used`
// +kubebuilder:printcolumn:name="Borrowed",type=string,JSONPath=`.status.borrowed`
// +kubebuilder:printcolumn:name="Lent",type=string,JSONPath=`.status.lent`
// +kubebuilder:printcolumn:name="Pending",type=string,JSONPath=`.status.pending`
// +kubebuilder:printcolumn:name="Valid",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(self.spec.parent) || self.spec.parent != self.metadata.name",message="spec.parent must not be the quota itself"
type GPUQuota struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Undecodable says why the stored object could not be decoded. Its metadata is known then, and each
	// of spec.parent, spec.tenants and spec.amounts that could be decoded. It is empty for an object that
	// was decoded.
	Undecodable string `json:"-"`

	Spec   GPUQuotaSpec   `json:"spec"`
	Status GPUQuotaStatus `json:"status,omitempty"`
}

// GPUQuotaList is a list of GPUQuotas.
//
// +kubebuilder:object:root=true
type GPUQuotaList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GPUQuota `json:"items"`
}

// GPUQuotaSpec is the specification of a quota.
type GPUQuotaSpec struct {
	// Parent is the GPUQuota above this one. Quotas with the same parent lend to and borrow from each
	// other. A quota without a parent does neither.
	// +kubebuilder:validation:MinLength=1
	// +optional
	Parent string `json:"parent,omitempty"`
	// Tenants select the pods that count towards the quota. A quota that is only a parent has none.
	// +optional
	Tenants Tenants `json:"tenants,omitempty"`
	// Amounts: at most one for each model of GPU, and one for any; one to seven in all. Without one for
	// any, other models have no guarantee and no limit.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=7
	// +listType=map
	// +listMapKey=model
	Amounts []QuotaAmount `json:"amounts"`
	// ReclaimIdle is how long a pod may leave all its GPUs and MIG devices idle before it is evicted,
	// such as 2h. Default, and with 0: never.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	// +optional
	ReclaimIdle *metav1.Duration `json:"reclaimIdle,omitempty"`
}

// Tenants selects pods by namespace and labels. A pod counts towards one quota: one whose podSelector
// matches it comes before one without.
//
// +kubebuilder:validation:XValidation:rule="!has(self.podSelector) || has(self.namespaces) || has(self.namespaceSelector)",message="podSelector needs namespaces or a namespaceSelector"
type Tenants struct {
	// Namespaces whose pods count, by name.
	// +kubebuilder:validation:MaxItems=1000
	// +listType=set
	// +optional
	Namespaces []string `json:"namespaces,omitempty"`
	// NamespaceSelector adds the namespaces with these labels to those in namespaces.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// PodSelector selects only the pods with these labels in those namespaces. Default: all pods.
	// +optional
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
}

// QuotaAmount is an amount for one model of GPU, in GPU equivalents: decimal numbers such as "4" or "0.5".
//
// +kubebuilder:validation:XValidation:rule="!has(self.guaranteed) || !has(self.limit) || !quantity(string(self.limit)).isLessThan(quantity(string(self.guaranteed)))",message="limit must not be below guaranteed"
type QuotaAmount struct {
	// Model of GPU, as gpuscale names it ("H100-80GB") or as in the node label nvidia.com/gpu.product;
	// "any" is all models. The amount of a model is for pods that request that model. Its guarantee is in
	// addition to that of any; what such pods use counts towards both limits.
	// +kubebuilder:default=any
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Model string `json:"model"`
	// Guaranteed is always available, at the latest after others have released what they borrowed; with
	// policy.reclaimBorrowed their pods are evicted for it. A parent's guarantee is shared by its
	// children, in addition to theirs. Default 0.
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self >= 0 : !quantity(self).isLessThan(quantity("0"))`,message="guaranteed must not be below 0"
	// +optional
	Guaranteed *resource.Quantity `json:"guaranteed,omitempty"`
	// Limit is the maximum use, children included. 0 admits nothing. Default: no limit.
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self >= 0 : !quantity(self).isLessThan(quantity("0"))`,message="limit must not be below 0"
	// +optional
	Limit *resource.Quantity `json:"limit,omitempty"`
	// BorrowLimit is the maximum use beyond the guarantee, out of what others lend. 0 borrows nothing.
	// Default: no limit.
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self >= 0 : !quantity(self).isLessThan(quantity("0"))`,message="borrowLimit must not be below 0"
	// +optional
	BorrowLimit *resource.Quantity `json:"borrowLimit,omitempty"`
	// LendLimit is the part of the guarantee that others may use while it is idle. 0 lends nothing.
	// Default: all of it.
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self >= 0 : !quantity(self).isLessThan(quantity("0"))`,message="lendLimit must not be below 0"
	// +optional
	LendLimit *resource.Quantity `json:"lendLimit,omitempty"`
}

// GPUQuotaStatus is the observed state of a quota, in GPU equivalents: of compute and memory slices, the
// larger share counts.
type GPUQuotaStatus struct {
	// ObservedGeneration is the metadata.generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Guaranteed is what this quota and all quotas below it are guaranteed.
	// +optional
	Guaranteed string `json:"guaranteed,omitempty"`
	// Used is what this quota and all quotas below it use.
	// +optional
	Used string `json:"used,omitempty"`
	// Borrowed is the part of used beyond the guarantee.
	// +optional
	Borrowed string `json:"borrowed,omitempty"`
	// Lent is the part of the guarantee that others use.
	// +optional
	Lent string `json:"lent,omitempty"`
	// Pending is what pods without a node request, pods that are still to be created included.
	// +optional
	Pending string `json:"pending,omitempty"`
	// Conditions of the quota. Valid is False, with the field and the remedy, where the quota contradicts
	// itself or another.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
