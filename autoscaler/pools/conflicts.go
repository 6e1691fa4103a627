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
// target the newer one, and a pool with nodes that another autoscaler made. The errors are of type
// *Problem.
func Conflicts(all []v1alpha1.GPUNodePool, nodes []corev1.Node) map[string]error {
	out := map[string]error{}
	byAge := make([]*v1alpha1.GPUNodePool, 0, len(all))
	for i := range all {
		byAge = append(byAge, &all[i])
	}
	slices.SortFunc(byAge, func(a, b *v1alpha1.GPUNodePool) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	owner := map[string]string{}
	for _, pool := range byAge {
		key, field := targetKey(pool)
		if key == "" {
			continue
		}
		if other, taken := owner[key]; taken {
			out[pool.Name] = &Problem{ReasonShared, field,
				fmt.Sprintf("pool %s names the same target and is older", other), "two pools cannot share nodes: delete one, or name another target"}
			continue
		}
		owner[key] = pool.Name
	}
	foreignNodes(all, nodes, out)
	return out
}

// targetKey is equal for pools over the same nodes; empty for a fixed pool.
func targetKey(pool *v1alpha1.GPUNodePool) (key, field string) {
	switch p := pool.Spec.Provider; {
	case p.Scale != nil:
		// Versions of one group are views of the same object.
		gv, err := schema.ParseGroupVersion(p.Scale.APIVersion)
		if err != nil {
			return "", ""
		}
		return fmt.Sprintf("scale/%s/%s/%s/%s", gv.Group, p.Scale.Kind, p.Scale.Namespace, p.Scale.Name), fieldScale
	case p.ASG != nil:
		return "asg/" + p.ASG.Region + "/" + p.ASG.Name, fieldASG
	case p.ExternalGRPC != nil:
		return "grpc/" + p.ExternalGRPC.Name + "/" + p.ExternalGRPC.NodeGroup, fieldGRPC
	}
	return "", ""
}

// foreignNodes reports pools with nodes of a Karpenter NodePool other than the pool's own target:
// Karpenter would consolidate them away.
func foreignNodes(all []v1alpha1.GPUNodePool, nodes []corev1.Node, out map[string]error) {
	byName := make(map[string]*v1alpha1.GPUNodePool, len(all))
	for i := range all {
		byName[all[i].Name] = &all[i]
	}
	for i := range nodes {
		made, ok := nodes[i].Labels[labelKarpenterFor]
		if !ok {
			continue
		}
		pool := byName[nodes[i].Labels[v1alpha1.NodePoolLabel]]
		if pool == nil || out[pool.Name] != nil || isNodePool(pool.Spec.Provider.Scale, made) {
			continue
		}
		out[pool.Name] = &Problem{ReasonForeign, "spec.provider",
			fmt.Sprintf("node %s belongs to the pool and was made by Karpenter's NodePool %s", nodes[i].Name, made),
			"remove the label " + v1alpha1.NodePoolLabel + " from that NodePool's template, or name the NodePool as the pool's target"}
	}
}

func isNodePool(p *v1alpha1.ScaleProvider, name string) bool {
	if p == nil || p.Kind != "NodePool" || p.Name != name {
		return false
	}
	gv, err := schema.ParseGroupVersion(p.APIVersion)
	return err == nil && gv.Group == karpenterGroup
}
