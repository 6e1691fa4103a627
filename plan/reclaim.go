package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/quota"
)

// gracePeriod is the usual time from an eviction to the pod's end: Kubernetes'
// default grace period.
const gracePeriod = 30 * time.Second

// movable reports whether a pod may be evicted now.
func (w *world) movable(p *Pod) bool { return !w.keepsStorage(p) && w.mayEvict(p) }

// keepsStorage reports a pod that the policy keeps for its local storage.
func (w *world) keepsStorage(p *Pod) bool {
	return p.LocalStorage && w.policy.SkipNodesWithLocalStorage
}

// mayEvict is movable for a pod whose local storage is lost in any case.
func (w *world) mayEvict(p *Pod) bool {
	return p.Evictable && !p.Leaving && !p.DaemonSet && !w.evictedPods[p] && !p.EvictFrom.After(w.now) && w.budgetsAllow(p, nil)
}

// spend subtracts an evicted pod from its budgets.
func (w *world) spend(p *Pod) {
	w.evictedPods[p] = true
	for _, b := range p.Budgets {
		w.budgets[b.Name]--
	}
	w.record(func() {
		delete(w.evictedPods, p)
		delete(w.evictedLater, p)
		for _, b := range p.Budgets {
			w.budgets[b.Name]++
		}
	})
}

// victims are the pods of a node that may be evicted and whose tenants have borrowed.
func (w *world) victims(node int) []placedPod {
	var out []placedPod
	for _, p := range w.nodes[node].pods {
		if t := w.tenantIndex(p); t >= 0 && p.Demand.Fraction == nil && w.movable(p) && !w.tree.Borrowed(p.Tenant).Zero() {
			out = append(out, placedPod{node, p})
		}
	}
	return out
}

// next is the pod to evict beside others, and what is lost with all of them: the least
// urgent, then the one with which least is lost, then the youngest; no pod for none.
func (w *world) next(from, gone []placedPod) (best placedPod, least float64) {
	pods := make([]*Pod, len(gone), len(gone)+1)
	for i := range gone {
		pods[i] = gone[i].pod
	}
	for _, v := range from {
		if best.pod != nil && v.pod.Priority > best.pod.Priority {
			continue
		}
		lost := w.lossBeside(append(pods, v.pod), w.restart(v.node))
		if best.pod == nil || cmp.Or(cmp.Compare(v.pod.Priority, best.pod.Priority), cmp.Compare(lost, least), evictionOrder(v.pod, best.pod)) < 0 {
			best, least = v, lost
		}
	}
	return best, least
}

// choose picks pods whose eviction is enough, without those that turn out not to be needed: the first by next,
// and one that completes them, with which least is lost; none where all are not enough. No tenant is left with less
// than its guarantee, and no budget is exceeded.
func (w *world) choose(from []placedPod, may func(*Pod) bool, enough func(gone []placedPod) bool) (best []placedPod) {
	least := 0.0
	for gone := []placedPod(nil); !enough(gone); {
		tree := w.without(gone)
		able := slices.DeleteFunc(slices.Clone(from), func(v placedPod) bool {
			return slices.Contains(gone, v) || w.stopOnly && !slices.Contains(w.stopping, v.pod) || !may(v.pod) || !w.amountOf(v.pod).Fits(tree.Borrowed(v.pod.Tenant)) || !w.budgetsAllow(v.pod, gone)
		})
		first, _ := w.next(able, gone)
		if first.pod == nil || best != nil && first.pod.Priority > best[len(best)-1].pod.Priority {
			break
		}
		with := func(v placedPod) []placedPod { return append(slices.Clip(gone), v) }
		last, lost := w.next(slices.DeleteFunc(able, func(v placedPod) bool {
			return v != first && (v.pod.Priority != first.pod.Priority || len(from) > maxBorrowers) || !enough(with(v))
		}), gone)
		if last.pod != nil && (best == nil || lost < least) {
			best, least = with(last), lost
		}
		gone = append(gone, first)
	}
	for i := 0; i < len(best); {
		if without := slices.Delete(slices.Clone(best), i, i+1); enough(without) {
			best = without
		} else {
			i++
		}
	}
	return best
}

// budgetsAllow reports whether a pod may be evicted after others.
func (w *world) budgetsAllow(p *Pod, gone []placedPod) bool {
	for _, b := range p.Budgets {
		left := w.budgets[b.Name]
		for _, v := range gone {
			if slices.ContainsFunc(v.pod.Budgets, func(o Budget) bool { return o.Name == b.Name }) {
				left--
			}
		}
		if left <= 0 {
			return false
		}
	}
	return true
}

// without is the quota tree after some evictions.
func (w *world) without(gone []placedPod) quota.Tree {
	tree := w.tree
	for _, v := range gone {
		tree = w.released(tree, v.pod)
	}
	return tree
}

// released is a quota tree without what a pod uses.
func (w *world) released(tree quota.Tree, p *Pod) quota.Tree {
	less, _ := tree.Remove(p.Tenant, w.amountOf(p)) // the same tree where it is under no quota
	return less
}

// evictionOrder orders pods for eviction: the least urgent first, then the
// youngest.
func evictionOrder(a, b *Pod) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), b.Created.Compare(a.Created), byKey(a, b))
}

// maxBorrowers bounds the nodes on which evictions are tried for one pod, and the pods of which each is tried as the
// last of those to evict.
const maxBorrowers = 64

// borrowers is a node with pods of tenants that have borrowed, and its free
// capacity without all of them: what does not fit then cannot be served there.
type borrowers struct {
	node     int
	first    *Pod    // to leave
	lost     float64 // with it
	capacity capacity
}

// reclaimsFrom reports a node from which pods may be evicted for others.
func (w *world) reclaimsFrom(n *nodeState) bool {
	return (n.tier == tierNow || n.since == PodLeaving) && n.pool >= 0 && !w.pools[n.pool].Freeze
}

// findBorrowers lists the nodes with borrowers, in the eviction order of each
// node's first victim. It runs before any node is added.
func (w *world) findBorrowers() {
	w.borrowers = nil
	if !w.policy.ReclaimBorrowed || w.policy.MaxEvictionsPerReconcile <= 0 || !slices.ContainsFunc(w.tenants, func(t Tenant) bool { return !w.tree.Borrowed(t.Name).Zero() }) {
		return
	}
	for i := range w.nodes {
		n := &w.nodes[i]
		if !w.reclaimsFrom(n) {
			continue
		}
		victims := w.victims(i)
		if len(victims) == 0 {
			continue
		}
		first, lost := w.next(victims, nil)
		l := borrowers{i, first.pod, lost, n.capacity.clone()}
		for _, v := range victims {
			w.putBack(n.located(v.pod), &l.capacity)
		}
		w.borrowers = append(w.borrowers, l)
	}
	slices.SortStableFunc(w.borrowers, func(a, b borrowers) int {
		return cmp.Or(cmp.Compare(a.first.Priority, b.first.Priority), cmp.Compare(a.lost, b.lost), evictionOrder(a.first, b.first))
	})
}

// reclaimable reports whether anything borrowed can be reclaimed.
func (w *world) reclaimable() bool { return len(w.borrowers) > 0 }

// reclaimOption finds the node where the evictions cost least, for a pod within
// its tenant's guarantee. A node with a sick GPU is to be replaced: the pod would have to
// move again.
func (w *world) reclaimOption(p *pending, k *kind) (option, bool) {
	best, found := option{}, false
	if !p.charged || p.borrowed || !w.mayEvictMore(1) || !w.reclaimable() || k.failedTrial == w.journal.current {
		return best, false
	}
	tried, free := 0, false
	for j := range w.borrowers {
		i := w.borrowers[j].node
		n := &w.nodes[i]
		if !w.admits(k, n) || w.lacks(k, &w.borrowers[j].capacity) != "" || !w.reclaimsFrom(n) || !w.rulesAllow(k, n) {
			continue
		}
		if tried++; tried > maxBorrowers {
			break
		}
		victims := w.choose(w.victims(i), func(v *Pod) bool { return v.Tenant != p.pod.Tenant }, func(gone []placedPod) bool {
			r := n.capacity.clone()
			for _, v := range gone {
				w.putBack(n.located(v.pod), &r)
			}
			return w.lacks(k, &r) == ""
		})
		if len(victims) == 0 || !w.mayEvictMore(len(victims)) {
			free = free || w.lacks(k, &n.capacity) == "" // of what was evicted before
			continue
		}
		o := option{kind: OptionReclaim, node: i, at: w.now.Add(gracePeriod)}
		for _, v := range victims {
			o.victims = append(o.victims, v.pod)
		}
		o.cost = w.waitCost(k, p.pod.Priority, gracePeriod) + w.lossBeside(o.victims, w.restart(i))
		if n.unusual.sick && w.policy.SickAfter > 0 && !w.pools[n.pool].Fixed {
			o.cost += w.moveCost(p.pod, w.restart(i))
		}
		if !found || o.cost < best.cost {
			best, found = o, true
		}
	}
	if !found && !free && !w.stopOnly {
		// What cannot be reclaimed for one pod of a kind cannot be for the next,
		// as long as no trial is reverted.
		k.failedTrial = w.journal.current
	}
	return best, found
}

// mayEvictMore reports whether the plan may have n more evictions. For a gang,
// those beyond the policy's bounds are left to a later reconcile.
func (w *world) mayEvictMore(n int) bool {
	if w.policy.MaxEvictionsPerReconcile <= 0 || w.policy.MaxActionsPerReconcile <= 0 {
		return false
	}
	return w.staging || w.evictionBound(n) == ""
}

// commitReclaim evicts the victims and reserves their capacity.
func (w *world) commitReclaim(p *pending, k *kind, o option, alternative string) {
	more := w.lostAnyway(o)
	o.cost += more
	w.spent += more
	for _, v := range o.victims {
		w.evict(o.node, v, ReclaimBorrowed, fmt.Sprintf("%s of %s is guaranteed what %s has borrowed; %.2f%s",
			p.pod.Key(), p.pod.Tenant, v.Tenant, o.cost, alternative), p.pod.Key())
	}
	w.reindex(o.node)
	w.commitWait(p, k, o)
	if p.reason != BoundReached {
		p.detail = fmt.Sprintf("on %s when %s has left", w.nodes[o.node].name, o.victimsText())
	}
}

func (o option) victimsText() string {
	names := make([]string, len(o.victims))
	for i, v := range o.victims {
		names[i] = v.Key()
	}
	return strings.Join(names, ", ")
}

// evict adds the eviction of a running pod, or leaves it to a later reconcile
// where a bound delays it; its devices are supply after the grace period.
func (w *world) evict(node int, v *Pod, reason Reason, detail, forPod string) {
	n := w.touch(node)
	a := Action{Verb: Reclaim, Pool: n.Pool, Node: n.name, Pod: v.Key(), Reason: reason, Detail: detail, Cost: w.loss([]*Pod{v}, w.restart(node))}
	if forPod != "" {
		a.For = []string{forPod}
	}
	bound := w.evictionBound(1)
	w.spend(v)
	if bound == "" {
		w.addAction(a)
		w.evicted++
	} else {
		n.later = bound
		w.evictedLater[v] = forPod // as spend reverts it
	}
	w.tree = w.without([]placedPod{{node, v}})
	w.putBack(n.located(v), &n.capacity)
	w.place(v, node, -1)
	n.leaving++
	n.at = later(n.at, w.now.Add(gracePeriod))
	n.changeAt = later(n.changeAt, n.at)
	n.tier, n.since = tierChange, PodLeaving
}

// loss is the cost of stopping running pods of which each waits for so long until
// it runs again: their moves, and the work that is lost. A gang of which fewer
// than it needs would be left stops as a whole, and is counted once.
func (w *world) loss(pods []*Pod, wait time.Duration) float64 {
	sum := 0.0
	var gangs []*gang
	stopped := map[*gang]int{}
	for _, p := range pods {
		if g := w.gangNamed(p.Gang); g != nil {
			if stopped[g]++; stopped[g] == 1 {
				gangs = append(gangs, g)
			}
		}
	}
	for _, p := range pods {
		g := w.gangNamed(p.Gang)
		if g == nil || w.left(g)-stopped[g] >= g.min {
			sum += w.moveCost(p, wait) + w.workOf(p)
		}
	}
	for _, g := range gangs {
		if left := w.left(g); left < g.min || left-stopped[g] >= g.min {
			continue // it does not run already, or goes on
		}
		for _, p := range g.runs {
			sum += w.moveCost(p, wait) + w.workOf(p)
		}
	}
	return sum
}

// left is how many members of a gang run and stay.
func (w *world) left(g *gang) int {
	n := 0
	for _, p := range g.runs {
		if !w.evictedPods[p] {
			n++
		}
	}
	return n
}

func (w *world) gangNamed(name string) *gang {
	i, ok := slices.BinarySearchFunc(w.gangs, name, func(g *gang, n string) int { return strings.Compare(g.name, n) })
	if !ok || name == "" {
		return nil
	}
	return w.gangs[i]
}

// moveCost is the cost of moving a pod: the interruption, and the wait until it
// runs again.
func (w *world) moveCost(p *Pod, wait time.Duration) float64 {
	return w.gpusOf(p) * urgency(p.Priority) * (w.policy.EvictionCost + w.policy.WaitCostPerHour*max(wait, 0).Hours())
}

// servers are the kinds of owners whose pods serve requests: a pod that is moved
// has no work to repeat.
var servers = []string{"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "InferenceService"}

// workOf is the price of the GPU time that a pod would have to repeat: since it
// began, or none where it serves requests or says when it may be moved without
// losing work.
func (w *world) workOf(p *Pod) float64 {
	owner, _, _ := strings.Cut(p.Owner, "/")
	if !p.EvictFrom.IsZero() && !p.EvictFrom.After(w.now) || slices.Contains(servers, owner) {
		return 0
	}
	hours := w.policy.NodeLife.Hours() // an unknown age
	if !p.Created.IsZero() {
		hours = max(w.now.Sub(p.Created), 0).Hours()
	}
	return hours * w.gpuPrice(p.Node) * w.gpusOf(p)
}

// gpusOf is a running pod's demand in GPUs; all of its node's where it is unknown.
func (w *world) gpusOf(p *Pod) float64 {
	if i := w.nodeIndex(p.Node); i >= 0 && p.Unreadable != "" {
		return float64(len(w.nodes[i].GPUs))
	}
	return float64(slicesOf(p)) / gpuSlices
}

// gpuPrice is the price of one of a node's GPUs for an hour.
func (w *world) gpuPrice(node string) float64 {
	i := w.nodeIndex(node)
	if i < 0 || w.nodes[i].pool < 0 {
		return 1
	}
	ps := &w.pools[w.nodes[i].pool]
	return ps.price() / float64(max(1, len(ps.Template.GPUs)))
}

// restart is how long a pod that is evicted from a node waits for another place:
// for a new node, where nothing is known to be free.
func (w *world) restart(node int) time.Duration {
	if pool := w.nodes[node].pool; pool >= 0 {
		return max(w.pools[pool].ReadyAfter, gracePeriod)
	}
	return gracePeriod
}
