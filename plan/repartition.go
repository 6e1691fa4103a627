package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan/pack"
)

// cut is a GPU's new layout.
type repartition struct {
	device int // position on the node
	before mig.Layout
	keep   mig.Layout
	answer pack.Answer
}

// repartitionOption finds the GPU whose cutting serves the pod for the least: now, or
// when its slices have been idle and its node rested for long enough.
func (w *world) repartitionOption(k *kind, p *Pod) (option, bool) {
	if len(p.Demand.MIG) == 0 {
		return option{}, false
	}
	wants := w.furtherWants()
	best := option{}
	look := func(node int) (entry, bool) {
		if node >= len(w.nodes) {
			return entry{}, false
		}
		o, ok := w.repartitionOn(k, p, node, wants)
		if !ok {
			return entry{}, false
		}
		best = o
		ready := o.at.Add(w.repartitioning(&w.nodes[node]))
		return entry{ready.UnixNano(), -o.repartition.answer.Kept, node}, true
	}
	if !k.repartitions.built || k.tied() {
		w.fill(&k.repartitions, func(node int) (entry, bool) { return w.roughly(k, node, look) })
	}
	return best, k.repartitions.best(look) >= 0
}

// roughRepartition is what cutting the best GPU of a node was worth to somebody who
// needs the same. Others may have been served since, and their further wants with
// them: whoever takes the GPU looks again.
type roughRepartition struct {
	known, ok bool
	worth     entry
}

// roughly is what look says, once for all kinds that need the same of a node.
func (w *world) roughly(k *kind, node int, look func(node int) (entry, bool)) (entry, bool) {
	n := &w.nodes[node]
	if _, ok := w.mayRepartition(k, n); !ok || w.nodeBlocks(k, n) != blockNone || len(w.repartitionable(n)) == 0 {
		return entry{}, false
	}
	id := k.needNumber(n.model)
	for len(n.rough) <= id {
		n.rough = append(n.rough, roughRepartition{})
	}
	r := &n.rough[id]
	if !r.known {
		worth, ok := look(node)
		*r = roughRepartition{true, ok, worth}
	}
	return r.worth, r.ok
}

// needNumber is the number of what the kind needs of a model it has been asked
// about.
func (k *kind) needNumber(model string) int {
	for i := range k.needs {
		if k.needs[i].model == model {
			return k.needs[i].id
		}
	}
	return 0
}

// repartitionOn finds the best GPU of one node.
func (w *world) repartitionOn(k *kind, p *Pod, node int, wants [][]mig.Count) (option, bool) {
	best, found := option{}, false
	n := &w.nodes[node]
	need, ok := w.mayRepartition(k, n)
	if !ok {
		return best, false
	}
	for _, c := range w.repartitionable(n) {
		o, why := w.repartitionGPU(k, p, node, c, need, wants[n.pool])
		if why == blockNone && (!found || o.cheaper(best)) {
			best, found = o, true
		}
	}
	return best, found
}

// mayRepartition reports whether a node's GPUs come into question for a kind at all,
// and what it needs of them.
func (w *world) mayRepartition(k *kind, n *nodeState) ([]mig.Count, bool) {
	if n.unopened || n.pool < 0 || n.model == "" || !w.pools[n.pool].MIG.Repartition || !w.admits(k, n) || !w.rulesAllow(k, n) {
		return nil, false
	}
	return w.needOf(k, n.model)
}

// blockersOf counts what stands against cutting each GPU for the kind.
func (w *world) blockersOf(k *kind) blockers {
	var all blockers
	wants := w.furtherWants()
	for i := range w.nodes {
		n := &w.nodes[i]
		need, ok := w.mayRepartition(k, n)
		if !ok || len(k.pod.Demand.MIG) == 0 {
			continue
		}
		open := w.repartitionable(n)
		all.join(n.stuck)
		for _, c := range open {
			if _, why := w.repartitionGPU(k, k.pod, i, c, need, wants[n.pool]); why > blockNone {
				all.add(why, n.name, n.gpus()[c].Index)
			}
		}
	}
	return all
}

// repartitionable lists the GPUs of a node that could be repartitioned for somebody, and counts
// what stands against all others in n.stuck: most nodes have none, and are asked
// by every kind.
func (w *world) repartitionable(n *nodeState) []int {
	if n.judged {
		return n.open
	}
	n.judged, n.open, n.stuck = true, nil, blockers{}
	for c := range n.gpus() {
		device := &n.gpus()[c]
		if !device.MIG || device.Model.Name != n.model {
			continue
		}
		if s := w.splitGPU(n, c, true); s.why == blockNone {
			n.open = append(n.open, c)
		} else {
			n.stuck.add(s.why, n.name, device.Index)
		}
	}
	return n.open
}

// cheaper prefers, among equals, the GPU of which more stays.
func (o option) cheaper(than option) bool {
	return o.cost < than.cost || o.cost == than.cost && o.repartition.answer.Kept > than.repartition.answer.Kept
}

// GPUs are those the node has, or will have.
func (n *nodeState) gpus() []GPU {
	if n.expected != nil {
		return n.expected
	}
	return n.GPUs
}

// aMoment is when the next reconcile can look again at a node that is being released
// or that the scheduler is about to fill: no reason to buy another.
const aMoment = time.Second

// notRepartitioned stands for a GPU that never comes into question: no MIG, another model.
const notRepartitioned blocker = -1

// repartitionGPU looks at one GPU. Where busy instances can stay, those that are not
// idle for long enough may stay as well; if they stand in the way, the cut waits
// for them.
func (w *world) repartitionGPU(k *kind, p *Pod, node, device int, need, want []mig.Count) (option, blocker) {
	n := &w.nodes[node]
	if n.tier != tierNode && w.pools[n.pool].MIG.KeepsBusy {
		if o, why := w.repartitionWith(k, p, node, device, need, want, false); why != blockLayout {
			return o, why
		}
	}
	return w.repartitionWith(k, p, node, device, need, want, true)
}

// repartitionWith looks at one GPU; patient says to wait for what is not idle for long
// enough rather than to leave it in place.
func (w *world) repartitionWith(k *kind, p *Pod, node, device int, need, want []mig.Count, patient bool) (option, blocker) {
	n := &w.nodes[node]
	c := &n.gpus()[device]
	pool := &w.pools[n.pool]
	if !c.MIG || c.Model.Name != n.model {
		return option{}, notRepartitioned
	}
	if why := w.nodeBlocks(k, n); why != blockNone {
		return option{}, why
	}
	o := option{node: node, repartition: repartition{device: device}, at: n.changeAt}
	if n.settling {
		o.at = later(o.at, w.now.Add(aMoment))
	}
	s := w.splitGPU(n, device, patient)
	if s.why != blockNone {
		return option{}, s.why
	}
	o.repartition.before, o.repartition.keep, o.unknown = s.before, s.keep, s.unknown
	o.at = later(o.at, s.at)
	must, ok := lacking(need, n.free, s.gone)
	if !ok {
		return option{}, blockPromised
	}
	if len(must) == 0 {
		return option{}, blockCapacity
	}
	a := w.target(n.pool, c.Model.Name, s.keep, s.spare, must, want)
	if !a.ok {
		return option{}, blockLayout
	}
	o.repartition.answer = a.Answer
	o.cost = w.policy.DisruptionCost + w.waitCost(k, p.Priority, o.at.Sub(w.now)+pool.MIG.Duration)
	return o, blockNone
}

// nodeBlocks says what about the node as a whole stands against repartitioning a GPU.
func (w *world) nodeBlocks(k *kind, n *nodeState) blocker {
	switch {
	case w.pools[n.pool].Freeze:
		return blockFrozen
	case n.tier == tierOut, n.operating() && w.failed(n.Operation):
		return blockBusyNode
	}
	if lack := w.lacks(k, &n.capacity); lack != "" && lack != "slices" {
		return blockCapacity
	}
	return blockNone
}

// furtherWants adds up, for each pool, what further pending pods could use
// there. More of one kind than a GPU has slices makes no difference.
func (w *world) furtherWants() [][]mig.Count {
	if w.wants != nil {
		return w.wants
	}
	out := make([][]mig.Count, len(w.pools))
	for i := range w.pools {
		p := &w.pools[i]
		if !p.MIG.Repartition {
			continue
		}
		for j := range w.kinds {
			other := &w.kinds[j]
			if other.unserved <= 0 || len(other.pod.Demand.MIG) == 0 || !other.admitsNew(p) {
				continue
			}
			need, _ := w.needOf(other, p.empty.model)
			for _, c := range need {
				out[i] = added(out[i], c.Profile, c.N*min(other.unserved, gpuSlices))
			}
		}
	}
	w.wants = out
	return out
}

// target asks pack for the best layout, once for each different question.
func (w *world) target(pool int, model string, keep, spare mig.Layout, must, want []mig.Count) answer {
	key := question(pool, model, keep, spare, must, want)
	if a, ok := w.answers[key]; ok {
		return a
	}
	t, ok := w.table(model)
	a := answer{}
	if ok {
		rules := &w.pools[pool].MIG
		a.Answer, a.ok = pack.Target(pack.Question{Table: t, Keep: keep, Spare: spare, Must: must, Want: want,
			Allowed: rules.Allowed, Grow: !rules.KeepsBusy})
	}
	w.answers[key] = a
	return a
}

// question is a key for the answers: cheap, since every GPU asks.
func question(pool int, model string, keep, spare mig.Layout, must, want []mig.Count) string {
	b := make([]byte, 0, 128)
	b = append(b, byte(pool), byte(pool>>8), byte(pool>>16))
	b = append(b, model...)
	for _, l := range []mig.Layout{keep, spare} {
		b = append(b, '|')
		for _, p := range l {
			b = append(b, byte(p.Profile.Compute), byte(p.Profile.Memory), byte(p.Profile.Attrs), byte(p.Start))
		}
	}
	for _, cs := range [][]mig.Count{must, want} {
		b = append(b, '|')
		for _, c := range cs {
			n := min(c.N, 255)
			b = append(b, byte(c.Profile.Compute), byte(c.Profile.Memory), byte(c.Profile.Attrs), byte(n))
		}
	}
	return string(b)
}

// commitRepartition takes the option: an action when it can be done now, a promise when
// later.
func (w *world) commitRepartition(p *pending, k *kind, o option, rival string) {
	n := w.touch(o.node)
	pool := &w.pools[n.pool]
	device := &n.gpus()[o.repartition.device]
	n.repartition[o.repartition.device], n.splits, n.judged, n.rough = true, nil, false, nil
	detail := fmt.Sprintf("%s requests %s; %.2f%s", p.pod.Key(), k.wants, o.cost, rival)
	switch {
	case n.tier == tierNode: // when it has come
	case !o.at.After(w.now):
		n.action = len(w.actions)
		w.actions = append(w.actions, w.repartitionAction(n, device, o, detail))
		w.state.LastRepartition = stamped(w.state.LastRepartition, n.name, w.now)
		n.tier, n.since = tierChange, WaitRepartition
	default:
		n.tier, n.action, n.since = tierChange, -1, CoolingDown
		if o.unknown {
			n.since = AllocationUnknown
		}
	}
	for _, s := range o.repartition.before {
		if !slices.Contains(o.repartition.keep, s) {
			n.free = added(n.free, s.Profile, -1)
		}
	}
	for _, s := range o.repartition.answer.Layout {
		if !slices.Contains(o.repartition.keep, s) {
			n.free = added(n.free, s.Profile, 1)
		}
	}
	n.at = later(n.at, o.at.Add(pool.MIG.Duration))
	n.changeAt = later(o.at.Add(w.policy.RepartitionCooldown), n.at)
	w.commitWait(p, k, option{node: o.node})
	w.reindex(o.node)
	switch n.since {
	case AllocationUnknown:
		p.detail = fmt.Sprintf("%s/%d can be repartitioned once it is known to be free", n.name, device.Index)
	case CoolingDown:
		p.detail = fmt.Sprintf("%s/%d can be repartitioned in %s; %.2f%s", n.name, device.Index, short(o.at.Sub(w.now)), o.cost, rival)
	}
}

func (w *world) repartitionAction(n *nodeState, device *GPU, o option, detail string) Action {
	steps, err := mig.Diff(o.repartition.before, o.repartition.answer.Layout, func(p mig.Placement) bool { return slices.Contains(o.repartition.keep, p) })
	if err != nil { // the target was searched among layouts that contain what stays
		steps = nil
	}
	return Action{Verb: Repartition, Pool: n.Pool, Node: n.name, GPU: device.Index, Model: device.Model.Name,
		Before: o.repartition.before, Target: o.repartition.answer.Layout, Steps: steps,
		Operation: fmt.Sprintf("%s-%d-%d", n.name, device.Index, w.now.Unix()),
		Deadline:  w.now.Add(w.policy.RepartitionTimeout), Reason: NoFreeSlice, Detail: detail, Cost: o.cost}
}
