package replay

import (
	"slices"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/sim"
)

// spare is what a node has free.
type spare struct {
	table       *mig.Table  // of its GPUs, nil for none
	cpu, memory int64       // thousandths of a core, MiB
	gpus        int         // whole ones
	free        []mig.Count // MIG instances
}

// take takes what a pod requests; false, and nothing is taken, where it does not fit.
func (r *spare) take(p *plan.Pod) bool {
	if p.CPUMilli > r.cpu || p.MemoryMi > r.memory || p.Demand.GPUs > r.gpus {
		return false
	}
	if len(p.Demand.MIG) > 0 {
		if r.table == nil {
			return false
		}
		profile, _ := r.table.Exact(p.Demand.MIG[0].Name)
		i := slices.IndexFunc(r.free, func(c mig.Count) bool { return c.Profile == profile && c.N > 0 })
		if i < 0 {
			return false
		}
		r.free[i].N--
	}
	r.cpu, r.memory, r.gpus = r.cpu-p.CPUMilli, r.memory-p.MemoryMi, r.gpus-p.Demand.GPUs
	return true
}

func (r spare) clone() spare {
	r.free = slices.Clone(r.free)
	return r
}

// freeOf returns what a new node of a pool has free.
func freeOf(p *plan.Pool) spare {
	return freeGPUs(p.Template.CPUMilli, p.Template.MemoryMi, p.Template.GPUs)
}

func freeGPUs(cpu, memory int64, gpus []plan.GPU) spare {
	table, _ := mig.ForModel(gpus[0].Model.Name)
	r := spare{table: table, cpu: cpu, memory: memory}
	var l mig.Layout
	for i := range gpus {
		g := &gpus[i]
		if !g.MIG && len(g.AllocatedTo) == 0 {
			r.gpus++
		}
		for _, in := range g.Instances {
			if in.AllocatedTo == "" {
				l = append(l, in.Placement)
			}
		}
	}
	r.free = mig.Counts(l)
	return r
}

// claim is a node to be requested: by each pool that it may be of, what the node would have
// free beside its pods.
type claim map[*plan.Pool]spare

// with returns the claim with one more pod; nil where no pool's node fits all.
func (c claim) with(pod *plan.Pod) claim {
	out := claim{}
	for p, r := range c {
		if r = r.clone(); r.take(pod) {
			out[p] = r
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// claims puts pods on no more than most new nodes, each of one of the pools, and each pod on the
// first node that it fits. It returns the nodes and the pods that are left.
func claims(pools []*plan.Pool, pods []*plan.Pod, most int) (all []claim, left []*plan.Pod) {
	fresh := claim{}
	for _, p := range pools {
		fresh[p] = freeOf(p)
	}
next:
	for _, pod := range pods {
		for i := range all {
			if more := all[i].with(pod); more != nil {
				all[i] = more
				continue next
			}
		}
		if one := fresh.with(pod); one != nil && len(all) < most {
			all = append(all, one)
		} else {
			left = append(left, pod)
		}
	}
	return all, left
}

// upcoming returns the pods that do not fit the upcoming nodes, those that are requested
// and not ready.
func upcoming(s *plan.Snapshot, pods []*plan.Pod) []*plan.Pod {
	for i := range s.Pools {
		p := &s.Pools[i]
		_, pods = claims([]*plan.Pool{p}, pods, p.Target-ready(s, p))
	}
	return pods
}

// ready returns how many of a pool's nodes are ready.
func ready(s *plan.Snapshot, p *plan.Pool) (n int) {
	for i := range s.Nodes {
		if s.Nodes[i].Pool == p.Name && s.Nodes[i].Ready {
			n++
		}
	}
	return n
}

// nodes are the nodes of a snapshot, and what runs there.
type nodes struct {
	s     *plan.Snapshot
	hosts []sim.Host
	// pending are the pods that need a new node.
	pending []*plan.Pod
	// awaiting has the nodes in service on which the other pending pods fit, and what is free
	// beside these. A gang scheduler has not bound them yet. cluster-autoscaler and Karpenter
	// do not know that, as they try pods one by one.
	awaiting map[int]spare
}

func look(s *plan.Snapshot) *nodes {
	f := &nodes{s: s, hosts: sim.Hosts(s), awaiting: map[int]spare{}}
	f.pending = slices.DeleteFunc(pendingPods(s), func(p *plan.Pod) bool { return f.place(p, nil, f.awaiting) })
	return f
}

// empty reports whether no pod runs on a node, and none is to run there.
func (f *nodes) empty(i int) bool {
	_, awaits := f.awaiting[i]
	return len(f.hosts[i].Pods) == 0 && !awaits
}

// free returns what a node has free.
func (f *nodes) free(i int) spare {
	h := &f.hosts[i]
	return freeGPUs(h.CPUMilli-h.CPU, h.MemoryMi-h.Memory, h.GPUs)
}

// evictable reports whether all pods of a node may be evicted.
func (f *nodes) evictable(i int) bool {
	return !slices.ContainsFunc(f.hosts[i].Pods, func(p *plan.Pod) bool { return !p.Evictable })
}

// elsewhere tries the pods of some nodes on the other nodes in service, and returns
// the pods that do not fit.
func (f *nodes) elsewhere(of []int) (left []*plan.Pod) {
	free := map[int]spare{}
	for _, i := range of {
		for _, p := range f.hosts[i].Pods {
			if !f.place(p, of, free) {
				left = append(left, p)
			}
		}
	}
	return left
}

// place puts a pod on the first node in service that it fits, except those in not. free has
// what is left of the nodes that were used, and is updated.
func (f *nodes) place(p *plan.Pod, not []int, free map[int]spare) bool {
	for i := range f.hosts {
		if n := &f.hosts[i]; !n.Ready || n.Cordoned || slices.Contains(not, i) {
			continue
		}
		r, touched := free[i]
		if !touched {
			r = f.free(i)
		}
		if r.take(p) {
			free[i] = r
			return true
		}
	}
	return false
}

// on is an action on a node.
func on(n *plan.Node, verb plan.Verb, why plan.Reason) plan.Action {
	return plan.Action{Verb: verb, Pool: n.Pool, Node: n.Name, Reason: why}
}
