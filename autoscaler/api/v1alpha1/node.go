package v1alpha1

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations of gpuscale and of cluster-autoscaler. "true" excludes a Node from scale-down.
const (
	ScaleDownDisabledAnnotation      = "gpuscale.io/scale-down-disabled"
	OtherScaleDownDisabledAnnotation = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
)

// EmptyTaint is the key of the soft taint (PreferNoSchedule) of an empty Node that is to be removed.
// With it kube-scheduler prefers nodes in use.
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

// DrainAnnotation on a Node records the Drain under way on it. It is removed together with the cordon, or
// with the node.
const DrainAnnotation = "gpuscale.io/drain"

// Drain is the start, deadline and reason of a node's drain. It is recorded on the node, so that the next
// leader knows it.
//
// +kubebuilder:object:generate=false
type Drain struct {
	Started  time.Time `json:"started"`
	Deadline time.Time `json:"deadline"`
	Reason   string    `json:"reason"`
}

// DrainOf reads the drain on a node; ok is false where there is none.
func DrainOf(node metav1.Object) (d Drain, ok bool, err error) {
	text, ok := node.GetAnnotations()[DrainAnnotation]
	if !ok {
		return Drain{}, false, nil
	}
	d, err = parseDrain(text)
	return d, true, err
}

// parseDrain reads the annotation's text.
func parseDrain(text string) (Drain, error) {
	var d Drain
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return Drain{}, fmt.Errorf("annotation %s: %w", DrainAnnotation, err)
	}
	switch {
	case d.Started.IsZero():
		return Drain{}, fmt.Errorf("annotation %s: the start is missing", DrainAnnotation)
	case d.Deadline.IsZero():
		return Drain{}, fmt.Errorf("annotation %s: the deadline is missing", DrainAnnotation)
	case d.Deadline.Before(d.Started):
		return Drain{}, fmt.Errorf("annotation %s: the deadline is before the start", DrainAnnotation)
	}
	return d, nil
}

// String renders the annotation's text.
func (d Drain) String() string {
	b, _ := json.Marshal(d) // fails for a time beyond year 9999: parseDrain refuses an empty text
	return string(b)
}
