package main

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
)

// Names of what the bench makes.
const (
	system = "gpuscale-system"
	work   = "work"
	// Pools: base is what is there and full, cut has MIG nodes with room, busy one
	// that is full of instances, gang room for five nodes.
	poolBase, poolCut, poolBusy, poolGang = "base", "cut", "busy", "gang"
)

const (
	product      = "NVIDIA-H100-80GB-HBM3"
	cardsOfNode  = 8
	onesOfCard   = 7
	whole        = "nvidia.com/gpu"
	one, half    = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"
	idleAfter    = 10 * time.Second
	instanceIdle = 5 * time.Second
)

const growPrefix = "grow-"

// growing names the nth of the pools that could grow.
func growing(n int) string { return fmt.Sprintf("%s%02d", growPrefix, n) }

// pool of nodes whose Node objects are the bench's own, or that a MachineDeployment
// makes. A cheaper pool is what the planner takes first.
func pool(name string, min, max int, price float64, deployed bool) *v1alpha1.GPUNodePool {
	cost := resource.MustParse(fmt.Sprintf("%.2f", price))
	p := &v1alpha1.GPUNodePool{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "GPUNodePool"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.GPUNodePoolSpec{
			Min: int32(min), Max: int32(max), PricePerHour: &cost,
			Provider: v1alpha1.Provider{KWOK: &v1alpha1.KWOKProvider{ExternalBoot: true}},
			Template: v1alpha1.NodeTemplate{
				Product: product, Cards: cardsOfNode, CPU: resource.MustParse("128"), Memory: resource.MustParse("2Ti"),
			},
			ReadyAfter: &metav1.Duration{Duration: time.Minute},
			ScaleDown:  v1alpha1.ScaleDown{IdleAfter: &metav1.Duration{Duration: idleAfter}},
		},
	}
	if deployed {
		p.Spec.Provider = v1alpha1.Provider{Scale: &v1alpha1.ScaleProvider{
			APIVersion: capi.String(), Kind: "MachineDeployment", Namespace: system, Name: name,
		}}
	}
	return p
}

// inOnes makes a pool boot with seven instances on each card.
func inOnes(p *v1alpha1.GPUNodePool) *v1alpha1.GPUNodePool {
	p.Spec.MIG = &v1alpha1.MIG{
		Actuator: partition.ActuatorManager, BootLayout: []map[string]int32{{"1g.10gb": onesOfCard}},
		IdleAfter: &metav1.Duration{Duration: instanceIdle},
	}
	return p
}

func machineDeployment(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(0)}}}
	u.SetGroupVersionKind(capi.WithKind("MachineDeployment"))
	u.SetNamespace(system)
	u.SetName(name)
	return u
}

func podGroup(name string, least int) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"minMember": int64(least)}}}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Kind: "PodGroup"})
	u.SetNamespace(work)
	u.SetName(name)
	return u
}

// nodeOf is a node as kubelet, GFD and the device plugin leave it.
func nodeOf(name, pool string) *corev1.Node {
	offers := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("128"), corev1.ResourceMemory: resource.MustParse("2Ti"), corev1.ResourcePods: resource.MustParse("110"),
		whole: resource.MustParse("8"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{cluster.AnnotationFake: "fake"},
			Labels: map[string]string{
				v1alpha1.NodePoolLabel: pool, corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
				"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": product, "nvidia.com/gpu.count": "8", "nvidia.com/gpu.memory": "81559",
				"nvidia.com/mig.capable": "true", "nvidia.com/mig.strategy": "mixed",
			},
		},
		Status: corev1.NodeStatus{Capacity: offers, Allocatable: maps.Clone(offers)},
	}
}

// onesLayout is what mig-manager has made of a node of seven instances a card.
func onesLayout() partition.NodeLayout {
	l := make(partition.NodeLayout, cardsOfNode)
	for i := range l {
		l[i] = partition.CardLayout{MIG: true, Counts: map[string]int{"1g.10gb": onesOfCard}}
	}
	return l
}

func cutNodeOf(name, pool string) *corev1.Node {
	n := nodeOf(name, pool)
	n.Labels[partition.ConfigLabel], n.Labels[partition.StateLabel] = onesLayout().Name(), partition.StateSuccess
	for _, list := range []corev1.ResourceList{n.Status.Capacity, n.Status.Allocatable} {
		delete(list, whole)
		list[one] = *resource.NewQuantity(cardsOfNode*onesOfCard, resource.DecimalSI)
	}
	return n
}

// bootedNode is what a machine of a pool boots into.
func bootedNode(name, pool string) *corev1.Node {
	if pool == poolCut {
		return cutNodeOf(name, pool)
	}
	return nodeOf(name, pool)
}

// podOf asks for so many of a resource, and for a processor for each card.
func podOf(name string, of corev1.ResourceName, n int) *corev1.Pod {
	cpu := n
	if of != whole {
		cpu = 1
	}
	list := corev1.ResourceList{
		of: *resource.NewQuantity(int64(n), resource.DecimalSI), corev1.ResourceCPU: *resource.NewQuantity(int64(cpu), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(cpu)<<33, resource.BinarySI),
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: work, Name: name, Labels: map[string]string{"app": "bench"}},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{},
			Containers:   []corev1.Container{{Name: "main", Image: "bench.invalid/main", Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}},
		},
	}
}

// wants is how many cards the nth pod of a burst asks for.
func wants(n int) int { return n%cardsOfNode + 1 }

// bound is how many nodes so many pods of a burst need at the least.
func bound(pods int) int {
	cards := 0
	for n := range pods {
		cards += wants(n)
	}
	return (cards + cardsOfNode - 1) / cardsOfNode
}
