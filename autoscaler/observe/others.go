package observe

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/plan"
)

// others returns the resources of a list that the scheduler only counts: extended resources that are no accelerators
// ("rdma/hca"), huge pages, ephemeral storage, the number of pods, and resources that only nodes with shared GPUs
// offer. Resources that a device class serves are left out, since a node has no amount of them.
func (c *Claims) others(list corev1.ResourceList) []plan.Resource {
	var out []plan.Resource
	for name, q := range list {
		counted := strings.Contains(string(name), "/") || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) ||
			name == corev1.ResourcePods || name == corev1.ResourceEphemeralStorage
		if !counted || strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix) {
			continue
		}
		if demand.Hint(string(name)) {
			continue
		}
		if c.extended[string(name)] != nil {
			continue
		}
		n := bounded(q).Value()
		amount, own := demand.Counted(string(name), n)
		if d, err := demandOf(string(name)); !own && (err != nil || !d.Zero() && !d.Fraction.Shares()) {
			continue
		}
		if !own {
			amount = n
		}
		out = append(out, plan.Resource{Name: string(name), Amount: amount})
	}
	slices.SortFunc(out, func(a, b plan.Resource) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// ofSharedGPUs reports whether a resource is one by which GPUs are shared.
func ofSharedGPUs(resource string) bool {
	_, own := demand.Counted(resource, 0)
	return own || resource == partition.SharedResource || resource == gpushareCount
}

// ofKubelets reports whether the kubelet of every node offers a resource. A template that states only such resources
// takes the others from the pool's nodes.
func ofKubelets(resource string) bool {
	return resource == string(corev1.ResourcePods) || resource == string(corev1.ResourceEphemeralStorage)
}

// learnOthers fills in the other resources of a template that states none: the minimum over the pool's ready
// nodes, without those on which a device plugin may not be up yet.
func learnOthers(t *plan.Template, nodes []*plan.Node, now time.Time) {
	if len(nodes) == 0 || slices.ContainsFunc(t.Others, func(r plan.Resource) bool { return !ofSharedGPUs(r.Name) && !ofKubelets(r.Name) }) {
		return
	}
	if old := slices.DeleteFunc(slices.Clone(nodes), func(n *plan.Node) bool { return now.Sub(n.Created) < pluginsAfter }); len(old) > 0 {
		nodes = old
	}
	least := slices.Clone(nodes[0].Others)
	memory, places := 0, 0 // of a GPU, where a dialect divides it
	for _, n := range nodes {
		for j, r := range least {
			least[j].Amount = min(r.Amount, amountOf(n.Others, r.Name))
		}
		if slices.ContainsFunc(n.Others, func(r plan.Resource) bool { return ofSharedGPUs(r.Name) }) {
			mib := n.GPUs[0].Model.MemoryMiB
			memory, places = min(cmp.Or(memory, mib), mib), n.GPUs[0].Places
		}
	}
	stated := slices.ContainsFunc(t.Others, func(r plan.Resource) bool { return !ofKubelets(r.Name) })
	shared := false
	for _, r := range least {
		if r.Amount <= 0 || stated && ofSharedGPUs(r.Name) || amountOf(t.Others, r.Name) > 0 {
			continue
		}
		t.Others = withResource(t.Others, r.Name, r.Amount)
		shared = shared || r.Name == partition.SharedResource || exclusive(r.Name)
	}
	for g := range t.GPUs {
		c := &t.GPUs[g]
		c.Shared = c.Shared || shared
		c.Model.MemoryMiB, c.Places = cmp.Or(memory, c.Model.MemoryMiB), cmp.Or(places, c.Places)
	}
}

// pluginsAfter is how long after its creation a node has all its resources.
const pluginsAfter = 10 * time.Minute

// withGPUs returns the nodes whose device plugin is up.
func withGPUs(nodes []*plan.Node) []*plan.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *plan.Node) bool { return len(n.GPUs) == 0 })
}

// amountOf is the amount of a resource in a list.
func amountOf(list []plan.Resource, name string) int64 {
	for _, r := range list {
		if r.Name == name {
			return r.Amount
		}
	}
	return 0
}

// withResource returns a copy of a sorted list with an amount added to a resource.
func withResource(list []plan.Resource, name string, amount int64) []plan.Resource {
	out := slices.Clone(list)
	at, there := slices.BinarySearchFunc(out, name, func(r plan.Resource, name string) int { return strings.Compare(r.Name, name) })
	if there {
		out[at].Amount += amount
		return out
	}
	return slices.Insert(out, at, plan.Resource{Name: name, Amount: amount})
}

// hostPorts returns the host ports that a pod takes, sorted: those of its containers and sidecars.
func hostPorts(s *corev1.PodSpec) []plan.HostPort {
	var out []plan.HostPort
	for i, c := range slices.Concat(s.InitContainers, s.Containers) {
		for _, p := range c.Ports {
			if p.HostPort <= 0 || i < len(s.InitContainers) && !isSidecar(&c) {
				continue
			}
			h := plan.HostPort{Protocol: string(cmp.Or(p.Protocol, corev1.ProtocolTCP)), Port: int(p.HostPort), IP: p.HostIP}
			if h.IP == "0.0.0.0" {
				h.IP = ""
			}
			out = append(out, h)
		}
	}
	return sortedPorts(out)
}

func sortedPorts(ports []plan.HostPort) []plan.HostPort {
	slices.SortFunc(ports, func(a, b plan.HostPort) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port), cmp.Compare(a.IP, b.IP))
	})
	return slices.Compact(ports)
}
