package plan

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan/pack"
)

// repartition is a GPU's new layout.
type repartition struct {
	*split
	answer pack.Answer
}

// repartitionOption finds the GPU whose repartition serves the pod at the least
// cost: now, or once its slices have been idle and its node's cooldown has
// passed.
func (w *world) repartitionOption(p *pending) (option, bool) {
	k := p.kind
	if len(k.pod.Demand.MIG) == 0 {
		return option{}, false
	}
	best := option{}
	value := func(node int) (entry, bool) {
		if node >= len(w.nodes) {
			return entry{}, false
		}
		o, ok := w.repartitionOn(p, node)
		if !ok {
			return entry{}, false
		}
		best = o
		return entry{o.ready.UnixNano(), gpuSlices*(len(o.then)+int(one(w.nodes[node].sick))) - o.repartition.answer.Kept, node}, true
	}
	if s := &k.repartitions; !s.built || s.epoch != w.topology.epoch(k) {
		w.fill(k, s, func(node int) (entry, bool) { return w.estimated(k, node, value) })
	}
	n := k.repartitions.best(w.topology.open(k), value)
	if n < 0 {
		return option{}, false
	}
	if best.node != n { // the first of another heap was evaluated last
		return w.repartitionOn(p, n)
	}
	return best, true
}

// estimate is a node's entry for a request, as computed for the first kind with that request. It
// can be stale: the pod that takes the GPU evaluates it again.
type estimate struct {
	known, ok bool
	worth     entry
}

// estimated is value's result, computed once for all kinds with the same
// request on the node.
func (w *world) estimated(k *kind, node int, value func(node int) (entry, bool)) (entry, bool) {
	n := &w.nodes[node]
	if _, ok := w.mayRepartition(k, n); !ok || w.nodeBlocks(k, n) != "" || len(w.repartitionable(n)) == 0 {
		return entry{}, false
	}
	id := w.models.request(k, n.model).id
	d := n.derive()
	for len(d.estimates) <= id {
		d.estimates = append(d.estimates, estimate{})
	}
	if !d.estimates[id].known {
		worth, ok := value(node)
		d.estimates[id] = estimate{true, ok, worth}
	}
	return d.estimates[id].worth, d.estimates[id].ok
}

// repartitionOn finds the best GPU of one node, or several of its GPUs where they serve the pod
// at less cost.
func (w *world) repartitionOn(p *pending, node int) (option, bool) {
	best, found := option{}, false
	n := &w.nodes[node]
	requested, ok := w.mayRepartition(p.kind, n)
	if !ok || w.nodeBlocks(p.kind, n) != "" {
		return best, false
	}
	consider := func(o option, why blocker) {
		more := o.repartition.answer.Kept > best.repartition.answer.Kept
		if why == "" && (!found || o.cost < best.cost || o.cost == best.cost && more) {
			best, found = o, true
		}
	}
	for _, c := range w.repartitionable(n) {
		consider(w.repartitionGPU(p, node, c.gpu, requested))
	}
	if shortOf(requested, nil) > 1 {
		consider(w.repartitionInTurn(p, node, requested, w.splits(n)...))
	}
	return best, found
}

// mayRepartition reports whether a node's GPUs may be repartitioned for a kind, and what the kind requests in their
// profiles. It leaves topology rules about zones to the index: their answer changes from pod to pod.
func (w *world) mayRepartition(k *kind, n *nodeState) ([]mig.Count, bool) {
	if n.unclaimed || n.pool == nil || n.model == "" || !n.pool.MIG.Repartition || !n.admits(k) || !w.topology.hostAllows(k, n) {
		return nil, false
	}
	return w.models.requestOf(k, n.model)
}

// blockersOf counts what prevents the repartition of each GPU for a pod.
func (w *world) blockersOf(p *pending) causes {
	var all causes
	k := p.kind
	for i, n := range w.eachNode() {
		requested, ok := w.mayRepartition(k, n)
		if !ok || n.virtual || len(k.pod.Demand.MIG) == 0 || !w.topology.rulesAllow(k, n) {
			continue
		}
		for _, c := range w.repartitionable(n) {
			why := w.nodeBlocks(k, n)
			if why == "" {
				_, why = w.repartitionGPU(p, i, c.gpu, requested)
			}
			if why != "" {
				all.add(cause{string(why), gpuName(n.name, n.gpus()[c.gpu].Index), c.alike})
			}
		}
		for _, one := range n.derived.blocked {
			all.add(one)
		}
	}
	return all
}

// candidate is a GPU that could be repartitioned. It stands for all GPUs of its node that would
// give the same option; alike is their number.
type candidate struct{ gpu, alike int }

// repartitionable lists the GPUs of a node that could be repartitioned, and counts what
// prevents it for the others. The result is kept: most nodes have none, and every kind asks.
func (cond *conditions) repartitionable(n *nodeState) []candidate {
	d := n.derive()
	if d.judged {
		return d.candidates
	}
	d.judged = true
	for c := range n.gpus() {
		device := &n.gpus()[c]
		if !device.MIG || device.ByClaim || device.Model.Name != n.model {
			continue
		}
		if i := slices.IndexFunc(d.candidates, func(o candidate) bool { return cond.alike(n, o.gpu, c) }); i >= 0 {
			d.candidates[i].alike++
		} else if s := cond.splitGPU(n, c, true); s.why != "" {
			d.blocked.add(cause{string(s.why), gpuName(n.name, device.Index), 1})
		} else {
			d.candidates = append(d.candidates, candidate{c, 1})
		}
	}
	return d.candidates
}

// alike reports whether splitGPU has the same answers for another GPU of a node as for
// a candidate.
func (cond *conditions) alike(n *nodeState, a, b int) bool {
	c, d := &n.gpus()[a], &n.gpus()[b]
	return c.Health == d.Health && c.AllocationKnown == d.AllocationKnown && !n.repartitions(b) && !(n.operating() && n.Operation.GPU == d.Index) &&
		cond.repartitionAgainAt(n, c.Index).Equal(cond.repartitionAgainAt(n, d.Index)) &&
		slices.EqualFunc(c.Instances, d.Instances, func(i, j Instance) bool {
			since, known := cond.idleSince(n, a, &i)
			sinceToo, knownToo := cond.idleSince(n, b, &j)
			return i.Placement == j.Placement && i.Placed == j.Placed && (i.AllocatedTo == "") == (j.AllocatedTo == "") && known == knownToo && since.Equal(sinceToo)
		})
}

// gpus are the GPUs that the node has, or will have.
func (n *nodeState) gpus() []GPU {
	if n.expected != nil {
		return n.expected
	}
	return n.GPUs
}

// aMoment is the time to the next reconcile, when a node that is being
// released, or that the scheduler is about to use, can be evaluated again: no
// reason to add another.
const aMoment = time.Second

// repartitionGPU evaluates one GPU. Where busy instances can stay, it first tries to keep
// free instances that are not idle for long enough. If they are in the way, the repartition
// is delayed until they are idle for long enough.
func (w *world) repartitionGPU(p *pending, node, device int, requested []mig.Count) (option, blocker) {
	n := &w.nodes[node]
	if n.tier != tierNode && n.pool.MIG.KeepsBusy {
		if o, why := w.repartitionInTurn(p, node, requested, w.splitGPU(n, device, false)); why != blockLayout {
			return o, why
		}
	}
	return w.repartitionInTurn(p, node, requested, w.splitGPU(n, device, true))
}

// repartitionInTurn evaluates the repartition of GPUs of a node, one after the other, until the pod lacks nothing.
// With one split the GPU must provide all that is lacking, with several each provides as much of it as it can.
func (w *world) repartitionInTurn(p *pending, node int, requested []mig.Count, splits ...*split) (option, blocker) {
	n := &w.nodes[node]
	o, begun, blocked := option{kind: OptionRepartition, node: node}, false, blockLayout
	free, at := n.free, n.changeAt
	if n.tier == tierOut || n.settling && !(w.serving.committing && n.settlingGang != "" && n.settlingGang == p.pod.Gang) { // it is uncordoned first, or pods are about to be bound to it
		at = later(at, w.now.Add(aMoment))
	}
	for _, s := range splits {
		if begun && (s.device == o.repartition.device || slices.ContainsFunc(o.then, func(r repartition) bool { return r.device == s.device })) {
			continue
		}
		r, left, why := w.models.changeOf(n.pool, n.model, s, requested, free, w.furtherDemand()[n.pool.index], len(splits) > 1)
		if why != "" {
			blocked = why
			continue
		}
		if at = later(at, s.at); begun {
			o.then = append(o.then, r)
		} else {
			o.repartition, o.at, begun = r, at, true
		}
		o.unknown = o.unknown || s.unknown
		o.ready = at.Add(n.pool.MIG.Duration)
		if left == nil {
			o.cost = float64(1+len(o.then))*w.policy.DisruptionCost + w.policy.waitCost(p.kind, p.pod.Priority, o.ready.Sub(w.now))
			return o, ""
		}
		free, at = left, later(o.ready, at.Add(w.policy.RepartitionCooldown))
	}
	return option{}, blocked
}

// nodeBlocks returns what about the node as a whole prevents repartitioning a
// GPU.
func (w *world) nodeBlocks(k *kind, n *nodeState) blocker {
	switch {
	case n.pool.Freeze:
		return blockFrozen
	case n.tier == tierOut && !w.reopens(n), n.operating() && w.failed(n.Operation):
		return blockBusyNode
	}
	if lack := w.models.lacks(k, &n.capacity); lack != "" && lack != "slices" {
		return blockCapacity
	}
	return ""
}

// target returns pack's best layout, computed once for each question.
func (ms *models) target(p *poolState, model string, keep, spare mig.Layout, must, further []mig.Count) answer {
	key := question(p.index, model, keep, spare, must, further)
	if a, ok := ms.answers[key]; ok {
		return a
	}
	t, ok := ms.table(model)
	a := answer{}
	if ok {
		rules := &p.MIG
		a.Answer, a.ok = pack.Target(pack.Question{Table: t, Keep: keep, Spare: spare, Must: must, Further: further,
			Allowed: rules.Allowed, Grow: !rules.KeepsBusy})
	}
	ms.answers[key] = a
	return a
}

// question is the key of target's cache. It is cheap, since it is made for
// every GPU.
func question(pool int, model string, keep, spare mig.Layout, must, further []mig.Count) string {
	b := make([]byte, 0, 128)
	b = append(b, byte(pool), byte(pool>>8), byte(pool>>16))
	b = append(b, model...)
	for _, l := range []mig.Layout{keep, spare} {
		b = append(b, '|')
		for _, p := range l {
			b = append(b, byte(p.Profile.Compute), byte(p.Profile.Memory), byte(p.Profile.Attrs), byte(p.Start))
		}
	}
	for _, cs := range [][]mig.Count{must, further} {
		b = append(b, '|')
		for _, c := range cs {
			n := min(c.N, 255)
			b = append(b, byte(c.Profile.Compute), byte(c.Profile.Memory), byte(c.Profile.Attrs), byte(n))
		}
	}
	return string(b)
}

// commitRepartition takes the option: an action when it is possible now, a
// promise when later. Of several GPUs, the others follow the first.
func (w *world) commitRepartition(p *pending, o option, alternative string) {
	n := w.touch(o.node)
	if n.tier == tierOut {
		w.reopen(n, p, " requests "+p.kind.text+", for which a GPU of it can be repartitioned")
		w.actions.doneFor(n.action, p)
	}
	detail := fmt.Sprintf("%s requests %s; the repartition costs %.2f%s", p.pod.Key(), p.kind.text, o.cost, alternative)
	w.changeLayout(n, o, detail)
	if n.action >= 0 && n.tier != tierNode && len(o.then) > 0 {
		w.actions.doneFor(n.action, p)
	}
	for _, o.repartition = range o.then {
		o.at, o.later = later(later(n.changeAt, o.repartition.at), w.now.Add(aMoment)), ""
		w.changeLayout(n, o, detail)
	}
	w.commitWait(p, option{node: o.node})
	w.reindex(o.node)
	device := gpuName(n.name, n.gpus()[o.repartition.device].Index)
	switch n.since {
	case AllocationUnknown:
		p.detail = device + " can be repartitioned once it is known to be free"
	case CoolingDown:
		p.detail = fmt.Sprintf("%s can be repartitioned in %s; this costs %.2f%s", device, short(o.at.Sub(w.now)), o.cost, alternative)
	}
}

// changeLayout gives a GPU of the node the option's layout.
func (w *world) changeLayout(n *nodeState, o option, detail string) {
	device := &n.gpus()[o.repartition.device]
	n.derived = nil
	n.repartition = append(slices.Clip(n.repartition), o.repartition.device)
	switch {
	case n.tier == tierNode: // when it has come
	case o.later != "":
		n.tier, n.action, n.since, n.later = tierChange, -1, BoundReached, o.later
		o.at = w.now.Add(aMoment)
	case !o.at.After(w.now):
		n.action = w.actions.add(w.repartitionAction(n, device, o, detail))
		w.state.LastRepartition = with(w.state.LastRepartition, n.name, w.now)
		n.tier, n.since = tierChange, WaitRepartition
	default:
		n.tier, n.action, n.since = tierChange, -1, CoolingDown
		if o.unknown {
			n.since = AllocationUnknown
		}
	}
	n.relayout(o.repartition.before, o.repartition.answer.Layout)
	n.at = later(n.at, o.at.Add(n.pool.MIG.Duration))
	n.changeAt = later(o.at.Add(w.policy.RepartitionCooldown), n.at)
}

func (cond *conditions) repartitionAction(n *nodeState, device *GPU, o option, detail string) Action {
	// The target was searched among layouts that contain what stays.
	steps, _ := mig.Diff(o.repartition.before, o.repartition.answer.Layout, func(p mig.Placement) bool { return slices.Contains(o.repartition.keep, p) })
	return Action{Verb: Repartition, Pool: n.Pool, Node: n.name, GPU: device.Index, Model: device.Model.Name,
		Before: o.repartition.before, Target: o.repartition.answer.Layout, Steps: steps,
		Operation: fmt.Sprintf("%s-%d-%d", n.name, device.Index, cond.now.Unix()),
		Deadline:  cond.now.Add(cond.policy.RepartitionTimeout), Reason: NoFreeSlice, Detail: detail, Cost: o.cost}
}

func gpuName(node string, index int) string { return node + "/" + strconv.Itoa(index) }
