package doctor

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// KeepPod reports whether checks read a pod: a program of ours or of a neighbour, or one
// that requests devices and has not ended. Other pods are dropped page by page.
func KeepPod(p *corev1.Pod) bool {
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return false
	}
	if isOurs(p.Labels) {
		return true
	}
	for _, c := range p.Spec.Containers {
		if neighbour(image(c.Image)) || strings.HasPrefix(image(c.Image), partOf+"-") {
			return true
		}
		for name := range c.Resources.Limits {
			if strings.HasPrefix(string(name), "nvidia.com/") {
				return true
			}
		}
	}
	return false
}

// neighbour reports whether an image is of a program that checks read.
func neighbour(image string) bool {
	for _, known := range []string{"dcgm-exporter", "cluster-autoscaler", "k8s-mig-manager", "k8s-device-plugin"} {
		if strings.Contains(image, known) {
			return true
		}
	}
	return false
}

// Trim drops large fields that no check reads.
func Trim(m *corev1.Node) {
	m.Status.Images = nil
}
