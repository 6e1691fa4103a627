package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// consider records every option of a pod that is watched. It decides nothing
// and leaves the kind's indices unchanged.
func (w *world) consider(i int) {
	t := w.watch
	if t == nil || !t.of(w.pending[i].pod) {
		return
	}
	p := &w.pending[i]
	k := &w.kinds[p.kind]
	usable, upcoming, repartitions, unserved, further := k.usable, k.upcoming, k.repartitions, k.failedTrial, w.further
	k.usable, k.upcoming, k.repartitions, k.failedTrial, w.further = index{}, index{}, index{}, -1, nil
	defer func() {
		k.usable, k.upcoming, k.repartitions, k.failedTrial, w.further = usable, upcoming, repartitions, unserved, further
	}()
	t.last = i
	t.options = append([]Option{w.optionFree(k), w.optionWait(k, p), w.optionRepartition(k, p), w.optionReclaim(k, p)}, w.optionNodes(i, k, p)...)
}

func (w *world) optionFree(k *kind) Option {
	o := Option{Kind: OptionFree, At: w.now}
	if n := w.tightest(k); n >= 0 {
		o.On, o.Possible, o.Reason, o.Detail = w.nodes[n].name, true, WaitScheduler, "the scheduler can place it now"
		return o
	}
	o.Reason, o.Detail = NoFreeSlice, w.whyNotNow(k)
	return o
}

func (w *world) optionWait(k *kind, p *pending) Option {
	o := Option{Kind: OptionWait, Reason: WaitUpcomingNode}
	wait, ok := w.waitOption(k, p.pod)
	if !ok {
		o.Detail = "no upcoming node fits"
		return o
	}
	n := &w.nodes[wait.node]
	o.On, o.Possible, o.Cost, o.At = n.name, true, wait.cost, wait.at
	o.Reason, o.Detail = n.promise(w.now)
	return o
}

func (w *world) optionRepartition(k *kind, p *pending) Option {
	o := Option{Kind: OptionRepartition, Reason: RepartitionExhausted}
	if len(p.pod.Demand.MIG) == 0 {
		o.Detail = "it requests no MIG slices"
		return o
	}
	repartition, ok := w.repartitionOption(k, p.pod)
	if !ok {
		o.Detail = "no pool's GPUs may be repartitioned for it"
		if b := w.blockersOf(k); b.total() > 0 {
			o.Detail = "no GPU can be repartitioned: " + b.String()
		}
		return o
	}
	n := &w.nodes[repartition.node]
	device := &n.gpus()[repartition.repartition.device]
	o.On, o.Possible, o.Cost, o.Reason = gpuName(n.name, device.Index), true, repartition.cost, WaitRepartition
	o.At = repartition.at.Add(w.pools[n.pool].MIG.Duration)
	o.Detail = fmt.Sprintf("%s becomes %s", LayoutText(device.Model.Name, repartition.repartition.before), LayoutText(device.Model.Name, repartition.repartition.answer.Layout))
	switch {
	case repartition.unknown:
		o.Reason, o.Detail = AllocationUnknown, o.Detail+", once it is known to be free"
	case repartition.at.After(w.now):
		o.Reason, o.Detail = CoolingDown, o.Detail+", in "+short(repartition.at.Sub(w.now))+" at the earliest"
	}
	return o
}

func (w *world) optionReclaim(k *kind, p *pending) Option {
	o := Option{Kind: OptionReclaim, Reason: ReclaimBorrowed}
	back, ok := w.reclaimOption(p, k)
	if ok {
		names := make([]string, len(back.victims))
		for i, v := range back.victims {
			names[i] = v.Key()
		}
		o.On, o.Possible, o.Cost, o.At = w.nodes[back.node].name, true, back.cost, back.at
		o.Detail = strings.Join(names, ", ") + " would have to leave"
		return o
	}
	switch {
	case w.tenantIndex(p.pod) < 0:
		o.Detail = "it is under no quota"
	case w.policy.MaxEvictionsPerReconcile <= 0:
		o.Detail = "reclaiming is off (policy.maxEvictionsPerReconcile is 0)"
	case w.policy.MaxEvictionsPerReconcile <= w.evicted:
		o.Reason, o.Detail = BoundReached, fmt.Sprintf("%d evictions a reconcile", w.policy.MaxEvictionsPerReconcile)
	case !p.charged || p.borrowed:
		o.Detail = "it requests more than " + p.pod.Tenant + " is guaranteed"
	case !w.policy.ReclaimBorrowed:
		o.Detail = "what is borrowed is not reclaimed (policy.reclaimBorrowed is not set)"
	case !w.reclaimable():
		o.Detail = "no pod that may be evicted has borrowed anything"
	default:
		o.Detail = "reclaiming what is borrowed would not free enough for it, or is not allowed"
	}
	return o
}

// optionNodes is one option for each pool, in the order of compare.
func (w *world) optionNodes(i int, k *kind, p *pending) []Option {
	out := make([]Option, 0, len(w.pools))
	for j := range w.pools {
		ps := &w.pools[j]
		o := Option{Kind: OptionNode, On: ps.Name}
		reason, why := w.cannotScaleUp(k, ps)
		why = strings.TrimPrefix(why, ps.Name+": ")
		priced := w.priced(i, k, p.pod, j)
		spare := len(ps.spare) > 0 && reason != NoPoolFits && !w.unobservedFor(k, ps)
		switch {
		case reason != "" && !spare:
			o.Reason, o.Detail = reason, cmp.Or(why, "nothing is done for now")
		case !w.mayScaleUp(p):
			o.Reason, o.Detail = BorrowedWaits, "no node is added for what is borrowed"
		default:
			o.Possible, o.Cost, o.At, o.Reason = true, priced.cost, priced.at, NoFreeSlice
			o.Detail = w.pricedText(p.pod, ps, priced, spare)
		}
		out = append(out, o)
	}
	slices.SortStableFunc(out, func(a, b Option) int { return a.compare(b) })
	return out[:min(len(out), MaxOptions)]
}

// compare orders possible options first, by cost, then by how close the others
// are.
func (o Option) compare(p Option) int {
	if o.Possible != p.Possible {
		if o.Possible {
			return -1
		}
		return 1
	}
	if o.Possible && o.Cost != p.Cost {
		if o.Cost < p.Cost {
			return -1
		}
		return 1
	}
	return slices.Index(reasonRank, o.Reason) - slices.Index(reasonRank, p.Reason)
}

// pricedText itemizes a new node's cost.
func (w *world) pricedText(p *Pod, ps *poolState, o option, spare bool) string {
	if spare {
		return "a node that was requested and that no pod uses yet, ready in " + short(o.at.Sub(w.now))
	}
	text := fmt.Sprintf("a new node, %.2f an hour, ready in %s", ps.price(), short(o.at.Sub(w.now)))
	if o.repartitions {
		text += ", then repartitioned"
	}
	if risk := w.interruption(ps, p); risk > 0 {
		text += fmt.Sprintf(", %.2f for the risk of losing it", risk)
	}
	return text
}

// maxCauses bounds the causes that are listed for nodes that do not fit.
const maxCauses = 6

// whyNotNow counts the nodes that the kind does not fit on now by cause: "3
// have too few GPUs (n1 …), 1 not ready (n4)".
func (w *world) whyNotNow(k *kind) string {
	type ground struct {
		why, example string
		n            int
	}
	var all []ground
	for i := range w.nodes {
		n := &w.nodes[i]
		why := w.keepsOut(k, n)
		if n.virtual || why == "" {
			continue
		}
		at := slices.IndexFunc(all, func(g ground) bool { return g.why == why })
		if at < 0 {
			at, all = len(all), append(all, ground{why: why, example: n.name})
		}
		all[at].n++
	}
	if len(all) == 0 {
		return "there is no node"
	}
	slices.SortStableFunc(all, func(a, b ground) int { return b.n - a.n })
	parts := make([]string, 0, maxCauses)
	for _, g := range all[:min(len(all), maxCauses)] {
		more := ""
		if g.n > 1 {
			more = " …"
		}
		parts = append(parts, fmt.Sprintf("%d %s (%s%s)", g.n, g.why, g.example, more))
	}
	if len(all) > maxCauses {
		parts = append(parts, "others")
	}
	return strings.Join(parts, ", ")
}

// keepsOut returns what keeps the kind out of a node now, empty for nothing.
func (w *world) keepsOut(k *kind, n *nodeState) string {
	switch {
	case n.tier == tierOut, n.tier != tierNow && n.since != "":
		return "out of service: " + string(n.since)
	case !w.admits(k, n):
		if t, out := untolerated(k.pod, n.Taints); out {
			return "with taint " + t.Key
		}
		return "whose labels do not match"
	case !w.rulesAllow(k, n):
		return "excluded by pod affinity or topology spread"
	}
	switch lack := w.lacks(k, &n.capacity); lack {
	case "":
		return ""
	case partOfGPU:
		if n.unmeasured(k.pod) {
			return "with GPUs whose memory is not known"
		}
		return "with too little free of a GPU"
	default:
		return "with too few free " + lack
	}
}
