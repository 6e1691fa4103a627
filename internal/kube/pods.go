package kube

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"
)

// ExtendedRequests returns a pod's effective requests of extended resources, as
// the scheduler counts them: init containers, sidecars and pod-level resources
// included. Amounts are whole numbers.
func ExtendedRequests(p *corev1.Pod) map[string]int64 {
	return Extended(resource.PodRequests(p, resource.PodResourcesOptions{}))
}

// Extended keeps the extended resources of a list.
func Extended(list corev1.ResourceList) map[string]int64 {
	out := map[string]int64{}
	for name, q := range list {
		if strings.Contains(string(name), "/") {
			out[string(name)] = q.Value()
		}
	}
	return out
}

// daemonAnnotation is cluster-autoscaler's: with "true" a pod counts as one of a DaemonSet.
const daemonAnnotation = "cluster-autoscaler.kubernetes.io/daemonset-pod"

// IsDaemon reports whether a pod belongs to its node: it is of a DaemonSet, is annotated to count as such,
// is a static pod's mirror, or stands in for other pods ([StandsIn]).
func IsDaemon(p *corev1.Pod) bool {
	if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; mirror || p.Annotations[daemonAnnotation] == "true" || StandsIn(p) {
		return true
	}
	ref := metav1.GetControllerOfNoCopy(p)
	return ref != nil && ref.Kind == "DaemonSet"
}

// KAI's own pods, by namespace and label.
const (
	kaiLabel                = "app"
	kaiReservationNamespace = "kai-resource-reservation"
	kaiReservationApp       = "kai-resource-reservation"
	kaiScalingNamespace     = "kai-scale-adjust"
	kaiScalingApp           = "scaling-pod"
)

// StandsIn reports whether a pod is one of KAI's that requests a GPU for pods that request parts of GPUs. The demand of
// those pods is read instead. A reservation pod has the GPU while they use it: KAI deletes it after the last of them,
// and deletes them if it is gone before (0.17.0, pkg/binder/binding/resourcereservation). A scaling pod, without a
// node, requests a GPU from autoscalers.
func StandsIn(p *corev1.Pod) bool {
	switch p.Namespace {
	case kaiReservationNamespace:
		return p.Labels[kaiLabel] == kaiReservationApp
	case kaiScalingNamespace:
		return p.Labels[kaiLabel] == kaiScalingApp
	}
	return false
}

// Owner returns a pod's controller, "Kind/name", empty for none. A ReplicaSet of a Deployment is named
// after it and the pod's template hash.
func Owner(p *corev1.Pod) string {
	ref := metav1.GetControllerOfNoCopy(p)
	if ref == nil {
		return ""
	}
	hash := p.Labels["pod-template-hash"]
	if name, ok := strings.CutSuffix(ref.Name, "-"+hash); ok && ref.Kind == "ReplicaSet" && hash != "" {
		return "Deployment/" + name
	}
	return ref.Kind + "/" + ref.Name
}

// IsOver reports whether all containers of a pod have ended for good: nothing is
// allocated to it.
func IsOver(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// PodReady reports whether a pod's condition Ready is True.
func PodReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// NodeReady reports whether a node's condition Ready is True.
func NodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
