package act

import (
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// round is what one plan was made on, and how much of its bounds is left.
type round struct {
	now    time.Time
	policy plan.Policy
	tables mig.Tables // what nodes have published
	nodes  map[string]*plan.Node
	pools  map[string]plan.Pool
	pods   []plan.Pod
	// byKey are the pods by "namespace/name", once one was asked for.
	byKey map[string]*plan.Pod
	// memory is from before this plan.
	memory plan.Memory

	actions, removals, evictions int
	draining                     map[string]bool // nodes
	giving                       map[string]int  // nodes to be given back, by pool
	gone                         map[string]int  // nodes taken out, by pool
	replaced                     map[string]bool // pools
}

func newRound(s plan.Snapshot, policy plan.Policy) *round {
	r := &round{
		now: s.Now, policy: policy, tables: s.Tables, nodes: map[string]*plan.Node{}, pools: map[string]plan.Pool{}, pods: s.Pods, memory: s.Memory,
		draining: map[string]bool{}, giving: map[string]int{}, gone: map[string]int{}, replaced: map[string]bool{},
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		r.nodes[n.Name] = n
		if n.Drain != nil {
			r.draining[n.Name] = true
		}
	}
	for _, p := range s.Pools {
		r.pools[p.Name] = p
	}
	return r
}

// pod returns the pod of that key, "namespace/name", as the plan was made on it. Whoever
// only asks for nodes does not ask for pods, of which there are many.
func (r *round) pod(key string) (*plan.Pod, bool) {
	if r.byKey == nil {
		r.byKey = make(map[string]*plan.Pod, len(r.pods))
		for i := range r.pods {
			r.byKey[r.pods[i].Key()] = &r.pods[i]
		}
	}
	p, ok := r.byKey[key]
	return p, ok
}

// podsOn are the keys of the pods with GPUs on a node, in order.
func (r *round) podsOn(node string) []string {
	var out []string
	for i := range r.pods {
		if p := &r.pods[i]; p.Node == node && !p.Demand.Zero() {
			out = append(out, p.Key())
		}
	}
	slices.Sort(out)
	return out
}

// admit counts an action against the policy's bounds, as the planner did: a plan
// that goes beyond them was made for other bounds, or is wrong. Undoing what is
// under way is held up by none of them.
func (r *round) admit(action plan.Action) error {
	if undoes(action.Verb) {
		return nil
	}
	if r.policy.Freeze {
		return refuse("everything is frozen")
	}
	r.actions++
	if r.actions > r.policy.MaxActionsPerRound {
		return refuse("more than %d actions in a round", r.policy.MaxActionsPerRound)
	}
	switch action.Verb {
	case plan.ScaleUp:
		n := action.To - action.From
		if n > r.policy.MaxNodesPerScaleUp {
			return refuse("%d nodes at once, at most %d", n, r.policy.MaxNodesPerScaleUp)
		}
		if sum := r.memory.GrownLately(action.Pool, r.now) + n; sum > r.policy.MaxNodesPerHour {
			return refuse("pool %s: %d nodes within an hour, at most %d", action.Pool, sum, r.policy.MaxNodesPerHour)
		}
	case plan.RemoveNode:
		return r.admitRemoval(action.Pool)
	case plan.Reclaim:
		r.evictions++
		if r.evictions > r.policy.MaxEvictionsPerRound {
			return refuse("more than %d pods asked to leave in a round", r.policy.MaxEvictionsPerRound)
		}
	case plan.Drain:
		return r.admitDrain(action)
	case plan.Replace:
		if r.policy.SickAfter <= 0 {
			return refuse("replacing is turned off")
		}
	}
	return nil
}

func (r *round) admitRemoval(pool string) error {
	r.removals++
	r.giving[pool]++
	if r.removals > r.policy.MaxRemovalsPerRound {
		return refuse("more than %d nodes given back in a round", r.policy.MaxRemovalsPerRound)
	}
	if sum := r.memory.RemovedLately(r.now) + r.removals; sum > r.policy.MaxRemovalsPerTenMinutes {
		return refuse("%d nodes given back within ten minutes, at most %d", sum, r.policy.MaxRemovalsPerTenMinutes)
	}
	if most := max(1, int(r.policy.MaxRemovalShare*float64(r.pools[pool].Size))); r.giving[pool] > most {
		return refuse("more than %d nodes of pool %s given back in a round", most, pool)
	}
	return nil
}

// admitDrain counts nodes that begin to drain. One that its provider takes is no
// choice of ours.
func (r *round) admitDrain(action plan.Action) error {
	if action.Reason == plan.NodeInterrupted {
		if n := r.nodes[action.Node]; n == nil || !n.LeavesAt.After(r.now) {
			return refuse("nobody gave notice of node %s", action.Node)
		}
		return nil
	}
	if !r.draining[action.Node] && len(r.draining) >= r.policy.MaxDrains {
		return refuse("%d nodes would be draining, at most %d", len(r.draining)+1, r.policy.MaxDrains)
	}
	r.draining[action.Node] = true
	return nil
}
