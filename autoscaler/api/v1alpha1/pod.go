package v1alpha1

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EvictFromAnnotation on a Pod says from when on, in RFC 3339, it may be moved
// without losing work: a job writes there when its next checkpoint will be safe.
const EvictFromAnnotation = "gpuscale.io/evict-from"

// Annotations by which a Pod says with "false" that it must not be moved: ours,
// and the one that users of cluster-autoscaler have.
const (
	SafeToEvictAnnotation      = "gpuscale.io/safe-to-evict"
	OtherSafeToEvictAnnotation = "cluster-autoscaler.kubernetes.io/safe-to-evict"
)

// SafeToEvict reports whether a pod does not say that it must not be moved.
func SafeToEvict(pod metav1.Object) bool {
	a := pod.GetAnnotations()
	return a[SafeToEvictAnnotation] != "false" && a[OtherSafeToEvictAnnotation] != "false"
}

// EvictFrom reads from when on a pod may be moved, zero for any time. With an
// error nobody knows, and the pod must be left alone.
func EvictFrom(pod metav1.Object) (time.Time, error) {
	text, ok := pod.GetAnnotations()[EvictFromAnnotation]
	if !ok {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("annotation %s: %q: want a time such as 2026-11-21T09:00:00Z", EvictFromAnnotation, text)
	}
	return at, nil
}
