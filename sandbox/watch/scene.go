package watch

import (
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/sandbox/story"
)

// Scene is the part of the cluster's state that stories use.
type Scene struct {
	Nodes  []Node
	Pods   []Pod
	Wanted int // spec.replicas of the served Deployment; -1: unknown
}

// Node is a node of one of the story's pools.
type Node struct {
	Name, Pool  string
	Given       bool // one of the story's initial nodes
	Ready       bool // ready, and its devices are there
	GPUs        int
	Price       float64
	Allocatable map[string]int64 // NVIDIA devices by resource
	// Operation is the repartition that is under way; empty for none.
	Operation string
	// Undone reports that mig.config has its value from before the operation.
	Undone bool
	State  string // of mig-manager
}

// Pod is a pod that requests GPUs and has not ended.
type Pod struct {
	Key, Node string
	Requests  map[string]int
	Serves    bool
	Ready     bool
}

// sceneOf makes a Scene from cached objects.
func sceneOf(s story.Story, nodes []*corev1.Node, pods []*corev1.Pod, wanted int) Scene {
	out := Scene{Wanted: wanted}
	given := map[string]bool{}
	for _, n := range s.Nodes {
		given[n.Name] = true
	}
	for _, n := range nodes {
		for _, p := range s.Pools {
			if p.Name == n.Labels[v1alpha1.NodePoolLabel] {
				out.Nodes = append(out.Nodes, nodeOf(n, p, given[n.Name]))
			}
		}
	}
	for _, p := range pods {
		if pod, ok := podOf(s, p); ok {
			out.Pods = append(out.Pods, pod)
		}
	}
	sort.Slice(out.Nodes, func(i, j int) bool { return out.Nodes[i].Name < out.Nodes[j].Name })
	sort.Slice(out.Pods, func(i, j int) bool { return out.Pods[i].Key < out.Pods[j].Key })
	return out
}

func nodeOf(n *corev1.Node, p story.Pool, given bool) Node {
	out := Node{
		Name: n.Name, Pool: p.Name, Given: given, GPUs: p.GPUs, Price: p.Price,
		Allocatable: partition.Advertised(n), State: n.Labels[contract.StateLabel],
	}
	out.Ready = kube.NodeReady(n) && len(out.Allocatable) > 0
	if r, ok, err := contract.RecordOf(n); ok && err == nil {
		out.Operation = r.ID
		out.Undone = r.Undo != nil
	}
	return out
}

func podOf(s story.Story, p *corev1.Pod) (Pod, bool) {
	if kube.IsOver(p) || p.DeletionTimestamp != nil {
		return Pod{}, false
	}
	out := Pod{Key: p.Namespace + "/" + p.Name, Node: p.Spec.NodeName, Ready: kube.PodReady(p), Requests: map[string]int{}}
	for _, c := range p.Spec.Containers {
		for name, q := range c.Resources.Limits {
			if strings.HasPrefix(string(name), "nvidia.com/") {
				out.Requests[string(name)] += int(q.Value())
			}
		}
	}
	if t := s.Traffic; t != nil {
		out.Serves = p.Namespace == t.Namespace && p.Labels["app"] == t.Name
	}
	return out, len(out.Requests) > 0
}

// short is a resource's name in the view: "3g.40gb", "gpu".
func short(resource string) string {
	if name, ok := mig.ProfileOfResource(resource); ok {
		return name
	}
	return strings.TrimPrefix(resource, "nvidia.com/")
}
