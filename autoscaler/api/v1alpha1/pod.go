package v1alpha1

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EvictFromAnnotation on a Pod is the time, in RFC 3339, from which it may be evicted without
// losing work. A job sets it to the time at which its next checkpoint will be saved.
const EvictFromAnnotation = "gpuscale.io/evict-from"

// CheckpointEveryAnnotation on a Pod is the interval at which the job saves its work, counted from the
// pod's start: a duration of 5m or more, such as 30m. A pod template can have it, so no job has to update
// it. The pod may be evicted from the end of each interval until a tenth of it, at least a minute, has passed.
const CheckpointEveryAnnotation = "gpuscale.io/checkpoint-every"

// Annotations of gpuscale and of cluster-autoscaler. With "false" or "on-completion" a running Pod must not be
// evicted. With "true" it may be, although it has local storage or no controller that creates it again.
const (
	SafeToEvictAnnotation      = "gpuscale.io/safe-to-evict"
	OtherSafeToEvictAnnotation = "cluster-autoscaler.kubernetes.io/safe-to-evict"
)

// Pinned returns why a pod must not be evicted, empty if it may be: an annotation forbids it, or no controller creates
// the pod again and no annotation says that none has to.
func Pinned(pod metav1.Object) string {
	a := pod.GetAnnotations()
	for _, key := range []string{SafeToEvictAnnotation, OtherSafeToEvictAnnotation} {
		if a[key] == "false" || a[key] == "on-completion" {
			return fmt.Sprintf("annotation %s is %s", key, a[key])
		}
	}
	switch {
	case a[DoNotDisruptAnnotation] == "true":
		return "annotation " + DoNotDisruptAnnotation + " is true"
	case metav1.GetControllerOfNoCopy(pod) == nil && !saysSafe(pod):
		return "no controller would create it again"
	}
	return ""
}

func saysSafe(pod metav1.Object) bool {
	a := pod.GetAnnotations()
	return a[SafeToEvictAnnotation] == "true" || a[OtherSafeToEvictAnnotation] == "true"
}

// DoNotDisruptAnnotation is Karpenter's. On a Pod, "true" forbids its eviction, and a positive duration
// forbids it for that long after the pod's start. Other values have no effect. On a Node, "true" excludes
// it from scale-down.
const DoNotDisruptAnnotation = "karpenter.sh/do-not-disrupt"

// KeepsNode reports a pod of a DaemonSet with DoNotDisruptAnnotation. Karpenter does not remove its node by itself. If
// the node is removed all the same, Karpenter drains it without end (1.14, pkg/controllers/node/termination).
func KeepsNode(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "DaemonSet" && pod.Annotations[DoNotDisruptAnnotation] == "true"
}

// LocalVolumesAnnotation is cluster-autoscaler's. On a Pod it lists the volumes whose content may be
// lost, separated by commas.
const LocalVolumesAnnotation = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"

// EvictFrom returns the time from which a pod may be evicted, zero for any time: the latest of those that
// gpuscale's annotations and Karpenter's duration state. CheckpointEveryAnnotation states the start of the
// window that now is in or, between windows, of the next one. On an error the pod must not be evicted.
func EvictFrom(pod *corev1.Pod, now time.Time) (time.Time, error) {
	at, err := evictFrom(pod)
	if err != nil {
		return time.Time{}, err
	}
	text, ok := pod.Annotations[CheckpointEveryAnnotation]
	if !ok {
		return at, nil
	}
	every, err := time.ParseDuration(text)
	switch {
	case err != nil || every < leastCheckpoint:
		return time.Time{}, fmt.Errorf("annotation %s: %q: want a duration of %s or more, such as 30m", CheckpointEveryAnnotation, text, leastCheckpoint)
	case pod.Spec.NodeName == "":
		return at, nil
	case pod.Status.StartTime == nil:
		return time.Time{}, fmt.Errorf("annotation %s: %s from the pod's start, and the pod has not started", CheckpointEveryAnnotation, every)
	}
	first := pod.Status.StartTime.Add(every)
	if now.Before(at) {
		now = at // the first window that is not before it
	}
	past := max(now.Sub(first), 0)
	window := first.Add(past - past%every)
	if past%every > max(every/10, leastCheckpoint/5) {
		window = window.Add(every)
	}
	if window.After(at) {
		at = window
	}
	return at, nil
}

// leastCheckpoint is the shortest valid CheckpointEveryAnnotation. A window lasts at least a fifth of it.
const leastCheckpoint = 5 * time.Minute

func evictFrom(pod *corev1.Pod) (time.Time, error) {
	at := time.Time{}
	if text, ok := pod.Annotations[EvictFromAnnotation]; ok {
		var err error
		if at, err = time.Parse(time.RFC3339, text); err != nil {
			return time.Time{}, fmt.Errorf("annotation %s: %q: want a time such as 2026-11-21T09:00:00Z", EvictFromAnnotation, text)
		}
	}
	whole, err := time.ParseDuration(pod.Annotations[DoNotDisruptAnnotation])
	switch {
	case err != nil || whole <= 0 || pod.Spec.NodeName == "":
		return at, nil
	case pod.Status.StartTime == nil:
		return time.Time{}, fmt.Errorf("annotation %s: %s from the pod's start, and the pod has not started", DoNotDisruptAnnotation, whole)
	}
	if until := pod.Status.StartTime.Add(whole); until.After(at) {
		at = until
	}
	return at, nil
}

// HasLocalStorage reports whether a pod has a volume whose content is lost with the pod or its node,
// as cluster-autoscaler defines it: a hostPath, or an emptyDir that is not in memory. Volumes in
// LocalVolumesAnnotation do not count, nor does any volume of a pod whose safe-to-evict is "true".
func HasLocalStorage(pod *corev1.Pod) bool {
	if saysSafe(pod) {
		return false
	}
	safe := strings.Split(pod.Annotations[LocalVolumesAnnotation], ",")
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return IsLocal(&v) && !slices.Contains(safe, v.Name) })
}

// IsLocal reports whether the content of a volume is on its node's disk.
func IsLocal(v *corev1.Volume) bool {
	return v.HostPath != nil || v.EmptyDir != nil && v.EmptyDir.Medium != corev1.StorageMediumMemory
}
