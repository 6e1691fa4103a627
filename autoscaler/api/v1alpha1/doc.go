// Package v1alpha1 is the gpuscale.io API: the types of gpuscale's custom resources. It imports
// apimachinery only.
//
// +kubebuilder:object:generate=true
// +groupName=gpuscale.io
package v1alpha1
