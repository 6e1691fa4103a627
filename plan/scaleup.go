package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// lookAhead bounds the further pods that are tried on a new node, to divide its price.
const lookAhead = 64

// scaleUpOption finds the pool whose next node serves the pod: the highest priority first, then
// the least cost. An unclaimed upcoming node is paid for already. So a new one is added only where
// it costs less than the wait for the upcoming one, and in no pool of a lower priority. Among
// unclaimed nodes pools are ordered as for new nodes, so each node goes to the pods for which it
// was requested. A node that its pool's minimum requires was requested for no pod. Requested nodes
// are compared with it as new ones are. With onlyUpcoming no node is added.
func (w *world) scaleUpOption(p *pending, onlyUpcoming bool) (option, bool) {
	var added, requested, required option
	first := func(best *option, o option) {
		if best.pool == nil || p.kind.before(o, *best) {
			*best = o
		}
	}
	for _, ps := range w.pools {
		reason, _ := w.cannotScaleUp(p, ps)
		if w.models.hasSpare(p.kind, ps, reason) {
			upcoming := &requested
			if ps.size() < ps.Min {
				upcoming = &required
			}
			first(upcoming, w.priced(p, ps, ps.spare[0]))
		}
		if reason == "" && !onlyUpcoming {
			first(&added, w.priced(p, ps, -1))
		}
	}
	best := added
	for _, o := range []option{requested, required} {
		if o.pool != nil && (best.pool == nil || best.pool.Priority < o.pool.Priority || best.cost >= o.cost-o.price) {
			best = o
		}
	}
	if best.pool == nil {
		return option{}, false
	}
	return w.balanced(best, p), true
}

// hasSpare reports whether the kind may use an unclaimed upcoming node of the pool. reason is
// that of cannotScaleUp: why the pool adds no new node for it, empty where it can.
func (ms *models) hasSpare(k *kind, ps *poolState, reason Reason) bool {
	return len(ps.spare) > 0 && reason != NoPoolFits && reason != CapacityKept && !ms.unobservedFor(k, ps)
}

// priced is the option of a pool's next node. spare is the index of an upcoming node, or
// negative for a new one.
func (w *world) priced(p *pending, ps *poolState, spare int) option {
	o := option{kind: OptionNode, pool: ps, node: spare, at: w.now.Add(ps.ReadyAfter)}
	if spare >= 0 {
		o.at = w.nodes[spare].at
	}
	r, repartitions := w.models.capacityFor(p.kind, ps)
	wait := o.at.Sub(w.now)
	if o.repartitions = repartitions; repartitions {
		wait += ps.MIG.IdleAfter + ps.MIG.Duration
		o.cost = w.policy.DisruptionCost
	}
	share, mates := w.shareOf(p, ps, r)
	o.share, o.price, o.risk = share, w.policy.life(ps)*share, w.interruption(ps, p.pod, mates)
	o.cost += o.price + w.policy.waitCost(p.kind, p.pod.Priority, wait) + o.risk
	return o
}

// interruption is a pod's part of the expected loss from a spot interruption
// within the node's life. A gang loses all its members' work, once for each of
// its nodes; a pod that must not be moved has no checkpoint.
func (w *world) interruption(ps *poolState, p *Pod, mates int) float64 {
	if !ps.Spot || ps.InterruptionsPerHour <= 0 {
		return 0
	}
	loss := w.evictions.moveCost(p, ps.ReadyAfter) * float64(max(p.GangMin, 1)) / float64(max(mates, 1))
	if !p.Evictable {
		loss *= immovable
	}
	return loss * (1 - math.Exp(-ps.InterruptionsPerHour*w.policy.NodeLife.Hours()))
}

// immovable multiplies the loss of a pod that must not be moved.
const immovable = 10

// capacityFor is a new node's free capacity for the kind, with its GPUs repartitioned where that
// is needed, and whether it is. Where they cannot be repartitioned, the kind does not fit the result.
func (ms *models) capacityFor(k *kind, p *poolState) (r capacity, repartitions bool) {
	if ms.lacks(k, &p.fresh.capacity) == "slices" {
		return ms.repartitionNew(k, p)
	}
	return p.fresh.clone(), false
}

// repartitionNew returns a new node's free capacity once its GPUs are
// repartitioned for the kind; false when none of them can be.
func (ms *models) repartitionNew(k *kind, p *poolState) (r capacity, ok bool) {
	requested, known := ms.requestOf(k, p.fresh.model)
	if !p.MIG.Repartition || !known || p.fresh.model == "" {
		return capacity{}, false
	}
	r = p.fresh.clone()
	for _, s := range p.boot { // each by itself
		if change, left, why := ms.changeOf(p, p.fresh.model, s, requested, p.fresh.free, nil, false); why == "" && left == nil {
			r.relayout(change.before, change.answer.Layout)
			ok = true
		}
	}
	for i := 0; i < len(p.boot) && !ok && shortOf(requested, nil) > 1; i++ { // or several for one pod
		if change, left, why := ms.changeOf(p, p.fresh.model, p.boot[i], requested, r.free, nil, true); why == "" {
			r.relayout(change.before, change.answer.Layout)
			ok = left == nil
		}
	}
	return r, ok
}

// cannotScaleUp returns why the pool adds no node for the pod, with a detail;
// empty where it can.
func (w *world) cannotScaleUp(of *pending, p *poolState) (Reason, string) {
	k := of.kind
	if why := w.misfit(k, p); why != "" {
		if p.Template.Differs != "" {
			why += " (unlike its template, its nodes have " + p.Template.Differs + ")"
		}
		return NoPoolFits, p.Name + ": " + why
	}
	if why := w.templateMismatch(k, p); why != "" {
		return NoPoolFits, p.Name + ": " + why
	}
	switch {
	case p.stop != "":
		return p.stop, p.Name + ": " + p.why
	case w.models.unobservedFor(k, p) && p.Fixed:
		return AllocationUnknown, p.Name + ": the allocation of its GPUs is unknown"
	case w.models.unobservedFor(k, p):
		return AllocationUnknown, p.Name + ": a new node would have to be repartitioned, and the allocation of its GPUs is unknown"
	case p.Fixed:
		return PoolFixed, p.Name + ": the pool is fixed, so no node is added"
	case p.base+p.grown+p.later >= p.Max:
		return PoolAtMax, p.atMaxText()
	case p.keptFor != "" && of.pod.Priority < p.kept:
		return CapacityKept, fmt.Sprintf("%s has %d of %d nodes, and keeps the others for %s", p.Name, p.base+p.grown, p.Max, p.keptFor)
	case w.serving.committing && w.policy.MaxNodesPerScaleUp > 0 && w.policy.MaxNodesPerHour > 0:
	case w.nodeBound(p) != "":
		return BoundReached, w.nodeBound(p)
	}
	return "", ""
}

// atMaxText is "p has 4 of 4 nodes". For a pool that reaches its maximum with nodes for other pods, it says so.
func (p *poolState) atMaxText() string {
	text := fmt.Sprintf("%s has %d of %d nodes", p.Name, p.base, p.Max)
	if p.base < p.Max {
		text += ", and pods ahead of it take the rest"
	}
	return text
}

// unobservedFor reports a pool whose new node would have to be repartitioned for the kind,
// but could not be: its allocation would be unknown, like that of the existing nodes.
func (ms *models) unobservedFor(k *kind, p *poolState) bool {
	return p.unobserved && ms.lacks(k, &p.fresh.capacity) == "slices"
}

// misfit returns what of the pool's template keeps the kind out, empty for
// nothing.
func (w *world) misfit(k *kind, p *poolState) string {
	if !p.fresh.admits(k) {
		return mismatch(k.pod, p.fresh.place(), p.Template.Taints)
	}
	if w.topology.any() && !w.topology.rulesAllowAt(k, w.nextPlace(p)) {
		return excludedByRules
	}
	switch lack := w.models.lacks(k, &p.fresh.capacity); lack {
	case "slices":
		if _, ok := w.models.repartitionNew(k, p); ok {
			return ""
		}
		if why := w.models.withoutProfile(k, p); why != "" {
			return why
		}
		if requested, known := w.models.requestOf(k, p.fresh.model); known && p.MIG.Repartition && (len(requested) > 1 || requested[0].N > 1) {
			return "its GPUs cannot be partitioned into all it requests"
		}
		return "has no such slices"
	case "":
		return ""
	case wholeGPUs, partOfGPU:
		return p.shortOfGPUs(k.pod, lack)
	default:
		if lack != "cpu" && lack != "memory" && lack != podPlaces && !strings.HasPrefix(lack, hostPort) && !slices.ContainsFunc(p.Template.Others, func(o Resource) bool { return o.Name == lack }) {
			return "its nodes offer no " + lack
		}
		return lackText(lack)
	}
}

// withoutProfile returns which of the requested profiles no GPU of a new node can have, and why; empty for none.
func (ms *models) withoutProfile(k *kind, p *poolState) string {
	model, allowed := p.fresh.model, p.MIG.Allowed
	if _, ok := ms.table(model); !ok {
		return ""
	}
	for _, in := range k.pod.Demand.MIG {
		switch profile, ok := ms.profile(model, in.Name); {
		case !ok:
			return model + " has no profile " + in.Name
		case p.MIG.Repartition && len(allowed) > 0 && !slices.Contains(allowed, profile):
			why := in.Name + " is not among its mig.allowedProfiles:"
			for _, other := range allowed {
				why += " " + ProfileText(model, other)
			}
			return why
		}
	}
	return ""
}

// shortOfGPUs returns what the GPUs of a new node lack.
func (p *poolState) shortOfGPUs(pod *Pod, lack string) string {
	gpus := p.Template.GPUs
	switch {
	case len(gpus) == 0:
		return "its template has no GPU"
	case p.fresh.whole == 0 && !slices.ContainsFunc(gpus, func(c GPU) bool { return !c.MIG }):
		return "its GPUs are all in MIG mode"
	case p.fresh.whole > 0 && !sameVendor(pod.Demand.Vendor, p.fresh.vendor):
		return fmt.Sprintf("its GPUs are of %s, not of %s", p.fresh.vendor, pod.Demand.Vendor)
	case lack == wholeGPUs && gpus[0].Shared:
		return "its GPUs are offered in parts only"
	case lack == wholeGPUs:
		return "its nodes have too few GPUs"
	case p.fresh.undivided:
		return "its GPUs are MIG instances, which are not shared"
	case p.fresh.whole > 0 && p.fresh.unmeasured(pod):
		return "the memory of its GPUs is not known"
	}
	return "its GPUs are too small for the part that is requested, or too few"
}

// shareOf divides a new node's price. It tries the pod and those after it in the queue on the
// node, whose free capacity is r. share is the pod's part of the GPUs that these pods use
// together; mates is how many of them are of the pod's gang, itself included.
func (w *world) shareOf(p *pending, ps *poolState, r capacity) (share float64, mates int) {
	k := p.kind
	w.models.take(k, &r)
	used, mates, seen := k.eq, 1, 0
	more := func(q *Pod, qk *kind) bool {
		if ps.fresh.admits(qk) && w.models.lacks(qk, &r) == "" {
			w.models.take(qk, &r)
			used += qk.eq
			if q.Gang != "" && q.Gang == p.pod.Gang {
				mates++
			}
			return true
		}
		return false
	}
	open := func() bool { seen++; return seen <= lookAhead && (r.freeSlices() > 0 || len(r.parts) > 0) }
	for j := p.rank + 1; j < len(w.pending); j++ {
		q := &w.pending[j]
		if !q.undecided() {
			continue
		}
		if !open() {
			break
		}
		more(q.pod, q.kind)
	}
	for range w.serving.expecting { // more replicas of the forecast that is prepared for
		if !open() || !more(p.pod, k) {
			break
		}
	}
	if used <= 0 {
		return 1, mates
	}
	return k.eq / used, mates
}

// commitScaleUp gives a pod an unclaimed upcoming node, or one that newNode adds.
func (w *world) commitScaleUp(p *pending, o option, all []option) {
	if o.node < 0 {
		o.node = w.newNode(p, o, all)
	}
	ps := w.touchPool(o.pool)
	w.serving.lowest = min(w.serving.lowest, int64(ps.Priority))
	if at := slices.Index(ps.spare, o.node); at == 0 {
		ps.spare = ps.spare[1:]
	} else {
		ps.spare = slices.Delete(slices.Clone(ps.spare), at, at+1)
	}
	w.touch(o.node).unclaimed = false
	defer w.reindex(o.node)
	if o.repartitions {
		if c, ok := w.repartitionOn(p, o.node); ok {
			w.commitRepartition(p, c, "")
			return
		}
	}
	w.commitWait(p, option{node: o.node})
}

// newNode adds a node to a pool with an action, or only reserves it where a bound delays it.
func (w *world) newNode(p *pending, o option, all []option) int {
	ps := w.touchPool(o.pool)
	if o.later != "" {
		ps.later++
		n := w.addSpare(o.pool, o.at, -1)
		w.nodes[n].later = o.later
		return n
	}
	reason, detail := NoFreeSlice, ""
	if ps.action < 0 {
		reason, detail = w.whyScaleUp(p, o, all)
	}
	w.scaleUp(o.pool, 1, reason, detail)
	return w.addSpare(o.pool, o.at, ps.action)
}

// whyScaleUp is the reason and the detail of a pool's scale up; p is the first pod that it is done for.
func (w *world) whyScaleUp(p *pending, o option, all []option) (Reason, string) {
	detail := fmt.Sprintf("%s requests %s; a node costs %.2f", p.pod.Key(), p.kind.text, o.cost)
	if priority := o.pool.Priority; priority != 0 {
		detail += fmt.Sprintf(", its priority is %d", priority)
	}
	if o.balances != "" {
		detail += ", balanced with " + o.balances
	}
	if r, ok := optionOf(all, OptionRepartition); ok {
		n := &w.nodes[r.node]
		return RepartitionExhausted, detail + fmt.Sprintf(", repartitioning %s costs %.2f", gpuName(n.name, n.gpus()[r.repartition.device].Index), r.cost)
	}
	if blocked := w.blockersOf(p); len(blocked) > 0 {
		return RepartitionExhausted, detail + ", no GPU can be repartitioned: " + blocked.String()
	}
	return NoFreeSlice, detail
}

// scaleUp adds n nodes to a pool, in the pool's one action of the plan.
func (w *world) scaleUp(p *poolState, n int, reason Reason, detail string) {
	p = w.touchPool(p)
	if p.action < 0 {
		p.action = w.actions.add(Action{Verb: ScaleUp, Pool: p.Name, From: p.base, Reason: reason, Detail: detail})
		w.state.LastScaleUp = with(w.state.LastScaleUp, p.Name, w.now)
	}
	if nodesSince(w.state.Removed[p.Name], w.now, removalWindow) > 0 {
		w.state.LastRegret = with(w.state.LastRegret, p.Name, w.now)
	}
	p.grown += n
	a := w.actions.edit(p.action)
	a.To, a.Cost = p.base+p.grown, a.Cost+float64(n)*w.policy.life(p)
	w.state.Grown = w.grown(w.state.Grown, p.Name, n)
}

func (p *poolState) minText(nodes int) string {
	return fmt.Sprintf("the pool has %s, and its minimum is %d", count(nodes, "node"), p.Min)
}

// raiseToMin scales up the pools that are smaller than their minimum.
func (w *world) raiseToMin() {
	for _, p := range w.pools {
		n := min(p.Min-p.base, p.Max-p.base, w.policy.MaxNodesPerScaleUp, w.policy.MaxNodesPerHour-w.state.GrownLately(p.Name, w.now), maxUpcoming)
		if n <= 0 || p.Fixed || p.stop != "" || w.actions.full() {
			continue
		}
		w.scaleUp(p, n, BelowMin, p.minText(p.base))
		for range n {
			w.addSpare(p, w.now.Add(p.ReadyAfter), p.action)
		}
	}
}
