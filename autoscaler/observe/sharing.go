package observe

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/plan"
)

// mostShares returns the most shares of one GPU, over all nodes and pools that give GPUs in shares only.
func (c *cluster) mostShares() int {
	most := 0
	for _, f := range c.facts {
		most = max(most, f.shares)
	}
	for i := range c.pools.Items {
		if of := c.pools.Items[i].Spec.Template.Sharing; of != nil && of.RenameByDefault {
			most = max(most, int(of.Replicas))
		}
	}
	return most
}

// sharesOf returns the shares of each of a node's GPUs, 0 where GPUs are not given in shares only.
func sharesOf(n *corev1.Node) int {
	shares := n.Status.Allocatable.Name(partition.SharedResource, "").Value()
	if shares <= 0 {
		return 0
	}
	if replicas := replicasOf(n); replicas > 1 {
		return replicas
	}
	count, err := strconv.Atoi(n.Labels[partition.CountLabel])
	if err != nil || count < 1 {
		count = 1
	}
	return max(int(min(shares, maxShares))/count, 1)
}

// replicasOf returns in how many replicas a device plugin offers each GPU: NVIDIA's, or GKE's.
func replicasOf(n *corev1.Node) int {
	replicas, err := strconv.Atoi(cmp.Or(n.Labels[partition.ReplicasLabel], n.Labels["cloud.google.com/gke-max-shared-clients-per-gpu"]))
	if err != nil {
		return 1
	}
	return min(replicas, maxShares)
}

// maxShares bounds the shares of a node.
const maxShares = 1 << 16

// sized gives a pod's shares a size: that of its node's shares, for a pending pod that of the smallest shares anywhere.
// So only the number of shares decides where a pending pod fits.
func (c *cluster) sized(out *plan.Pod) {
	per := c.shares
	if f := c.facts[out.Node]; f != nil && f.shares > 0 {
		per = f.shares
	}
	if f := out.Demand.Fraction; f.Shares() && per > 0 {
		milli := max(min(f.GPUs, per)*1000/per, 1)
		out.Demand.Fraction = &demand.Fraction{CoreMilli: milli, MemoryMilli: milli, GPUs: 1}
	}
}

// keepOff keeps a pending pod off the pools whose GPUs it would not get: a device plugin fails it, its resource names
// another Ascend chip, or HAMi refuses it. out may share its lists with others.
func (c *cluster) keepOff(p *corev1.Pod, out *plan.Pod) {
	if out.Node != "" || out.Demand.Zero() {
		return
	}
	chip, typed := "", out.Demand.Vendor == "nvidia" && p.Annotations[hamiUseType]+p.Annotations[hamiNoUseType] != ""
	if out.Demand.Vendor == "huawei" {
		chip = chipOf(&p.Spec)
	}
	var others []string
	for i := range c.pools.Items {
		t := &c.pools.Items[i].Spec.Template
		if failsSeveral(t.Sharing, &p.Spec) || chip != "" && chip != cmp.Or(demand.AscendChip(t.Product), chip) || typed && refusesType(p.Annotations, t.Product) {
			others = append(others, c.pools.Items[i].Name)
		}
	}
	if len(others) > 0 {
		out.Devices = append(slices.Clip(out.Devices), requiring(v1alpha1.NodePoolLabel, corev1.NodeSelectorOpNotIn, others...))
	}
}

// failsSeveral reports whether the device plugin fails the pod because a container requests more than one share or GPU.
func failsSeveral(of *v1alpha1.GPUSharing, spec *corev1.PodSpec) bool {
	if of == nil || !of.FailRequestsGreaterThanOne {
		return false
	}
	name := corev1.ResourceName(partition.GPUResource)
	if of.RenameByDefault {
		name = partition.SharedResource
	}
	return slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool { return c.Resources.Requests.Name(name, "").Value() > 1 })
}

// chipOf returns the Ascend chip that a pod's resources name, empty for none.
func chipOf(spec *corev1.PodSpec) string {
	for _, name := range extended(spec) {
		if chip := demand.AscendChip(name); chip != "" {
			return chip
		}
	}
	return ""
}

// gpushareCount is a label of pods: the number of GPUs over which the pod's memory is divided (ACK, "GPU sharing
// based on multiple GPUs").
const gpushareCount = "aliyun.com/gpu-count"

// divide sets a node's GPUs from what a dialect states of them. The node then offers the dialect's resources as Others:
// these match pods to nodes, and the parts match pods to GPUs.
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
// counts, whatever the product has, and is sick where the dialect's scheduler gives it to no pod.
func (in nodeInput) divideGPU(c *plan.GPU) {
	d := in.facts.divided
	if d == nil {
		return
	}
	if c.Model.Vendor != "nvidia" { // a node's product may be its pool's
		c.Model, _ = in.model(d.Product, d.MemoryMiB)
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
	if slices.Contains(d.Unhealthy, c.UUID) {
		c.Health = gpu.Sick
	}
}

// placed completes the planner's view of a pod by its dialect. A whole GPU that no device plugin gives becomes all
// parts of a GPU. The parts of a bound pod are on the GPUs that its annotations name. out may share its lists with
// others.
func (c *cluster) placed(p *corev1.Pod, out *plan.Pod) {
	if slices.ContainsFunc(out.Others, func(r plan.Resource) bool { return exclusive(r.Name) }) {
		out.Demand = out.Demand.Exclusive()
	}
	f := c.facts[out.Node]
	if f == nil || f.divided == nil || out.Demand.Fraction == nil {
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
		i := slices.Index(f.divided.UUIDs, a.ID)
		if index, err := strconv.Atoi(strings.TrimPrefix(a.ID, "nvidia")); err == nil {
			i = index
		}
		if i < 0 || i >= f.divided.GPUs {
			out.PartsOn = nil
			return // not a GPU of the node
		}
		if !slices.Contains(out.PartsOn, i) {
			out.PartsOn = append(out.PartsOn, i)
		}
	}
}

// exclusive reports whether a resource is of a dialect whose whole GPUs no device plugin gives. HAMi is none of these:
// its whole GPUs are NVIDIA's own resource.
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

// refusesType reports whether HAMi would refuse a product for a pod with these annotations.
func refusesType(annotations map[string]string, product string) bool {
	use := annotations[hamiUseType]
	return strings.TrimSpace(use) != "" && !namesType(use, product) || namesType(annotations[hamiNoUseType], product)
}

// namesType reports whether a product's name contains one of the listed types. Dashes count as blanks: the driver's
// names have blanks, those of feature discovery dashes.
func namesType(list, product string) bool {
	spaced := strings.NewReplacer("-", " ")
	product = spaced.Replace(strings.ToUpper(product))
	return slices.ContainsFunc(strings.Split(list, ","), func(of string) bool {
		of = strings.TrimSpace(of)
		return of != "" && strings.Contains(product, spaced.Replace(strings.ToUpper(of)))
	})
}
