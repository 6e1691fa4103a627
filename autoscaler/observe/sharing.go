package observe

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/plan"
)

// sharing is how the cluster's GPUs are shared (time-slicing, MPS).
type sharing struct {
	// shares of each GPU that is given in shares only: by node, and the most of any node or pool.
	byNode map[string]int
	most   int
	// single are the pools whose device plugin refuses a container more than one of the resource.
	single map[corev1.ResourceName][]string
	// chips are the pools of each Ascend chip: its resource names the chip.
	chips map[string][]string
}

func sharingOf(nodes []corev1.Node, pools []v1alpha1.GPUNodePool) sharing {
	s := sharing{byNode: map[string]int{}, single: map[corev1.ResourceName][]string{}, chips: map[string][]string{}}
	for i := range nodes {
		if n := sharesOf(&nodes[i]); n > 0 {
			s.byNode[nodes[i].Name] = n
			s.most = max(s.most, n)
		}
	}
	for i := range pools {
		if chip := demand.AscendChip(pools[i].Spec.Template.Product); chip != "" {
			s.chips[chip] = append(s.chips[chip], pools[i].Name)
		}
		of := pools[i].Spec.Template.Sharing
		if of == nil || of.Replicas == 0 {
			continue
		}
		name := corev1.ResourceName(partition.GPUResource)
		if of.RenameByDefault {
			name = partition.SharedResource
			s.most = max(s.most, int(of.Replicas))
		}
		if of.FailRequestsGreaterThanOne {
			s.single[name] = append(s.single[name], pools[i].Name)
		}
	}
	return s
}

// sharesOf returns the shares of each of a node's GPUs, 0 where GPUs are not given in shares only.
func sharesOf(n *corev1.Node) int {
	shares := n.Status.Allocatable.Name(partition.SharedResource, "").Value()
	if shares <= 0 {
		return 0
	}
	if replicas, err := strconv.Atoi(n.Labels[partition.ReplicasLabel]); err == nil && replicas > 1 {
		return replicas
	}
	count, err := strconv.Atoi(n.Labels[partition.CountLabel])
	if err != nil || count < 1 {
		count = 1
	}
	return max(int(min(shares, maxShares))/count, 1)
}

// maxShares bounds the shares of a node.
const maxShares = 1 << 16

// of completes the planner's view of a pod. Its shares get a size: its node's, for a pending pod the
// smallest, so that their number alone decides where it fits. A container that requests several shares,
// or GPUs, is kept off the pools whose device plugin would fail it. out may share its lists with others.
func (s *sharing) of(spec *corev1.PodSpec, out *plan.Pod) {
	per := s.most
	if n := s.byNode[out.Node]; n > 0 {
		per = n
	}
	if f := out.Demand.Fraction; f.Shares() && per > 0 {
		milli := min(f.GPUs, per) * 1000 / per
		out.Demand.Fraction = &demand.Fraction{CoreMilli: milli, MemoryMilli: milli, GPUs: 1}
	}
	if out.Node != "" {
		return
	}
	for name, pools := range s.single {
		if !slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool { return c.Resources.Requests.Name(name, "").Value() > 1 }) {
			continue
		}
		out.Affinity = notIn(out.Affinity, pools)
	}
	if out.Demand.Vendor == "huawei" {
		s.keepToChip(spec, out)
	}
}

// keepToChip keeps a pod off the pools of other Ascend chips than its resources name.
func (s *sharing) keepToChip(spec *corev1.PodSpec, out *plan.Pod) {
	for i := range spec.Containers {
		for name := range spec.Containers[i].Resources.Requests {
			chip := demand.AscendChip(string(name))
			if chip == "" {
				continue
			}
			var others []string
			for _, other := range slices.Sorted(maps.Keys(s.chips)) {
				if other != chip {
					others = append(others, s.chips[other]...)
				}
			}
			if len(others) > 0 {
				out.Affinity = notIn(out.Affinity, others)
			}
			return
		}
	}
}

// notIn adds to a node affinity that it is no node of the pools.
func notIn(affinity []plan.NodeTerm, pools []string) []plan.NodeTerm {
	terms := slices.Clone(affinity)
	if len(terms) == 0 {
		terms = []plan.NodeTerm{nil}
	}
	for i := range terms {
		terms[i] = append(slices.Clip(terms[i]), plan.NodeRequirement{
			Key: v1alpha1.NodePoolLabel, Operator: string(corev1.NodeSelectorOpNotIn), Values: pools,
		})
	}
	return terms
}
