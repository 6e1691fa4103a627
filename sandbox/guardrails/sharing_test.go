package guardrails

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// TestDividedGPUs: another project's scheduler divides GPUs, here qGPU's. kube-scheduler binds pods with half
// a GPU to the nodes that were added for them, starting from zero nodes, and not one node too many is added.
// When the pods are gone, all nodes are removed.
func TestDividedGPUs(t *testing.T) {
	w := newWorld(t, setup{})
	w.pool("qgpu", 0, 5, func(p *v1alpha1.GPUNodePool) {
		p.Spec.Template.GPUs = 2
		p.Spec.Template.Sharing = &v1alpha1.GPUSharing{Strategy: "qgpu"}
	})
	d := w.work("half", "qgpu", 9, 1, func(p *corev1.PodTemplateSpec) {
		half := corev1.ResourceList{"tke.cloud.tencent.com/qgpu-core": resource.MustParse("50"), "tke.cloud.tencent.com/qgpu-memory": resource.MustParse("4")}
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: half, Limits: half}
	})
	w.await("the halves are pending", w.waits("half", 9))
	w.until("all halves run", w.runs("half", 9))
	w.reconciles(3)
	if n := len(w.nodes("qgpu")); n != 3 {
		t.Errorf("%d nodes for nine halves, four to a node", n)
	}
	w.await("the Deployment is scaled down", func() error {
		w.must(w.Admin.Get(t.Context(), client.ObjectKeyFromObject(d), d))
		d.Spec.Replicas = ptr.To[int32](0)
		return w.Admin.Update(t.Context(), d)
	})
	w.until("empty nodes go", w.goesOn("qgpu", 0))
}
