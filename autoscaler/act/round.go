package act

import (
	"time"

	"github.com/gpuscale/gpuscale/plan"
)

// round is what one plan was made on, and how much of its bounds is left.
type round struct {
	now    time.Time
	policy plan.Policy
	nodes  map[string]*plan.Node
	pools  map[string]plan.Pool
	pods   map[string][]string // keys of pods with GPUs, by node
	// podByKey are all pods, by "namespace/name".
	podByKey map[string]*plan.Pod
	// lastReplace is from before this plan.
	lastReplace []plan.Stamp

	actions, removals, evictions int
	draining                     map[string]bool // nodes
	gone                         map[string]int  // nodes taken out, by pool
	replaced                     map[string]bool // pools
}

func newRound(s plan.Snapshot, policy plan.Policy) *round {
	r := &round{
		now: s.Now, policy: policy, nodes: map[string]*plan.Node{}, pools: map[string]plan.Pool{}, pods: map[string][]string{},
		podByKey: make(map[string]*plan.Pod, len(s.Pods)), lastReplace: s.Memory.LastReplace,
		draining: map[string]bool{}, gone: map[string]int{}, replaced: map[string]bool{},
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
	for i := range s.Pods {
		p := &s.Pods[i]
		r.podByKey[p.Key()] = p
		if p.Node != "" && !p.Demand.Zero() {
			r.pods[p.Node] = append(r.pods[p.Node], p.Key())
		}
	}
	return r
}

// admit counts an action against the policy's bounds. Undoing what is under way
// is never held up by them, but by the freeze.
func (r *round) admit(action plan.Action) error {
	if r.policy.Freeze {
		return refuse("everything is frozen")
	}
	r.actions++
	if r.actions > r.policy.MaxActionsPerRound {
		return refuse("more than %d actions in a round", r.policy.MaxActionsPerRound)
	}
	switch action.Verb {
	case plan.ScaleUp:
		if n := action.To - action.From; n > r.policy.MaxNodesPerScaleUp {
			return refuse("%d nodes at once, at most %d", n, r.policy.MaxNodesPerScaleUp)
		}
	case plan.RemoveNode:
		r.removals++
		if r.removals > r.policy.MaxRemovalsPerRound {
			return refuse("more than %d nodes given back in a round", r.policy.MaxRemovalsPerRound)
		}
	case plan.Reclaim:
		r.evictions++
		if r.evictions > r.policy.MaxEvictionsPerRound {
			return refuse("more than %d pods asked to leave in a round", r.policy.MaxEvictionsPerRound)
		}
	case plan.Drain:
		r.draining[action.Node] = true
		if len(r.draining) > r.policy.MaxDrains {
			return refuse("%d nodes would be draining, at most %d", len(r.draining), r.policy.MaxDrains)
		}
	case plan.Replace:
		if r.policy.SickAfter <= 0 {
			return refuse("replacing is turned off")
		}
	}
	return nil
}
