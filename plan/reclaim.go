package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/quota"
)

// leaveSoon is how long a pod that is asked to leave usually takes: Kubernetes'
// default grace period.
const leaveSoon = 30 * time.Second

// movable reports whether a pod may be asked to leave now.
func (w *world) movable(p *Pod) bool {
	if !p.Evictable || p.Leaving || p.DaemonSet || w.gone[p] || p.EvictFrom.After(w.now) {
		return false
	}
	for _, b := range p.Budgets {
		if w.budgets[b.Name] <= 0 {
			return false
		}
	}
	return true
}

// gatherBudgets notes what disruption budgets allow. Where pods differ in what
// they say of one, the least holds for all of them.
func (w *world) gatherBudgets(pods []Pod) {
	for i := range pods {
		for _, b := range pods[i].Budgets {
			if left, ok := w.budgets[b.Name]; !ok || b.Allowed < left {
				w.budgets[b.Name] = b.Allowed
			}
		}
	}
}

// spend takes a pod that is asked to leave off its budgets.
func (w *world) spend(p *Pod) {
	if w.undo != nil {
		w.undo.left = append(w.undo.left, p)
	}
	for _, b := range p.Budgets {
		w.budgets[b.Name]--
	}
}

// loss is what moving a pod costs: its work so far, weighed by its priority.
func (w *world) loss(p *Pod) float64 {
	return w.policy.EvictionCost * float64(slicesOf(p)) / gpuSlices * urgency(p.Priority)
}

// victims lists, by node of ours, the pods whose tenants have borrowed: the least
// urgent first, then the youngest.
func (w *world) victims(node int) []*Pod {
	var out []*Pod
	for _, p := range w.nodes[node].pods {
		if t := w.tenantIndex(p); t >= 0 && p.Demand.Fraction == nil && w.movable(p) && !w.tree.Borrowed(p.Tenant).Zero() {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, leavesFirst)
	return out
}

// leavesFirst orders those who leave: the least urgent first, then the youngest.
func leavesFirst(a, b *Pod) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), b.Created.Compare(a.Created), byKey(a, b))
}

// maxLenders bounds the nodes that are emptied in thought for one pod.
const maxLenders = 64

// lender is a node on which pods run whose tenants have borrowed, and the room it
// had if all of them left: whoever does not fit there fits in no way.
type lender struct {
	node     int
	first    *Pod // to leave
	capacity capacity
}

// findLenders lists the lenders before anything is added: the one whose first
// pod to leave is the least urgent, then the youngest, comes first.
func (w *world) findLenders() {
	w.lenders = nil
	if w.policy.MaxEvictionsPerReconcile <= 0 || !slices.ContainsFunc(w.tenants, func(t Tenant) bool { return !w.tree.Borrowed(t.Name).Zero() }) {
		return
	}
	for i := range w.nodes {
		n := &w.nodes[i]
		if n.tier != tierNow && n.since != PodLeaving || n.pool < 0 || w.pools[n.pool].Freeze {
			continue
		}
		victims := w.victims(i)
		if len(victims) == 0 {
			continue
		}
		l := lender{i, victims[0], n.capacity.clone()}
		for _, v := range victims {
			w.putBack(v, &l.capacity)
		}
		w.lenders = append(w.lenders, l)
	}
	slices.SortStableFunc(w.lenders, func(a, b lender) int { return leavesFirst(a.first, b.first) })
}

// lent reports whether anything borrowed can be taken back.
func (w *world) lent() bool { return len(w.lenders) > 0 }

// reclaimOption finds the node on which the fewest must leave, of those who have
// borrowed, for a pod that asks for no more than its tenant is guaranteed.
func (w *world) reclaimOption(p *pending, k *kind) (option, bool) {
	best, found := option{}, false
	if !p.charged || p.borrowed || w.policy.MaxEvictionsPerReconcile <= w.evicted || !w.lent() || k.failedTrial == w.failedTrial() {
		return best, false
	}
	tried := 0
	for j := range w.lenders {
		i := w.lenders[j].node
		n := &w.nodes[i]
		if !w.admits(k, n) || w.lacks(k, &w.lenders[j].capacity) != "" || n.tier != tierNow && n.since != PodLeaving || !w.rulesAllow(k, n) {
			continue
		}
		if tried++; tried > maxLenders {
			break
		}
		victims := w.enough(k, n, w.victims(i), p.pod.Tenant)
		if len(victims) == 0 || w.evicted+len(victims) > w.policy.MaxEvictionsPerReconcile ||
			len(w.actions)+len(victims) > w.policy.MaxActionsPerReconcile {
			continue
		}
		o := option{node: i, victims: victims, at: w.now.Add(leaveSoon), cost: w.waitCost(k, p.pod.Priority, leaveSoon)}
		for _, v := range victims {
			o.cost += w.loss(v)
		}
		if !found || o.cost < best.cost || o.cost == best.cost && youngest(o.victims).After(youngest(best.victims)) {
			best, found = o, true
		}
	}
	if !found {
		k.failedTrial = w.failedTrial()
	}
	return best, found
}

// failedTrial numbers the trial under way, 0 outside of any: what cannot be taken back
// for one pod of a kind cannot be for the next, as long as nothing is taken back
// that was given.
func (w *world) failedTrial() int {
	if w.undo == nil {
		return 0
	}
	return w.trials
}

// youngest is when the last of them was created: it has the least to lose.
func youngest(pods []*Pod) time.Time {
	var last time.Time
	for _, p := range pods {
		last = later(last, p.Created)
	}
	return last
}

// enough picks, of the victims in order, those that make room for the kind: none
// where all of them together do not. Nobody is left with less than it is
// guaranteed, and no budget is overdrawn.
func (w *world) enough(k *kind, n *nodeState, victims []*Pod, tenant string) []*Pod {
	if len(victims) == 0 {
		return nil
	}
	r := n.capacity.clone()
	borrowed := map[string]quota.Amount{}
	spent := map[string]int{}
	var chosen []*Pod
	for _, v := range victims {
		if v.Tenant == tenant || !w.affordable(v, borrowed, spent) {
			continue
		}
		w.putBack(v, &r)
		chosen = append(chosen, v)
		if w.lacks(k, &r) == "" {
			return w.fewest(k, &r, chosen)
		}
	}
	return nil
}

// affordable takes a pod off what its tenant has borrowed and off its budgets,
// where both allow it.
func (w *world) affordable(v *Pod, borrowed map[string]quota.Amount, spent map[string]int) bool {
	if !w.canAfford(v, borrowed, spent) {
		return false
	}
	borrowed[v.Tenant] = w.borrowedOf(v, borrowed).Sub(w.amountOf(v))
	for _, b := range v.Budgets {
		spent[b.Name]++
	}
	return true
}

func (w *world) canAfford(v *Pod, borrowed map[string]quota.Amount, spent map[string]int) bool {
	if !w.amountOf(v).Fits(w.borrowedOf(v, borrowed)) {
		return false
	}
	return !slices.ContainsFunc(v.Budgets, func(b Budget) bool { return w.budgets[b.Name]-spent[b.Name] <= 0 })
}

// borrowedOf is what a pod's tenant has borrowed, less what has been taken off.
func (w *world) borrowedOf(v *Pod, borrowed map[string]quota.Amount) quota.Amount {
	if left, known := borrowed[v.Tenant]; known {
		return left
	}
	return w.tree.Borrowed(v.Tenant)
}

// fewest drops from the chosen those without whom there is still room.
func (w *world) fewest(k *kind, r *capacity, chosen []*Pod) []*Pod {
	return slices.DeleteFunc(chosen, func(v *Pod) bool {
		w.takeRunning(v, r)
		if w.lacks(k, r) == "" {
			return true
		}
		w.putBack(v, r)
		return false
	})
}

// commitReclaim asks the victims to leave and promises their place.
func (w *world) commitReclaim(p *pending, k *kind, o option, rival string) {
	names := make([]string, len(o.victims))
	for i, v := range o.victims {
		names[i] = v.Key()
		w.evict(o.node, v, ReclaimBorrowed, fmt.Sprintf("%s of %s is guaranteed what %s has borrowed; %.2f%s",
			p.pod.Key(), p.pod.Tenant, v.Tenant, o.cost, rival), p.pod.Key())
	}
	w.reindex(o.node)
	w.commitWait(p, k, o)
	p.detail = fmt.Sprintf("on %s when %s has left", w.nodes[o.node].name, strings.Join(names, ", "))
}

// evict asks a running pod to leave; its place is supply a little later.
func (w *world) evict(node int, v *Pod, reason Reason, detail, forPod string) {
	n := w.touch(node)
	a := Action{Verb: Reclaim, Pool: n.Pool, Node: n.name, Pod: v.Key(), Reason: reason, Detail: detail, Cost: w.loss(v)}
	if forPod != "" {
		a.For = []string{forPod}
	}
	w.actions = append(w.actions, a)
	w.gone[v] = true
	w.evicted++
	w.spend(v)
	if t := w.tenantIndex(v); t >= 0 {
		if tree, err := w.tree.Remove(v.Tenant, w.amountOf(v)); err == nil {
			w.tree = tree
		}
	}
	w.putBack(v, &n.capacity)
	w.place(v, n, -1)
	n.leaving++
	n.at = later(n.at, w.now.Add(leaveSoon))
	n.changeAt = later(n.changeAt, n.at)
	n.tier, n.since = tierChange, PodLeaving
}
