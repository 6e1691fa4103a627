package pools

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// Conflicts finds the pools that must not be acted on because of others: of two with the same
// target the newer one. The errors are of type *Problem.
func Conflicts(all []v1alpha1.GPUNodePool) map[string]error {
	out, owner := map[string]error{}, map[string]string{}
	for _, pool := range slices.SortedFunc(slices.Values(all), func(a, b v1alpha1.GPUNodePool) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	}) {
		key, field := targetKey(&pool)
		if other, taken := owner[key]; taken && key != "" {
			out[pool.Name] = &Problem{ReasonShared, field,
				fmt.Sprintf("pool %s names the same target and is older", other), "two pools cannot share nodes: delete one, or name another target"}
			continue
		}
		owner[key] = pool.Name
	}
	return out
}

// targetKey is equal for pools over the same nodes; empty for a fixed pool.
func targetKey(pool *v1alpha1.GPUNodePool) (key, field string) {
	switch p := pool.Spec.Provider; {
	case p.Scale != nil:
		kind := schema.FromAPIVersionAndKind(p.Scale.APIVersion, p.Scale.Kind).GroupKind() // versions are views of the same object
		return fmt.Sprintf("scale/%s/%s/%s", kind, p.Scale.Namespace, p.Scale.Name), fieldScale
	case p.ASG != nil:
		return "asg/" + p.ASG.Region + "/" + p.ASG.Name, fieldASG
	case p.ExternalGRPC != nil:
		return "grpc/" + p.ExternalGRPC.Name + "/" + p.ExternalGRPC.NodeGroup, fieldGRPC
	}
	return "", ""
}

// Foreign finds the pools with foreign nodes: nodes with the pool's label that Karpenter made for another NodePool than
// the pool's own target. Karpenter would consolidate them away, so they are no nodes of the pool. Stopped are the pools
// that have foreign nodes only. No action is taken on them: their label is in the template of Karpenter's NodePool, so
// both would add nodes for the same pods. Beside are those that have nodes of their own too. The errors are of type
// *Problem.
func Foreign(all []v1alpha1.GPUNodePool, nodes []corev1.Node) (stopped, beside map[string]error) {
	byName := make(map[string]*v1alpha1.GPUNodePool, len(all))
	for i := range all {
		byName[all[i].Name] = &all[i]
	}
	stopped, beside = map[string]error{}, map[string]error{}
	for i := range nodes {
		pool := byName[nodes[i].Labels[v1alpha1.NodePoolLabel]]
		if pool == nil || !IsForeign(pool, nodes[i].Labels) {
			continue
		}
		stopped[pool.Name] = cmp.Or[error](stopped[pool.Name], &Problem{ReasonForeign, "spec.provider",
			fmt.Sprintf("node %s has the pool's label and was made by Karpenter's NodePool %s", nodes[i].Name, nodes[i].Labels[labelKarpenterFor]),
			"remove the label " + v1alpha1.NodePoolLabel + " from that NodePool's template, or name the NodePool as the pool's target"})
	}
	for i := range nodes {
		if name := nodes[i].Labels[v1alpha1.NodePoolLabel]; stopped[name] != nil && !IsForeign(byName[name], nodes[i].Labels) {
			beside[name] = stopped[name]
			delete(stopped, name)
		}
	}
	return stopped, beside
}

// IsForeign reports whether Karpenter made a node with these labels for another NodePool than the pool's target.
func IsForeign(pool *v1alpha1.GPUNodePool, node map[string]string) bool {
	_, made := node[labelKarpenterFor]
	return made && !IsTargetOf(pool, node)
}

// IsTargetOf reports whether Karpenter makes a node with these labels for the NodePool that is the pool's target.
func IsTargetOf(pool *v1alpha1.GPUNodePool, node map[string]string) bool {
	made, ok := node[labelKarpenterFor]
	p := pool.Spec.Provider.Scale
	return ok && p != nil && p.Name == made && schema.FromAPIVersionAndKind(p.APIVersion, p.Kind).GroupKind() == schema.GroupKind{Group: karpenterGroup, Kind: "NodePool"}
}
