package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Annotations by which a Node says with "true" that it must not be removed: ours, and
// the one that users of cluster-autoscaler have.
const (
	ScaleDownDisabledAnnotation      = "gpuscale.io/scale-down-disabled"
	OtherScaleDownDisabledAnnotation = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
)

// ScaleDownDisabled reports whether a node says that it must not be removed.
func ScaleDownDisabled(node metav1.Object) bool {
	a := node.GetAnnotations()
	return a[ScaleDownDisabledAnnotation] == "true" || a[OtherScaleDownDisabledAnnotation] == "true"
}
