package v1alpha1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations by which a Node is excluded from scale-down with "true": gpuscale's, and that of
// cluster-autoscaler.
const (
	ScaleDownDisabledAnnotation      = "gpuscale.io/scale-down-disabled"
	OtherScaleDownDisabledAnnotation = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
)

// EmptyTaint is the key of the soft taint (PreferNoSchedule) of a Node that no pod uses and that is
// to be removed, so that the scheduler prefers nodes in use.
const EmptyTaint = "gpuscale.io/empty"

// SoftTainted reports whether a node has EmptyTaint.
func SoftTainted(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == EmptyTaint })
}

// ScaleDownDisabled reports whether an annotation excludes the node from scale-down.
func ScaleDownDisabled(node metav1.Object) bool {
	a := node.GetAnnotations()
	return a[ScaleDownDisabledAnnotation] == "true" || a[OtherScaleDownDisabledAnnotation] == "true" || a[DoNotDisruptAnnotation] == "true"
}
