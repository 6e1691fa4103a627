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

// others returns the extended resources of a list that are no accelerators ("rdma/hca"), huge pages, and
// resources that only nodes with shared GPUs offer: the scheduler counts them alike. Resources that a device class
// serves are no amount of a node, and left out.
func (c *Claims) others(list corev1.ResourceList) []plan.Resource {
	var out []plan.Resource
	for name, q := range list {
		if !strings.Contains(string(name), "/") && !strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) || strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix) {
			continue
		}
		if demand.Hint(string(name)) {
			continue
		}
		if c != nil && c.extended[string(name)] != nil {
			continue
		}
		amount, own := demand.Counted(string(name), q.Value())
		if d, err := demandOf(string(name)); !own && (err != nil || !d.Zero() && !d.Fraction.Shares()) {
			continue
		}
		if !own {
			amount = q.Value()
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

// learnOthers fills in the other resources of pools whose template states none: the minimum over
// the pool's ready nodes.
func learnOthers(pools []plan.Pool, nodes []plan.Node) {
	index := map[string]int{}
	for i := range pools {
		if !slices.ContainsFunc(pools[i].Template.Others, func(r plan.Resource) bool { return !ofSharedGPUs(r.Name) }) {
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
		stated := len(t.Others) > 0
		for _, r := range least[pool] {
			if r.Amount <= 0 || stated && ofSharedGPUs(r.Name) {
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
