package observe

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/plan"
)

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

// fromParts gives GPUs that a dialect divides the allocations that bound pods prove: on the GPUs that
// the pods' annotations name. A pod without them has its parts on unknown GPUs.
func fromParts(in nodeInput, gpus []plan.GPU) bool {
	for i := range gpus {
		forgetAllocations(&gpus[i])
		gpus[i].MIG, gpus[i].AllocationKnown = false, true
	}
	n := 0
	for _, p := range in.bound {
		if p.Unreadable != "" || len(p.Demand.MIG) > 0 {
			return false
		}
		on := p.PartsOn
		for range max(p.Demand.GPUs, 0) {
			on = append(slices.Clip(on), n)
			n++
		}
		if len(on) == 0 && p.Demand.Fraction != nil {
			on = []int{n}
			n++
		}
		for _, i := range on {
			c := &gpus[i%len(gpus)]
			if !slices.Contains(c.AllocatedTo, p.Key()) {
				c.AllocatedTo = append(c.AllocatedTo, p.Key())
			}
		}
	}
	return true
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
	for _, list := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range list {
			c := demand.Container{Name: list[i].Name}
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
