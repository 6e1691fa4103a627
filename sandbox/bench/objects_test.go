package bench

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/sandbox/neighbours"
)

const (
	system, work = "gpuscale-system", "work" // namespaces
	base         = "base"

	product    = "NVIDIA-H100-80GB-HBM3"
	gpusOfNode = 8
	gpu        = "nvidia.com/gpu"
)

// offers are the resources and labels that kubelet, GFD and the device plugin give a node.
var offers = neighbours.Nodes{
	Offers: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("128"), corev1.ResourceMemory: resource.MustParse("2Ti"), corev1.ResourcePods: resource.MustParse("110"),
		gpu: *resource.NewQuantity(gpusOfNode, resource.DecimalSI),
	},
	Labels: map[string]string{
		corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": product, "nvidia.com/gpu.count": "8", "nvidia.com/gpu.memory": "81559",
	},
}

// podOf returns a pod that requests GPUs, and one CPU and 8 GiB for each of them. node may be empty.
func podOf(name, node string, gpus int) *corev1.Pod {
	list := corev1.ResourceList{
		gpu: *resource.NewQuantity(int64(gpus), resource.DecimalSI), corev1.ResourceCPU: *resource.NewQuantity(int64(gpus), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(gpus)<<33, resource.BinarySI),
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: work, Name: name},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Name: "main", Image: "bench.invalid/main", Resources: corev1.ResourceRequirements{Requests: list, Limits: list},
		}}},
	}
}

// requests is the number of GPUs that the nth pod of the burst requests.
func requests(n int) int { return n%gpusOfNode + 1 }

// bound is the minimum number of nodes for a burst.
func bound(pods int) int {
	gpus := 0
	for n := range pods {
		gpus += requests(n)
	}
	return (gpus + gpusOfNode - 1) / gpusOfNode
}
