package world

import (
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/nodegroups"
	"github.com/gpuscale/gpuscale/sandbox/story"
)

// appLabel is the label that connects a workload with its pods.
const appLabel = "app"

// poolObject is the GPUNodePool of a story's pool.
func poolObject(p story.Pool) *v1alpha1.GPUNodePool {
	price := resource.MustParse(strconv.FormatFloat(p.Price, 'f', 2, 64))
	out := &v1alpha1.GPUNodePool{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "GPUNodePool"},
		ObjectMeta: metav1.ObjectMeta{Name: p.Name},
		Spec: v1alpha1.GPUNodePoolSpec{
			Min: int32(p.Min), Max: int32(p.Max),
			Provider: nodegroups.Of(p.Name),
			Template: v1alpha1.NodeTemplate{
				Product: p.Product, GPUs: int32(p.GPUs),
				CPU:    *resource.NewQuantity(int64(p.CPU), resource.DecimalSI),
				Memory: *resource.NewQuantity(int64(p.MemoryGiB)<<30, resource.BinarySI),
			},
			PricePerHour: &price,
			ReadyAfter:   &metav1.Duration{Duration: p.Boot + 3*time.Second},
			ScaleDown:    v1alpha1.ScaleDown{IdleAfter: &metav1.Duration{Duration: p.ScaleDownAfter}},
		},
	}
	if len(p.Layout) > 0 {
		boot := make([]map[string]int32, len(p.Layout))
		for i, counts := range p.Layout {
			boot[i] = map[string]int32{}
			for name, n := range counts {
				boot[i][name] = int32(n)
			}
		}
		out.Spec.MIG = &v1alpha1.MIG{Actuator: "mig-manager", BootLayout: boot, IdleAfter: &metav1.Duration{Duration: p.IdleAfter}}
	}
	return out
}

// deployment of a workload.
func deployment(w story.Workload) *appsv1.Deployment {
	labels := map[string]string{appLabel: w.Name}
	limits := corev1.ResourceList{
		corev1.ResourceName(w.Resource): *resource.NewQuantity(int64(w.Count), resource.DecimalSI),
		corev1.ResourceCPU:              resource.MustParse("2"),
		corev1.ResourceMemory:           resource.MustParse("16Gi"),
	}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{},
			Containers: []corev1.Container{{
				Name: "main", Image: "sandbox.invalid/" + w.Name, Resources: corev1.ResourceRequirements{Limits: limits},
			}},
		},
	}
	if w.Node != "" {
		template.Spec.NodeSelector[corev1.LabelHostname] = w.Node
	}
	if w.Pool != "" {
		template.Spec.NodeSelector[v1alpha1.NodePoolLabel] = w.Pool
	}
	if w.Model != "" {
		template.Annotations = map[string]string{cluster.AnnotationReadyAfter: w.Load.String()}
	}
	replicas := int32(w.Replicas)
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
		},
	}
}

// workloadOf returns the story's workload that a pod belongs to.
func workloadOf(s story.Story, p *corev1.Pod) (story.Workload, bool) {
	for _, w := range s.Workloads {
		if w.Namespace == p.Namespace && w.Name == p.Labels[appLabel] {
			return w, true
		}
	}
	return story.Workload{}, false
}

func podKey(p *corev1.Pod) string { return fmt.Sprintf("%s/%s", p.Namespace, p.Name) }
