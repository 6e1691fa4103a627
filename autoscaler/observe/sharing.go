package observe

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/internal/kube"
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

// gpushareCount is a label of pods: the parts of the pod's memory are on as many GPUs (ACK, "GPU sharing
// based on multiple GPUs").
const gpushareCount = "aliyun.com/gpu-count"

// divide takes a node's GPUs from what a dialect states of them. The node then offers the dialect's
// resources as others: pods are matched to nodes by them, and to GPUs by their parts.
func (f *nodeFacts) divide(d demand.Divided) {
	f.divided, f.devices, f.Allocatable = &d, true, nil
	f.Others = slices.DeleteFunc(f.Others, func(r plan.Resource) bool { _, own := demand.Counted(r.Name, r.Amount); return own })
	for name, n := range d.Offers {
		f.Others = append(f.Others, plan.Resource{Name: name, Amount: n})
	}
	slices.SortFunc(f.Others, func(a, b plan.Resource) int { return strings.Compare(a.Name, b.Name) })
}

// shared reports whether the GPUs are given in parts only, under names of their own.
func (f *nodeFacts) shared() bool { return f.shares > 0 || f.divided != nil && !f.divided.Whole }

// divideGPU completes a GPU of a node whose GPUs a dialect divides: it has the memory that the dialect
// counts, whatever the product has.
func (in nodeInput) divideGPU(c *plan.GPU) {
	d := in.facts.divided
	if d == nil {
		return
	}
	if c.Model.Vendor != "nvidia" { // a node's product may be its pool's
		c.Model, _ = in.models.of(in.tables, d.Product, d.MemoryMiB)
	}
	if c.Model.Vendor == "" {
		c.Model.Vendor = "nvidia" // of all such dialects
	}
	if d.MemoryMiB > 0 {
		c.Model.MemoryMiB = d.MemoryMiB
	}
	c.Places = d.Places
	if c.UUID == "" && c.Index < len(d.UUIDs) {
		c.UUID = d.UUIDs[c.Index]
	}
}

// divided is what the cluster's nodes state of GPUs that dialects divide.
type divided struct {
	uuids map[string][]string // by node
	gpus  map[string]int
}

func dividedOf(nodes []corev1.Node) divided {
	out := divided{uuids: map[string][]string{}, gpus: map[string]int{}}
	for i := range nodes {
		n := &nodes[i]
		if d, ok := dividedNode(n); ok {
			out.uuids[n.Name], out.gpus[n.Name] = d.UUIDs, d.GPUs
		}
	}
	return out
}

// dividedNode is demand.FromNode. Most nodes have nothing that it reads.
func dividedNode(n *corev1.Node) (demand.Divided, bool) {
	for name := range n.Status.Allocatable {
		if _, own := demand.Counted(string(name), 0); own {
			return demand.FromNode(kube.Extended(n.Status.Allocatable), n.Labels, n.Annotations)
		}
	}
	for name := range n.Annotations {
		if demand.Registers(name) {
			return demand.FromNode(kube.Extended(n.Status.Allocatable), n.Labels, n.Annotations)
		}
	}
	return demand.Divided{}, false
}

// of completes the planner's view of a pod with its dialect's: whole GPUs that no device plugin gives are
// all of the parts, and a bound pod's parts are on the GPUs that its annotations name. out may share its
// lists with others.
func (d *divided) of(p *corev1.Pod, out *plan.Pod) {
	if slices.ContainsFunc(out.Others, func(r plan.Resource) bool { return exclusive(r.Name) }) {
		out.Demand = out.Demand.Exclusive()
	}
	if out.Node == "" || out.Demand.Fraction == nil || d.gpus[out.Node] == 0 {
		return
	}
	var containers []demand.Container
	for k, list := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range list {
			c := demand.Container{Name: list[i].Name, Init: k == 1}
			for name := range list[i].Resources.Requests {
				c.Resources = append(c.Resources, string(name))
			}
			containers = append(containers, c)
		}
	}
	all, err := demand.FromAnnotations(p.Annotations, containers)
	if err != nil {
		return
	}
	out.PartsOn = nil
	for _, a := range all {
		i := slices.Index(d.uuids[out.Node], a.ID)
		if index, err := strconv.Atoi(strings.TrimPrefix(a.ID, "nvidia")); err == nil {
			i = index
		}
		if i < 0 || i >= d.gpus[out.Node] {
			out.PartsOn = nil
			return // not a GPU of the node
		}
		if !slices.Contains(out.PartsOn, i) {
			out.PartsOn = append(out.PartsOn, i)
		}
	}
}

// exclusive reports whether a resource is of a dialect whose whole GPUs no device plugin gives. Those of
// HAMi are NVIDIA's own.
func exclusive(resource string) bool {
	_, own := demand.Counted(resource, 1)
	return own && !strings.HasPrefix(resource, "nvidia.com/")
}

// HAMi's annotations (2.9, pkg/device) of pods that must, or must not, have GPUs of a type: parts of
// products' names, separated by commas.
const (
	hamiUseType   = "nvidia.com/use-gputype"
	hamiNoUseType = "nvidia.com/nouse-gputype"
)

// keepToType keeps a pod off the pools whose GPUs HAMi would refuse for it.
func keepToType(annotations map[string]string, pools []v1alpha1.GPUNodePool, out *plan.Pod) {
	use, noUse := annotations[hamiUseType], annotations[hamiNoUseType]
	if out.Node != "" || out.Demand.Vendor != "nvidia" || strings.TrimSpace(use+noUse) == "" {
		return
	}
	var others []string
	for i := range pools {
		product := pools[i].Spec.Template.Product
		if strings.TrimSpace(use) != "" && !namesType(use, product) || namesType(noUse, product) {
			others = append(others, pools[i].Name)
		}
	}
	if len(others) > 0 {
		out.Affinity = notIn(out.Affinity, others)
	}
}

// namesType reports whether one of a list of types is a part of a product's name, which has blanks as
// the driver states it and dashes as feature discovery does.
func namesType(list, product string) bool {
	spaced := strings.NewReplacer("-", " ")
	product = spaced.Replace(strings.ToUpper(product))
	return slices.ContainsFunc(strings.Split(list, ","), func(of string) bool {
		of = strings.TrimSpace(of)
		return of != "" && strings.Contains(product, spaced.Replace(strings.ToUpper(of)))
	})
}
