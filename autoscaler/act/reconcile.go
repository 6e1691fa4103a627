package act

import (
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// reconcile is the snapshot of one plan, indexed, and the actions counted against the
// policy's limits so far.
type reconcile struct {
	now    time.Time
	policy plan.Policy
	tables mig.Tables // published by nodes
	nodes  map[string]*plan.Node
	pools  map[string]plan.Pool
	pods   map[string]*plan.Pod // by "namespace/name"
	// state is the planner's state before this plan.
	state plan.State

	actions, removals, evictions int
	draining                     map[string]bool // nodes
	removing                     map[string]int  // nodes to be removed, by pool
	replaced                     map[string]bool // pools
}

func newReconcile(s plan.Snapshot, policy plan.Policy) *reconcile {
	r := &reconcile{
		now: s.Now, policy: policy, tables: s.Tables, nodes: map[string]*plan.Node{}, pools: map[string]plan.Pool{}, pods: make(map[string]*plan.Pod, len(s.Pods)), state: s.State,
		draining: map[string]bool{}, removing: map[string]int{}, replaced: map[string]bool{},
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		r.nodes[n.Name] = n
		if n.Drain != nil && n.Drain.Reason != plan.NodeEmpty {
			r.draining[n.Name] = true
		}
	}
	for _, p := range s.Pools {
		r.pools[p.Name] = p
	}
	for i := range s.Pods {
		r.pods[s.Pods[i].Key()] = &s.Pods[i]
	}
	return r
}

// podsOn returns the snapshot's pods on a node, sorted, in the form of a record (contract.PodOf). It includes pods without
// a demand: KAI's pods that reserve GPUs request some, and so may pods whose demand is unreadable.
func (r *reconcile) podsOn(node string) []string {
	var out []string
	for _, p := range r.pods {
		if p.Node == node {
			out = append(out, contract.PodOf(p.Namespace, p.Name, p.UID))
		}
	}
	slices.Sort(out)
	return out
}

// admit counts an action against the policy's limits, as the planner does: a plan
// that exceeds them was made under another policy, or is wrong. No limit applies to
// verbs that undo an operation, and only a freeze to those that take back a request.
func (r *reconcile) admit(action plan.Action) error {
	if undoes(action.Verb) {
		return nil
	}
	if r.policy.Freeze {
		return refuse("policy.freeze is set")
	}
	if action.Verb == plan.Withdraw {
		return nil
	}
	r.actions++
	if r.actions > r.policy.MaxActionsPerReconcile {
		return refuse("the plan has more than %d actions (policy.maxActionsPerReconcile)", r.policy.MaxActionsPerReconcile)
	}
	switch action.Verb {
	case plan.ScaleUp:
		n := action.To - action.From
		if n > r.policy.MaxNodesPerScaleUp {
			return refuse("%d nodes would be added at once, at most %d are allowed (policy.maxNodesPerScaleUp)", n, r.policy.MaxNodesPerScaleUp)
		}
		if sum := r.state.GrownLately(action.Pool, r.now) + n; sum > r.policy.MaxNodesPerHour {
			return refuse("pool %s: %d nodes would be added within an hour, at most %d are allowed (policy.maxNodesPerHour)", action.Pool, sum, r.policy.MaxNodesPerHour)
		}
	case plan.RemoveNode:
		if n := r.nodes[action.Node]; n != nil && n.Drain != nil && n.Drain.Reason == plan.NodeEmpty {
			return nil // counted when its removal was decided
		}
		return r.admitRemoval(action.Pool)
	case plan.Reclaim:
		if action.Reason == plan.ReclaimBorrowed && !r.policy.ReclaimBorrowed {
			return refuse("policy.reclaimBorrowed is not set")
		}
		r.evictions++
		if r.evictions > r.policy.MaxEvictionsPerReconcile {
			return refuse("the plan evicts more than %d pods (policy.maxEvictionsPerReconcile)", r.policy.MaxEvictionsPerReconcile)
		}
	case plan.Drain:
		return r.admitDrain(action)
	case plan.Replace:
		if r.policy.SickAfter <= 0 {
			return refuse("policy.sickAfter is 0, so no node is replaced")
		}
	}
	return nil
}

func (r *reconcile) admitRemoval(pool string) error {
	r.removals++
	r.removing[pool]++
	if r.removals > r.policy.MaxRemovalsPerReconcile {
		return refuse("the plan removes more than %d nodes (policy.maxRemovalsPerReconcile)", r.policy.MaxRemovalsPerReconcile)
	}
	if sum := r.state.RemovedLately(r.now) + r.removals; sum > r.policy.MaxRemovalsPerTenMinutes {
		return refuse("%d nodes would be removed within ten minutes, at most %d are allowed (policy.maxRemovalsPerTenMinutes)", sum, r.policy.MaxRemovalsPerTenMinutes)
	}
	if most := max(1, int(r.policy.MaxRemovalShare*float64(r.pools[pool].Size))); r.removing[pool] > most {
		return refuse("the plan removes more than %d nodes of pool %s (policy.maxRemovalShare)", most, pool)
	}
	return nil
}

// admitDrain counts nodes that begin to drain. A node that its provider terminates is not counted: it is terminated
// whether it is drained or not.
func (r *reconcile) admitDrain(action plan.Action) error {
	if action.Reason == plan.NodeInterrupted {
		if n := r.nodes[action.Node]; n == nil || !n.LeavesAt.After(r.now) {
			return refuse("node %s is not interrupted", action.Node)
		}
		return nil
	}
	if !r.draining[action.Node] && len(r.draining) >= r.policy.MaxDrains {
		return refuse("%d nodes would be draining, at most %d are allowed (policy.maxDrains)", len(r.draining)+1, r.policy.MaxDrains)
	}
	r.draining[action.Node] = true
	return nil
}
