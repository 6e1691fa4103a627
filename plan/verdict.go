package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/quota"
)

// verdict is a reason and its detail.
type verdict struct {
	reason Reason
	detail string
}

// verdicts is one verdict for every GPU, forecast, gang, node, pod, pool and
// tenant, in that order and each by name.
func (w *world) verdicts() []Verdict {
	out := slices.Grow(w.gpuVerdicts, len(w.forecasts)+len(w.evictions.gangs)+len(w.nodes)+len(w.running)+len(w.pending)+len(w.pools)+len(w.quotas.tenants))
	for i, at := 0, 0; i < len(w.nodes); i++ {
		n := &w.nodes[i]
		for c := 0; c < len(n.GPUs) && (n.repartition != nil || n.hasUnused || n.addable); c++ {
			w.decideGPU(&out[at+c], i, c)
		}
		at += len(n.GPUs)
	}
	for _, f := range w.forecasts {
		out = append(out, Verdict{KindForecast, f.Name, f.reason, f.detail})
	}
	for _, g := range w.evictions.gangs {
		out = append(out, w.gangVerdict(g))
	}
	for i := range w.nodes {
		if !w.nodes[i].virtual {
			out = append(out, w.nodeVerdict(&w.nodes[i]))
		}
	}
	out = w.podVerdicts(out)
	for _, p := range w.pools {
		out = append(out, w.poolVerdict(p))
	}
	used := w.quotas.used(w.pending)
	for i := range w.quotas.tenants {
		out = append(out, w.quotas.tenants[i].verdict(used))
	}
	return out
}

// podVerdicts merges running pods, which are in order, with pending ones.
func (w *world) podVerdicts(out []Verdict) []Verdict {
	pendingPods := make([]*pending, len(w.pending))
	for i := range w.pending {
		pendingPods[i] = &w.pending[i]
	}
	slices.SortFunc(pendingPods, func(a, b *pending) int { return byKey(a.pod, b.pod) })
	for _, r := range w.running {
		for len(pendingPods) > 0 && byKey(pendingPods[0].pod, r.pod) < 0 {
			out = append(out, w.pendingVerdict(pendingPods[0]))
			pendingPods = pendingPods[1:]
		}
		out = append(out, Verdict{KindPod, w.names.join(r.pod.Namespace, "/", r.pod.Name), Running, ""})
		w.runningVerdict(r, &out[len(out)-1])
	}
	for _, p := range pendingPods {
		out = append(out, w.pendingVerdict(p))
	}
	return out
}

func (w *world) pendingVerdict(p *pending) Verdict {
	return Verdict{KindPod, w.names.join(p.pod.Namespace, "/", p.pod.Name), p.reason, p.detail}
}

// runningVerdict completes the verdict on a running pod.
func (w *world) runningVerdict(r placedPod, v *Verdict) {
	p := r.pod
	if p.Leaving {
		v.Reason = PodLeaving
	}
	if r.node < 0 {
		return
	}
	n := &w.nodes[r.node]
	v.Detail = w.names.join("on ", n.name)
	next, evictedLater := w.evictions.later[p]
	switch {
	case p.Leaving:
		if n.Drain != nil {
			v.Detail += ", which is drained: " + string(n.Drain.Reason)
		}
	case evictedLater:
		v.Detail += "; a later reconcile evicts it for " + next
	case w.evictions.pods[p]:
		v.Reason = PodLeaving
		if n.action >= 0 && w.actions.list[n.action].Verb == Drain {
			v.Detail += ", which is drained: " + string(w.actions.list[n.action].Reason)
		}
		for i := range w.actions.list {
			if a := &w.actions.list[i]; a.Verb == Reclaim && a.Pod == v.Subject {
				v.Reason, v.Detail = a.Reason, a.Detail
			}
		}
	}
}

func (t *Tenant) verdict(tree quota.Tree) Verdict {
	v := Verdict{Kind: KindTenant, Subject: t.Name, Reason: WithinGuarantee}
	used, over := tree.Total(t.Name), tree.Borrowed(t.Name)
	v.Detail = fmt.Sprintf("uses %s of %s, limit %s", used, tree.Guaranteed(t.Name), t.Limit)
	switch {
	case !used.Fits(t.Limit):
		v.Reason = QuotaExceeded
	case !over.Zero():
		v.Reason = Borrowing
		v.Detail += ", borrows " + over.String()
	}
	return v
}

func (w *world) poolVerdict(p *poolState) Verdict {
	v := Verdict{Kind: KindPool, Subject: p.Name, Reason: Steady}
	size := fmt.Sprintf("%s (min %d, max %d)", count(p.Size, "node"), p.Min, p.Max)
	if p.Fixed {
		size = count(p.Size, "node") + ", fixed"
	}
	switch {
	case w.hold == TooManyUnready:
		v.Reason, v.Detail = w.hold, fmt.Sprintf("more than %.0f %% of the nodes, and more than %d, are unready", 100*w.policy.MaxUnready, w.policy.OKUnready)
	case w.hold != "" || p.Freeze:
		v.Reason, v.Detail = Frozen, size
	case p.action >= 0:
		a := w.actions.list[p.action]
		v.Reason, v.Detail = a.Reason, fmt.Sprintf("grows from %d to %d", a.From, a.To)
	case p.shrunk > 0:
		v.Reason, v.Detail = NodeEmpty, fmt.Sprintf("removes %d of %s", p.shrunk, size)
	case p.does.reason != "":
		v.Reason, v.Detail = p.does.reason, p.does.detail+", "+size
	case w.policy.SickAfter > 0 && w.policy.tooManySick(p):
		v.Reason, v.Detail = NodeSick, w.policy.manySickText(p)
	case p.stop != "":
		v.Reason, v.Detail = p.stop, p.why
	case w.idleHold != "":
		v.Reason, v.Detail = TooManyIdle, w.idleHold+", "+size
	case p.Fixed:
		v.Detail = size
	case p.base >= p.Max:
		v.Reason, v.Detail = PoolAtMax, size
	case p.surplus > 0 && cmp.Or(w.keepsPool(p), CoolingDown) == CoolingDown:
		v.Reason, v.Detail = cmp.Or(w.keepsPool(p), BoundReached), "has "+count(p.surplus, "empty node")+", "+size
	case p.base <= p.Min:
		v.Reason, v.Detail = AtMin, size
	default:
		v.Detail = size
	}
	return v
}

func (cond *conditions) nodeVerdict(n *nodeState) Verdict {
	v := Verdict{Kind: KindNode, Subject: n.name, Reason: Steady}
	if n.pool == nil {
		v.Detail = "in no pool"
		return v
	}
	if o := n.Operation; o != nil {
		v.Reason, v.Detail = cond.operationVerdict(n, o)
		return v
	}
	if d := n.decided; d.reason != "" {
		v.Reason, v.Detail = d.reason, d.detail
		return v
	}
	reason, idle := cond.emptiness(n)
	v.Reason = reason
	switch reason {
	case NodeEmpty:
		v.Detail = cond.emptyText(n.pool, idle)
		if p := n.pool; n.action < 0 && cond.keepsEmpty(p) {
			v.Reason = cond.keepsPool(p)
			if p.Fixed { // a fixed pool never removes it
				v.Detail = "empty for " + short(idle)
			}
		}
	case NodeBusy:
		v.Detail = count(n.bound, "pod")
		if n.NoScaleDown {
			v.Detail = "scale down is disabled for it"
		}
	case NodeUpcoming:
		v.Detail = n.dueText("ready in ", cond.now)
	case NodeInterrupted:
		v.Detail = cond.interruptionText(n)
	case NodeUnready:
		v.Detail = "created " + short(cond.now.Sub(n.Created)) + " ago"
	}
	return v
}

func (cond *conditions) operationVerdict(n *nodeState, o *Operation) (Reason, string) {
	switch {
	case o.Phase == PhaseSucceeded:
		return RepartitionDone, o.ID
	case o.Phase == PhaseFailed:
		return RepartitionFailed, o.Message
	case cond.failed(o):
		return RepartitionOverdue, o.ID
	}
	return WaitRepartition, o.ID + ", " + n.dueText("ready in ", cond.now)
}

// decideGPU changes the verdict on a GPU that this plan repartitions, or that is unusual.
func (w *world) decideGPU(v *Verdict, node, device int) {
	n := &w.nodes[node]
	c, planned := &n.GPUs[device], n.repartitions(device)
	switch {
	case c.Health == gpu.Sick || n.operating() && n.Operation.GPU == c.Index:
	case planned && n.action >= 0:
		v.Reason, v.Detail = WaitRepartition, ""
	case !c.AllocationKnown:
	case planned:
		v.Reason, v.Detail = CoolingDown, ""
		if at := w.repartitionAgainAt(n, c.Index); at.After(w.now) {
			v.Detail = "its repartition failed, next attempt in " + short(at.Sub(w.now))
		}
	case n.hasUnused && w.idlers(c) != "":
		v.Reason, v.Detail = GPUUnused, w.idlers(c)
	case w.models.stranded(n, c):
		v.Reason, v.Detail = GPUStranded, w.models.strandedText(c)
	}
}

// stranded reports whether an instance could be added to a GPU's layout: it would use slices that are in no instance.
// Slices that no further instance can use (3g.40gb twice leaves one) do not count, since no repartition helps. A GPU
// with an unplaced instance has none.
func (ms *models) stranded(n *nodeState, c *GPU) bool {
	t, ok := ms.table(c.Model.Name)
	if !ok || !n.addable || !c.MIG || n.pool == nil || c.Health == gpu.Sick || !n.pool.MIG.Repartition || c.Model.Name != n.model ||
		slices.ContainsFunc(c.Instances, func(in Instance) bool { return !in.Placed }) {
		return false
	}
	allowed := n.pool.MIG.Allowed
	return slices.ContainsFunc(t.Free(layoutOf(c)), func(p mig.Placement) bool { return len(allowed) == 0 || slices.Contains(allowed, p.Profile) })
}

// strandedText is "2 compute and 4 memory slices are in no GPU instance".
func (ms *models) strandedText(c *GPU) string {
	t, _ := ms.table(c.Model.Name) // there is one, as something could be added
	compute, memory := t.FreeSlices(layoutOf(c))
	return fmt.Sprintf("%d compute and %d memory slices are in no GPU instance", compute, memory)
}
