package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AnyModel is the model of an amount for GPUs of every model.
const AnyModel = "any"

// GPUQuota defines how much a team is guaranteed, may use, may borrow from others and lends to
// them, counted in GPU equivalents: 1 is one whole GPU, or all the MIG slices of one.
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

	// Undecodable is why the stored object could not be decoded. Its metadata is known, and its limits
	// if they could. It is empty for an object that could be decoded.
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
	// Parent is the GPUQuota that this one is a part of: it lends to and borrows from the parent
	// and its other children. A quota without a parent can do neither.
	// +kubebuilder:validation:MinLength=1
	// +optional
	Parent string `json:"parent,omitempty"`
	// Tenants are the pods that count towards the quota. A quota that is only a
	// parent has none.
	// +optional
	Tenants Tenants `json:"tenants,omitempty"`
	// Amounts, one for each model of GPU and one for any; at most seven.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=7
	// +listType=map
	// +listMapKey=model
	Amounts []QuotaAmount `json:"amounts"`
	// ReclaimIdle is how long an allocated GPU or MIG device may be idle before it is reclaimed.
	// Default: never.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	// +optional
	ReclaimIdle *metav1.Duration `json:"reclaimIdle,omitempty"`
}

// Tenants are pods, by their namespace and labels. A pod counts towards one quota:
// one that selects pods goes before one that does not.
//
// +kubebuilder:validation:XValidation:rule="!has(self.podSelector) || has(self.namespaces) || has(self.namespaceSelector)",message="podSelector needs namespaces or a namespaceSelector"
type Tenants struct {
	// Namespaces by name.
	// +kubebuilder:validation:MaxItems=1000
	// +listType=set
	// +optional
	Namespaces []string `json:"namespaces,omitempty"`
	// NamespaceSelector adds the namespaces with these labels.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// PodSelector selects only the pods with these labels in these namespaces.
	// +optional
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
}

// QuotaAmount is in GPU equivalents, decimal numbers such as "4" or "0.5".
//
// +kubebuilder:validation:XValidation:rule="!has(self.guaranteed) || !has(self.limit) || !quantity(string(self.limit)).isLessThan(quantity(string(self.guaranteed)))",message="limit must not be below guaranteed"
type QuotaAmount struct {
	// Model of GPU that the amount is for, as gpuscale names it ("H100-80GB") or as in the node
	// label nvidia.com/gpu.product; "any" for all models. A model's amount applies to pods that
	// request that model, beside the amount for any: its guarantee is added, its limit is a part.
	// +kubebuilder:default=any
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Model string `json:"model"`
	// Guaranteed is always available, at the latest after lent capacity is returned or, with
	// policy.reclaimBorrowed, reclaimed. A parent's guarantee is shared by its children, in
	// addition to theirs. Default 0.
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self >= 0 : !quantity(self).isLessThan(quantity("0"))`,message="guaranteed must not be below 0"
	// +optional
	Guaranteed *resource.Quantity `json:"guaranteed,omitempty"`
	// Limit is the maximum use, children included. Default: no limit.
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self >= 0 : !quantity(self).isLessThan(quantity("0"))`,message="limit must not be below 0"
	// +optional
	Limit *resource.Quantity `json:"limit,omitempty"`
	// BorrowLimit is the maximum use beyond the guarantee, out of what others leave idle. Default:
	// no limit.
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self >= 0 : !quantity(self).isLessThan(quantity("0"))`,message="borrowLimit must not be below 0"
	// +optional
	BorrowLimit *resource.Quantity `json:"borrowLimit,omitempty"`
	// LendLimit is the part of the guarantee that others may use while it is idle. Default: all of
	// it.
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self >= 0 : !quantity(self).isLessThan(quantity("0"))`,message="lendLimit must not be below 0"
	// +optional
	LendLimit *resource.Quantity `json:"lendLimit,omitempty"`
}

// GPUQuotaStatus is the observed state of a quota, in GPU equivalents. The larger of a GPU's shares
// of compute and memory counts.
type GPUQuotaStatus struct {
	// ObservedGeneration of the spec the rest of the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Guaranteed to it and all under it.
	// +optional
	Guaranteed string `json:"guaranteed,omitempty"`
	// Used by it and all under it.
	// +optional
	Used string `json:"used,omitempty"`
	// Borrowed is used beyond the guarantee.
	// +optional
	Borrowed string `json:"borrowed,omitempty"`
	// Lent is guaranteed here and used by others.
	// +optional
	Lent string `json:"lent,omitempty"`
	// Pending is requested by pods without a node, including pods still to be created.
	// +optional
	Pending string `json:"pending,omitempty"`
	// Conditions of the quota: Valid.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
