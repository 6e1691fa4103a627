package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Annotations by which a Node is excluded from scale-down with "true": gpuscale's, and that of
// cluster-autoscaler.
const (
	ScaleDownDisabledAnnotation      = "gpuscale.io/scale-down-disabled"
	OtherScaleDownDisabledAnnotation = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
)

// ScaleDownDisabled reports whether an annotation excludes the node from scale-down.
func ScaleDownDisabled(node metav1.Object) bool {
	a := node.GetAnnotations()
	return a[ScaleDownDisabledAnnotation] == "true" || a[OtherScaleDownDisabledAnnotation] == "true" || a[DoNotDisruptAnnotation] == "true"
}
