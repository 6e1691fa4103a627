package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Explanation is what Make considered for one pending pod.
type Explanation struct {
	Pod     Pod
	Verdict Verdict
	// Rank is the pod's position among the Pending pods, 1 for the most urgent.
	Rank, Pending int
	// Requests is the demand as text: "2 GPUs".
	Requests string
	// Weight is the demand in GPU equivalents, by which pending time is priced.
	Weight float64
	// Borrowed: its quota admits it only beyond what its tenant is guaranteed.
	Borrowed bool
	// Options are all ways to serve it, free capacity first. New nodes are last: one
	// option for each pool, at most MaxOptions.
	Options []Option
	// Plan is the whole plan, equal to Make's.
	Plan Plan
}

// OptionKind is a way to serve a pod. The set is closed.
type OptionKind string

// Kinds of options, in the order in which they are weighed.
const (
	OptionFree        OptionKind = "free"        // the scheduler can place it now
	OptionWait        OptionKind = "wait"        // for an upcoming node
	OptionRepartition OptionKind = "repartition" // of a GPU
	OptionReclaim     OptionKind = "reclaim"     // of borrowed quota
	OptionNode        OptionKind = "node"        // of a pool
)

// MaxOptions bounds the pools an Explanation lists.
const MaxOptions = 50

// Option is one way to serve a pod, as it was when the pod was considered.
type Option struct {
	Kind OptionKind
	// On is the node, GPU or pool; empty where it is about all of them.
	On string
	// Possible options have a Cost, in the policy's currency, and a time At which
	// they would serve the pod.
	Possible bool
	Cost     float64
	At       time.Time
	// Chosen is the one that was taken, if any was.
	Chosen bool
	// Reason and Detail are what prevents it; of a possible one, its result.
	Reason Reason
	Detail string
}

// watch records the options of some pods.
type watch struct {
	of func(p *Pod) bool
	// last is the pod considered last: an index into pending, -1 for none.
	last    int
	options []Option
}

// choice is an option, and the node or pool that it is on.
type choice struct {
	kind OptionKind
	on   string
}

// Explain decides as Make does and returns the options of a pending pod,
// "namespace/name"; false when no such pod is pending.
func Explain(s Snapshot, p Policy, pod string) (Explanation, bool) {
	return explain(s, p, func(q *Pod) bool { return q.Key() == pod })
}

// ExplainGang does the same for the member of a gang, "namespace/name", that was
// considered last: the one that could not be served, or the last one that was. It
// is false when no member is pending.
func ExplainGang(s Snapshot, p Policy, gang string) (Explanation, bool) {
	return explain(s, p, func(q *Pod) bool { return q.Gang == gang })
}

func explain(s Snapshot, p Policy, of func(p *Pod) bool) (Explanation, bool) {
	w := newWorld(s, p)
	first := slices.IndexFunc(w.pending, func(q pending) bool { return of(q.pod) })
	if first < 0 {
		return Explanation{}, false
	}
	w.watch = &watch{of: of, last: -1}
	w.decide()
	if w.watch.last < 0 { // it was never considered: refused, or served by free capacity
		w.consider(&w.pending[first])
	}
	q := &w.pending[w.watch.last]
	k := q.kind
	request := k.text
	if q.pod.Unreadable != "" {
		request = "an unknown amount"
	}
	return Explanation{
		Pod: *q.pod, Verdict: w.pendingVerdict(q), Rank: w.watch.last + 1, Pending: len(w.pending),
		Requests: request, Weight: k.eq, Borrowed: q.borrowed, Options: w.watch.outcome(q), Plan: w.plan(),
	}, true
}

// outcome marks the option that was taken. Where it was not recorded, since the world has changed, it takes the place of
// its kind.
func (t *watch) outcome(p *pending) []Option {
	c := p.chosen
	if c == (choice{}) {
		return t.options
	}
	at := slices.IndexFunc(t.options, func(o Option) bool { return o.Kind == c.kind && (o.On == c.on || strings.HasPrefix(o.On, c.on+"/")) })
	if at < 0 {
		if at = slices.IndexFunc(t.options, func(o Option) bool { return o.Kind == c.kind }); at < 0 {
			at, t.options = len(t.options), append(t.options, Option{})
		}
		t.options[at] = Option{Kind: c.kind, On: c.on, Possible: true, Reason: p.reason, Detail: p.detail}
	}
	t.options[at].Chosen = true
	return t.options
}

// consider records every option of a pod that is watched. It decides nothing.
func (w *world) consider(p *pending) {
	t := w.watch
	if t == nil || !t.of(p.pod) {
		return
	}
	t.last = p.rank
	t.options = append([]Option{w.optionFree(p.kind), w.optionWait(p), w.optionRepartition(p), w.optionReclaim(p)}, w.optionNodes(p)...)
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

func (w *world) optionWait(p *pending) Option {
	o := Option{Kind: OptionWait, Reason: WaitUpcomingNode}
	wait, ok := w.waitOption(p)
	if !ok {
		o.Detail = "no upcoming node fits"
		return o
	}
	n := &w.nodes[wait.node]
	o.On, o.Possible, o.Cost, o.At = n.name, true, wait.cost, wait.at
	o.Reason, o.Detail = n.promise(w.now)
	return o
}

func (w *world) optionRepartition(p *pending) Option {
	o := Option{Kind: OptionRepartition, Reason: RepartitionExhausted}
	if len(p.pod.Demand.MIG) == 0 {
		o.Detail = "it requests no MIG slices"
		return o
	}
	repartition, ok := w.repartitionOption(p)
	if !ok {
		o.Detail = "no pool's GPUs may be repartitioned for it"
		if b := w.blockersOf(p); len(b) > 0 {
			o.Detail = "no GPU can be repartitioned: " + b.String()
		}
		return o
	}
	n := &w.nodes[repartition.node]
	device := &n.gpus()[repartition.repartition.device]
	o.On, o.Possible, o.Cost, o.Reason = gpuName(n.name, device.Index), true, repartition.cost, WaitRepartition
	o.At = repartition.ready
	o.Detail = fmt.Sprintf("%s becomes %s", LayoutText(device.Model.Name, repartition.repartition.before), LayoutText(device.Model.Name, repartition.repartition.answer.Layout))
	if more := len(repartition.then); more > 0 {
		o.Detail += fmt.Sprintf(", and after it %s of the node", count(more, "more GPU"))
	}
	switch {
	case repartition.unknown:
		o.Reason, o.Detail = AllocationUnknown, o.Detail+", once it is known to be free"
	case repartition.at.After(w.now):
		o.Reason, o.Detail = CoolingDown, o.Detail+", in "+short(repartition.at.Sub(w.now))+" at the earliest"
	}
	return o
}

func (w *world) optionReclaim(p *pending) Option {
	o := Option{Kind: OptionReclaim, Reason: ReclaimBorrowed}
	back, ok := w.reclaimOption(p)
	if ok {
		o.On, o.Possible, o.Cost, o.At = w.nodes[back.node].name, true, back.cost+w.lostAnyway(back), back.at
		o.Detail = back.victimsText() + " would have to leave"
		return o
	}
	switch {
	case w.quotas.tenantIndex(p.pod) < 0:
		o.Detail = "it is under no quota"
	case w.policy.MaxEvictionsPerReconcile <= 0:
		o.Detail = "reclaiming is off (policy.maxEvictionsPerReconcile is 0)"
	case w.policy.MaxEvictionsPerReconcile <= w.actions.evicted:
		o.Reason, o.Detail = BoundReached, "at most "+count(w.policy.MaxEvictionsPerReconcile, "eviction")+" a reconcile"
	case !p.charged || p.borrowed:
		o.Detail = "it requests more than " + p.pod.Tenant + " is guaranteed"
	case !w.policy.ReclaimBorrowed:
		o.Detail = "policy.reclaimBorrowed is not set, so borrowed capacity is not reclaimed"
	case !w.evictions.reclaimable():
		o.Detail = "no pod that may be evicted has borrowed anything"
	default:
		o.Detail = cannotReclaim
	}
	return o
}

// optionNodes is one option for each pool, in the order of compare.
func (w *world) optionNodes(p *pending) []Option {
	out := make([]Option, 0, len(w.pools))
	for _, ps := range w.pools {
		o := Option{Kind: OptionNode, On: ps.Name}
		reason, why := w.cannotScaleUp(p, ps)
		why = strings.TrimPrefix(why, ps.Name+": ")
		priced := w.priced(p, ps, -1)
		if w.models.hasSpare(p.kind, ps, reason) {
			if spare := w.priced(p, ps, ps.spare[0]); reason != "" || priced.cost >= spare.cost-spare.price {
				priced = spare
			}
		}
		switch {
		case reason != "" && priced.node < 0:
			o.Reason, o.Detail = reason, cmp.Or(why, "nothing is done for now")
		case !w.policy.mayScaleUp(p):
			o.Reason, o.Detail = BorrowedWaits, "no node is added for borrowed demand"
		default:
			o.Possible, o.Cost, o.At, o.Reason = true, priced.cost, priced.at, NoFreeSlice
			o.Detail = w.pricedText(priced)
		}
		out = append(out, o)
	}
	slices.SortStableFunc(out, func(a, b Option) int { return a.compare(b) })
	return out[:min(len(out), MaxOptions)]
}

// compare orders possible options first, by cost, then by how close the others
// are.
func (o Option) compare(p Option) int {
	return cmp.Or(cmp.Compare(one(p.Possible), one(o.Possible)), cmp.Compare(o.Cost, p.Cost), slices.Index(reasonRank, o.Reason)-slices.Index(reasonRank, p.Reason))
}

// pricedText itemizes a new node's cost.
func (w *world) pricedText(o option) string {
	if o.node >= 0 {
		return "a node that was requested and that no pod uses yet, " + w.nodes[o.node].dueText("ready in ", w.now)
	}
	text := fmt.Sprintf("a new node, %.2f an hour, ready in %s", o.pool.price, short(o.at.Sub(w.now)))
	if o.repartitions {
		text += ", then repartitioned"
	}
	if o.pool.Priority != 0 {
		text += fmt.Sprintf(", priority %d", o.pool.Priority)
	}
	if o.risk > 0 {
		text += fmt.Sprintf(", %.2f for the risk of losing it", o.risk)
	}
	return text
}

// whyNotNow counts the nodes that the kind does not fit on now by cause: "3
// have too few GPUs (n1 …), 1 not ready (n4)".
func (w *world) whyNotNow(k *kind) string {
	var all causes
	for _, n := range w.eachNode() {
		if why := w.keepsOut(k, n); !n.virtual && why != "" {
			all.add(cause{why, n.name, 1})
		}
	}
	return cmp.Or(all.String(), "there is no node")
}

// keepsOut returns what keeps the kind out of a node now, empty for nothing.
func (w *world) keepsOut(k *kind, n *nodeState) string {
	switch {
	case n.tier == tierOut, n.tier != tierNow && n.since != "":
		return "out of service: " + string(n.since)
	case !n.admits(k):
		why := mismatch(k.pod, n.place(), n.Taints)
		if t, out := untolerated(k.pod, n.Taints); out {
			return "with taint " + t.Key
		}
		if strings.HasPrefix(why, volumeConflict) {
			return "with a " + why
		}
		return "whose " + why
	case !w.topology.rulesAllow(k, n):
		return "excluded by pod affinity or topology spread"
	}
	switch lack := w.models.lacks(k, &n.capacity); lack {
	case "":
		return ""
	case partOfGPU:
		if n.unmeasured(k.pod) {
			return "with GPUs whose memory is not known"
		}
		return "without a large enough free part of a GPU"
	default:
		if strings.HasPrefix(lack, hostPort) {
			return "where " + lackText(lack)
		}
		return "without enough free " + lack
	}
}
