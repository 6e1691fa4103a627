// Package v1alpha1 is the gpuscale.io API: the types of our custom resources.
// It imports apimachinery only.
//
// +kubebuilder:object:generate=true
// +groupName=gpuscale.io
package v1alpha1
