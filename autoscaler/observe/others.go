package observe

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/plan"
)

// others returns the extended resources of a list that are no accelerators ("rdma/hca"), huge pages, ephemeral
// storage, the number of pods that a node may run, and resources that only nodes with shared GPUs offer: the
// scheduler counts them alike. Resources that a device class serves are no amount of a node, and left out.
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
		if c != nil && c.extended[string(name)] != nil {
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

// ofKubelets reports whether a resource is one that the kubelet of every node offers: a template that states it alone
// leaves the others to the nodes.
func ofKubelets(resource string) bool {
	return resource == string(corev1.ResourcePods) || resource == string(corev1.ResourceEphemeralStorage)
}

// learnOthers fills in the other resources of pools whose template states none: the minimum over
// the pool's ready nodes.
func learnOthers(pools []plan.Pool, nodes []plan.Node) {
	index := map[string]int{}
	for i := range pools {
		if !slices.ContainsFunc(pools[i].Template.Others, func(r plan.Resource) bool { return !ofSharedGPUs(r.Name) && !ofKubelets(r.Name) }) {
			index[pools[i].Name] = i
		}
	}
	seen := map[string]int{}
	least := map[string]map[string]plan.Resource{}
	memory, places := map[string]int{}, map[string]int{} // of a GPU, where a dialect divides it
	for i := range nodes {
		n := &nodes[i]
		if _, ok := index[n.Pool]; !ok || !n.Ready || len(n.GPUs) == 0 { // without GPUs its device plugin is not up yet
			continue
		}
		if mib := n.GPUs[0].Model.MemoryMiB; slices.ContainsFunc(n.Others, func(r plan.Resource) bool { return ofSharedGPUs(r.Name) }) {
			memory[n.Pool], places[n.Pool] = min(cmp.Or(memory[n.Pool], mib), mib), n.GPUs[0].Places
		}
		if seen[n.Pool]++; seen[n.Pool] == 1 {
			least[n.Pool] = map[string]plan.Resource{}
			for _, r := range n.Others {
				least[n.Pool][r.Name] = r
			}
			continue
		}
		has := map[string]int64{}
		for _, r := range n.Others {
			has[r.Name] = r.Amount
		}
		for name, r := range least[n.Pool] {
			r.Amount = min(r.Amount, has[name])
			least[n.Pool][name] = r
		}
	}
	for pool, i := range index {
		t := &pools[i].Template
		stated := slices.ContainsFunc(t.Others, func(r plan.Resource) bool { return !ofKubelets(r.Name) })
		for _, r := range least[pool] {
			if r.Amount <= 0 || stated && ofSharedGPUs(r.Name) || amountOf(t.Others, r.Name) > 0 {
				continue
			}
			t.Others = append(t.Others, r)
			for g := range t.GPUs {
				t.GPUs[g].Shared = t.GPUs[g].Shared || r.Name == partition.SharedResource || exclusive(r.Name)
			}
		}
		for g := range t.GPUs {
			t.GPUs[g].Model.MemoryMiB, t.GPUs[g].Places = cmp.Or(memory[pool], t.GPUs[g].Model.MemoryMiB), cmp.Or(places[pool], t.GPUs[g].Places)
		}
		slices.SortFunc(t.Others, func(a, b plan.Resource) int { return strings.Compare(a.Name, b.Name) })
	}
}

// limit states how much of a resource nodes have, and pools' new nodes: where the template does not state it, as much
// as the least of the pool's ready nodes, and while there is none so much that it is no limit.
func limit(s *plan.Snapshot, name string, unlimited int64, of func(node string) int64) {
	least := map[string]int64{} // by pool
	for i := range s.Nodes {
		n := &s.Nodes[i]
		amount := of(n.Name)
		n.Others = withResource(n.Others, name, amount)
		if had, known := least[n.Pool]; n.Ready && (!known || amount < had) {
			least[n.Pool] = amount
		}
	}
	for i := range s.Pools {
		amount, known := least[s.Pools[i].Name]
		if !known {
			amount = unlimited
		}
		if t := &s.Pools[i].Template; amountOf(t.Others, name) == 0 {
			t.Others = withResource(t.Others, name, amount)
		}
	}
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

// withResource adds to a sorted list, which may be shared.
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
	add := func(ports []corev1.ContainerPort) {
		for _, p := range ports {
			if p.HostPort <= 0 {
				continue
			}
			h := plan.HostPort{Protocol: string(cmp.Or(p.Protocol, corev1.ProtocolTCP)), Port: int(p.HostPort), IP: p.HostIP}
			if h.IP == "0.0.0.0" {
				h.IP = ""
			}
			out = append(out, h)
		}
	}
	for i := range s.InitContainers {
		if policy := s.InitContainers[i].RestartPolicy; policy != nil && *policy == corev1.ContainerRestartPolicyAlways {
			add(s.InitContainers[i].Ports)
		}
	}
	for i := range s.Containers {
		add(s.Containers[i].Ports)
	}
	return sortedPorts(out)
}

func sortedPorts(ports []plan.HostPort) []plan.HostPort {
	slices.SortFunc(ports, func(a, b plan.HostPort) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port), cmp.Compare(a.IP, b.IP))
	})
	return slices.Compact(ports)
}

// learnPorts fills in the host ports of pools' new nodes: those that pods of DaemonSets take on more
// than half of the pool's ready nodes. On one that has just come up, not all of them run yet.
func learnPorts(pools []plan.Pool, nodes []plan.Node, bound map[string][]*plan.Pod) {
	ready, taken := map[string]int{}, map[string]map[plan.HostPort]int{}
	for i := range nodes {
		n := &nodes[i]
		if !n.Ready || n.Pool == "" {
			continue
		}
		ready[n.Pool]++
		var ports []plan.HostPort
		for _, p := range bound[n.Name] {
			if p.DaemonSet {
				ports = append(ports, p.HostPorts...)
			}
		}
		for _, h := range sortedPorts(ports) {
			if taken[n.Pool] == nil {
				taken[n.Pool] = map[plan.HostPort]int{}
			}
			taken[n.Pool][h]++
		}
	}
	for i := range pools {
		p := &pools[i]
		for h, on := range taken[p.Name] {
			if 2*on > ready[p.Name] {
				p.Template.HostPorts = append(p.Template.HostPorts, h)
			}
		}
		p.Template.HostPorts = sortedPorts(p.Template.HostPorts)
	}
}
