package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AnyModel is the model of an amount that may be had on cards of every model.
const AnyModel = "any"

// GPUQuota says how much a team is guaranteed, may use, may borrow from others and
// lends to them, counted in GPU equivalents: 1 is one whole card, or all the MIG
// slices of one.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=gpuquotas,shortName=gpuq
// +kubebuilder:printcolumn:name="Parent",type=string,JSONPath=`.spec.parent`
// +kubebuilder:printcolumn:name="Guaranteed",type=string,JSONPath=`.status.guaranteed`
// +kubebuilder:printcolumn:name="Used",type=string,JSONPath=`.status.used`
// +kubebuilder:printcolumn:name="Borrowed",type=string,JSONPath=`.status.borrowed`
// +kubebuilder:printcolumn:name="Lent",type=string,JSONPath=`.status.lent`
// +kubebuilder:printcolumn:name="Waiting",type=string,JSONPath=`.status.waiting`
// +kubebuilder:printcolumn:name="Valid",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(self.spec.parent) || self.spec.parent != self.metadata.name",message="spec.parent must not be the quota itself"
type GPUQuota struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

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

// GPUQuotaSpec is what is wanted of a quota.
type GPUQuotaSpec struct {
	// Parent is the GPUQuota this one is a part of: it lends to and borrows from
	// it and the others under it. A quota without one can do neither.
	// +kubebuilder:validation:MinLength=1
	// +optional
	Parent string `json:"parent,omitempty"`
	// Tenants are the pods that count towards the quota. A quota that is only a
	// parent has none.
	// +optional
	Tenants Tenants `json:"tenants,omitempty"`
	// Amounts, one for each model of card and one for any; at most seven.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=7
	// +listType=map
	// +listMapKey=model
	Amounts []QuotaAmount `json:"amounts"`
	// ReclaimIdle is how long what a pod holds may be idle before it is taken back;
	// never where it is not set.
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
	// NamespaceSelector takes in the namespaces with these labels, too.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// PodSelector takes of these namespaces only the pods with these labels.
	// +optional
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
}

// QuotaAmount is in GPU equivalents, decimal numbers such as "4" or "0.5".
//
// +kubebuilder:validation:XValidation:rule="!has(self.guaranteed) || !has(self.limit) || !quantity(string(self.limit)).isLessThan(quantity(string(self.guaranteed)))",message="limit must not be below guaranteed"
type QuotaAmount struct {
	// Model of card that the amount is for, as gpuscale names it ("H100-80GB") or as
	// the node label nvidia.com/gpu.product has it; "any" for all of them. A model's
	// amount holds for pods that ask for that model, beside the amount for any: what
	// it guarantees is more, what it limits is a part.
	// +kubebuilder:default=any
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Model string `json:"model"`
	// Guaranteed is always there, at the latest after what was lent is taken back.
	// A parent's own is for all under it to share, beside what they are guaranteed
	// themselves. Default 0.
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self >= 0 : !quantity(self).isLessThan(quantity("0"))`,message="guaranteed must not be below 0"
	// +optional
	Guaranteed *resource.Quantity `json:"guaranteed,omitempty"`
	// Limit is the most that may be used, by those under it as well. Default: no
	// limit.
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self >= 0 : !quantity(self).isLessThan(quantity("0"))`,message="limit must not be below 0"
	// +optional
	Limit *resource.Quantity `json:"limit,omitempty"`
	// BorrowLimit is the most that may be used beyond the guarantee while others
	// leave theirs idle. Default: no limit.
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self >= 0 : !quantity(self).isLessThan(quantity("0"))`,message="borrowLimit must not be below 0"
	// +optional
	BorrowLimit *resource.Quantity `json:"borrowLimit,omitempty"`
	// LendLimit is the most of the guarantee that others may use while it is idle.
	// Default: all of it.
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self >= 0 : !quantity(self).isLessThan(quantity("0"))`,message="lendLimit must not be below 0"
	// +optional
	LendLimit *resource.Quantity `json:"lendLimit,omitempty"`
}

// GPUQuotaStatus is what was found last, in GPU equivalents. A card's share of
// compute or of memory counts, whichever is larger.
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
	// Borrowed is used beyond what is guaranteed.
	// +optional
	Borrowed string `json:"borrowed,omitempty"`
	// Lent is guaranteed here and used by others.
	// +optional
	Lent string `json:"lent,omitempty"`
	// Waiting is wanted by pods that have no node yet, those not made yet included.
	// +optional
	Waiting string `json:"waiting,omitempty"`
	// Conditions of the quota: Valid.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
