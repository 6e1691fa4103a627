package plan

import (
	"maps"
	"slices"
	"strings"
)

// before orders the options of a new node for a kind: by the pools' priority, then by
// cost, then by the datasets that their nodes have, then by the price of a node: a small
// node leaves when its one pod has ended, a large one when all have.
func (k *kind) before(a, b option) bool {
	p, q := a.pool, b.pool
	switch {
	case p.Priority != q.Priority:
		return p.Priority > q.Priority
	case a.cost != b.cost:
		return a.cost < b.cost
	}
	if data, others := len(k.cached(p.Template.Labels)), len(k.cached(q.Template.Labels)); data != others {
		return data > others
	}
	return p.price < q.price
}

// balanced replaces the best option by that of the smallest similar pool, where the policy
// balances pools. That pool must offer the same: an upcoming node, or a new one.
func (w *world) balanced(best option, p *pending) option {
	if !w.policy.BalanceSimilarNodeGroups {
		return best
	}
	like := best.pool
	for _, ps := range w.pools {
		if ps.size() >= best.pool.size() || !similar(like.Pool, ps.Pool) {
			continue
		}
		switch reason, _ := w.cannotScaleUp(p, ps); {
		case best.node >= 0 && w.models.hasSpare(p.kind, ps, reason):
			best = w.priced(p, ps, ps.spare[0])
		case best.node < 0 && reason == "":
			best = w.priced(p, ps, -1)
			best.balances = like.Name
		}
	}
	return best
}

// size is the number of a pool's nodes after this plan, with reserved and without unclaimed ones.
func (p *poolState) size() int { return p.base + p.grown + p.later - p.shrunk - len(p.spare) }

// similarity is how much CPU and memory of similar pools' nodes may differ, as a
// share of the larger: cluster-autoscaler's ratio for what is allocatable.
const similarity = 0.05

// placeLabels are labels in which similar pools may differ: where their nodes are, and the name of their group. They
// and machineLabels have all of cluster-autoscaler's (0470fdf, processors/nodegroupset) but AWS's lifecycle, here
// Pool.Spot.
var placeLabels = map[string]bool{
	hostnameLabel: true, "gpuscale.io/pool": true,
	"topology.kubernetes.io/zone": true, "failure-domain.beta.kubernetes.io/zone": true,
	"topology.kubernetes.io/region": true, "failure-domain.beta.kubernetes.io/region": true,
	"topology.ebs.csi.aws.com/zone": true, "topology.gke.io/zone": true, "topology.disk.csi.azure.com/zone": true,
	"topology.k8s.aws/zone-id": true, "k8s.amazonaws.com/eniConfig": true,
	"kops.k8s.io/instancegroup": true, "alpha.eksctl.io/nodegroup-name": true, "alpha.eksctl.io/instance-id": true,
	"agentpool": true, "poolName": true, "resourceNameSuffix": true, "creationSource": true, "aksEngineVersion": true,
}

// machineLabels begin the keys of labels that kubelets, clouds and feature discovery set by what a machine is and by
// its group, not by where it is.
var machineLabels = []string{
	"kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/", "node.kubernetes.io/instance-type", "feature.node.kubernetes.io/",
	"nvidia.com/gpu.family", "nvidia.com/gpu.compute.", "nvidia.com/gpu.machine", "nvidia.com/mig.strategy", "nvidia.com/cuda.", "amd.com/gpu.", "gpu.intel.com/",
	"eks.amazonaws.com/", "karpenter.", "cloud.google.com/gke-", "kubernetes.azure.com/",
}

// MachineLabel reports a label that is the same on all nodes of a pool, so that its template need not state it.
func MachineLabel(key string) bool {
	return slices.ContainsFunc(machineLabels, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// similar reports whether two pools differ only in where their nodes are. Their other
// resources and machine labels do not count: many are known only of pools that have nodes.
func similar(a, b *Pool) bool {
	s, t := &a.Template, &b.Template
	return a.Priority == b.Priority && a.PricePerHour == b.PricePerHour && a.Spot == b.Spot && a.MIG.Repartition == b.MIG.Repartition &&
		alike(s.CPUMilli, t.CPUMilli) && alike(s.MemoryMi, t.MemoryMi) &&
		maps.Equal(besidesPlace(s.Labels), besidesPlace(t.Labels)) &&
		sameTaints(s.Taints, t.Taints) && slices.EqualFunc(s.GPUs, t.GPUs, func(g, h GPU) bool {
		return g.Model == h.Model && g.MIG == h.MIG && g.Shared == h.Shared && g.ByClaim == h.ByClaim && slices.Equal(layoutOf(&g), layoutOf(&h))
	})
}

func sameTaints(a, b []Taint) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(t Taint) bool { return !slices.Contains(b, t) })
}

func alike(a, b int64) bool { return float64(max(a, b)-min(a, b)) <= similarity*float64(max(a, b)) }

func besidesPlace(labels map[string]string) map[string]string {
	out := maps.Clone(labels)
	maps.DeleteFunc(out, func(key, _ string) bool { return placeLabels[key] || MachineLabel(key) })
	return out
}
