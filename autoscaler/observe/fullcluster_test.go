package observe

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// index is a fake of a synced cache: a list is a shallow copy, as controller-runtime's without deep
// copies. It has no other objects.
type index struct {
	client.Reader
	nodes []corev1.Node
	pods  []corev1.Pod
	pools []v1alpha1.GPUNodePool
}

func (s *index) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch l := list.(type) {
	case *corev1.NodeList:
		l.Items = append([]corev1.Node(nil), s.nodes...)
	case *corev1.PodList:
		l.Items = append([]corev1.Pod(nil), s.pods...)
	case *v1alpha1.GPUNodePoolList:
		l.Items = append([]v1alpha1.GPUNodePool(nil), s.pools...)
	}
	return nil
}

func (s *index) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, key.Name)
}

// sizes is a fake of the providers: each pool has the requested size.
type sizes struct{}

func (sizes) List(context.Context, *v1alpha1.GPUNodePool) (pools.Listing, error) {
	return pools.Listing{Target: 1}, nil
}

func (sizes) Learn(*v1alpha1.GPUNodePool, int, []*corev1.Node) pools.Learned { return pools.Learned{} }

// fullCluster has nodes of 8 GPUs, all allocated: to one pod, to two, or to eight.
func fullCluster(nodes int) *index {
	s := &index{pools: []v1alpha1.GPUNodePool{*pool("p")}}
	for n := range nodes {
		node := node(fmt.Sprintf("node-%05d", n), corev1.ResourceList{"cpu": resource.MustParse("128"), "nvidia.com/gpu": resource.MustParse("8")})
		node.UID, node.Labels[partition.CountLabel], node.ResourceVersion = types.UID(node.Name), "8", "1"
		s.nodes = append(s.nodes, *node)
		each := []int{8, 4, 1}[n%3]
		for i := range 8 / each {
			s.pods = append(s.pods, *benchPod(fmt.Sprintf("pod-%05d-%d", n, i), node.Name, each))
		}
	}
	return s
}

func benchPod(name, on string, gpus int) *corev1.Pod {
	list := corev1.ResourceList{
		"cpu": *resource.NewQuantity(int64(gpus), resource.DecimalSI), "memory": *resource.NewQuantity(int64(gpus)<<30, resource.BinarySI),
		"nvidia.com/gpu": *resource.NewQuantity(int64(gpus), resource.DecimalSI),
	}
	p := pod(name, on, list)
	p.UID, p.ResourceVersion, p.Labels = types.UID(name), "1", map[string]string{"app": "train", "pod-template-hash": "5b8d7c9f6d"}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "train-5b8d7c9f6d", UID: "rs", Controller: ptr.To(true)}}
	p.Spec.Containers[0].Resources.Limits = list
	p.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}
	p.Status.Phase = corev1.PodRunning
	return p
}

// answersOf returns Prometheus' answers for a full cluster.
func answersOf(s *index) Answers {
	var a Answers
	add := func(v *prom.Vector, value float64, labels ...string) { *v = append(*v, series(value, labels...)) }
	podsOn := map[string][]*corev1.Pod{}
	for i := range s.pods {
		p := &s.pods[i]
		podsOn[p.Spec.NodeName] = append(podsOn[p.Spec.NodeName], p)
	}
	for i := range s.nodes {
		name := s.nodes[i].Name
		add(&a.Age, 1, "node", name)
		for c := range 8 {
			who := ""
			if n := len(podsOn[name]); n > 0 {
				who = podsOn[name][c*n/8].Name
			}
			device := []string{"node", name, "gpu", strconv.Itoa(c), "gpu_uuid", fmt.Sprintf("GPU-%s-%d", name, c)}
			add(&a.Info, 1, append(device, "model", "NVIDIA H100 80GB HBM3", "mig", "false", "pci_bus_id", "00000000:0F:00.0", "driver_version", "570.86.15")...)
			add(&a.Allocated, 1, append(device, "namespace", "chat", "pod", who, "container", "main")...)
			add(&a.Busy, 0.9, append(device, "model", "NVIDIA H100 80GB HBM3", "namespace", "chat", "pod", who)...)
			add(&a.SampleAge, 1, device...)
			add(&a.Healthy, 1, device...)
		}
	}
	return a
}
