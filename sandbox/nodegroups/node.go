package nodegroups

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/plan"
)

// kwokAnnotation makes KWOK simulate a node.
const kwokAnnotation = "kwok.x-k8s.io/node"

// ProviderID returns the providerID by which a node's group knows it.
func ProviderID(node string) string { return "kwok://" + node }

// newNode returns a new node of the pool. With ExternalBoot it has neither KWOK's annotation nor devices; the
// simulated boot adds both.
func (m *Maker) newNode(name string, pool *v1alpha1.GPUNodePool, t plan.Template, layout partition.NodeLayout) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: maps.Clone(t.Labels), Annotations: map[string]string{}},
		Spec:       corev1.NodeSpec{ProviderID: ProviderID(name)},
	}
	node.Labels[corev1.LabelHostname] = name
	node.Labels[corev1.LabelOSStable] = "linux"
	node.Labels[corev1.LabelArchStable] = "amd64"
	for _, taint := range t.Taints {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{
			Key: taint.Key, Value: taint.Value, Effect: corev1.TaintEffect(taint.Effect),
		})
	}
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:    pool.Spec.Template.CPU.DeepCopy(),
		corev1.ResourceMemory: pool.Spec.Template.Memory.DeepCopy(),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	if !m.ExternalBoot {
		node.Annotations[kwokAnnotation] = "fake"
		addDevices(capacity, t, layout)
	}
	node.Status.Capacity, node.Status.Allocatable = capacity, capacity.DeepCopy()
	return node
}

// resourceOf is the resource name under which a product's device plugin offers whole devices.
func resourceOf(m gpu.Model) string {
	switch {
	case m.Vendor == "huawei":
		return "huawei.com/Ascend" + demand.AscendChip(m.Name)
	case wholeDevices[m.Vendor] != "":
		return wholeDevices[m.Vendor]
	}
	return partition.GPUResource
}

var wholeDevices = map[string]string{"amd": "amd.com/gpu", "intel": "gpu.intel.com/i915", "google": "google.com/tpu"}

func addDevices(capacity corev1.ResourceList, t plan.Template, layout partition.NodeLayout) {
	devices := map[string]int64{}
	switch {
	case layout != nil:
		devices = layout.Resources()
	case len(t.GPUs) > 0 && !t.GPUs[0].Shared:
		devices[resourceOf(t.GPUs[0].Model)] = int64(len(t.GPUs))
	}
	for _, o := range t.Others {
		devices[o.Name] = o.Amount
	}
	for name, n := range devices {
		capacity[corev1.ResourceName(name)] = *resource.NewQuantity(n, resource.DecimalSI)
	}
}
