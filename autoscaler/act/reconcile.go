package act

import (
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// reconcile is the snapshot of one plan, indexed.
type reconcile struct {
	now    time.Time
	policy plan.Policy
	tables mig.Tables // published by nodes
	nodes  map[string]*plan.Node
	pools  map[string]plan.Pool
	pods   map[string]*plan.Pod // by "namespace/name"
}

func newReconcile(s plan.Snapshot, policy plan.Policy) *reconcile {
	r := &reconcile{now: s.Now, policy: policy, tables: s.Tables, nodes: map[string]*plan.Node{}, pools: map[string]plan.Pool{}, pods: make(map[string]*plan.Pod, len(s.Pods))}
	for i := range s.Nodes {
		r.nodes[s.Nodes[i].Name] = &s.Nodes[i]
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
