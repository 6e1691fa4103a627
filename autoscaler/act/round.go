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
	sizes  map[string]int      // of pools
	pods   map[string][]string // keys of pods with GPUs, by node

	actions, removals int
}

func newRound(s plan.Snapshot, policy plan.Policy) *round {
	r := &round{now: s.Now, policy: policy, nodes: map[string]*plan.Node{}, sizes: map[string]int{}, pods: map[string][]string{}}
	for i := range s.Nodes {
		r.nodes[s.Nodes[i].Name] = &s.Nodes[i]
	}
	for _, p := range s.Pools {
		r.sizes[p.Name] = p.Size
	}
	for _, p := range s.Pods {
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
	}
	return nil
}
