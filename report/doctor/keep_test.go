package doctor

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestKeepPod: the pods that checks read are kept.
func TestKeepPod(t *testing.T) {
	pod := func(image string, resources ...corev1.ResourceName) *corev1.Pod {
		c := corev1.Container{Image: image}
		for _, r := range resources {
			c.Resources.Limits = corev1.ResourceList{r: resource.MustParse("1")}
		}
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "sidecar"}, c}}}
	}
	ended := pod("server", "nvidia.com/gpu")
	ended.Status.Phase = corev1.PodSucceeded
	ours := pod("x")
	ours.Labels = map[string]string{labelPartOf: partOf}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"a web server":                  {pod("nginx", "cpu"), false},
		"one that requests a GPU":       {pod("server", "nvidia.com/gpu"), true},
		"one that requests an instance": {pod("server", "nvidia.com/mig-1g.10gb"), true},
		"one that has ended":            {ended, false},
		"ours by label":                 {ours, true},
		"ours by image":                 {pod("registry.example:5000/a/gpuscale-exporter:v1@sha256:0"), true},
		"NVIDIA's exporter":             {pod("nvcr.example/nvidia/k8s/dcgm-exporter:4.5"), true},
		"mig-manager":                   {pod("nvcr.example/nvidia/cloud-native/k8s-mig-manager:v1"), true},
		"one whose tag is misleading":   {pod("nginx:dcgm-exporter"), false},
	} {
		if got := keepPod(c.pod); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
