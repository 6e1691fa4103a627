package v1alpha1

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EvictFromAnnotation on a Pod is the time, in RFC 3339, from which it may be evicted without
// losing work: a job writes when its next checkpoint will be safe.
const EvictFromAnnotation = "gpuscale.io/evict-from"

// Annotations by which a Pod must not be evicted with "false": gpuscale's, and that of
// cluster-autoscaler.
const (
	SafeToEvictAnnotation      = "gpuscale.io/safe-to-evict"
	OtherSafeToEvictAnnotation = "cluster-autoscaler.kubernetes.io/safe-to-evict"
)

// SafeToEvict reports whether no annotation forbids to evict a pod.
func SafeToEvict(pod metav1.Object) bool {
	a := pod.GetAnnotations()
	return a[SafeToEvictAnnotation] != "false" && a[OtherSafeToEvictAnnotation] != "false"
}

// EvictFrom returns the time from which a pod may be evicted, zero for any time. On an error the
// pod must not be evicted.
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
