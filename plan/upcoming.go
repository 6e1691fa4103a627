package plan

import (
	"fmt"
	"slices"
	"time"
)

// maxUpcoming bounds the unregistered nodes of one pool that count as upcoming, so
// that an invalid target does not exhaust memory.
const maxUpcoming = 10000

// young reports a node of a pool that may still become ready.
func (cond *conditions) young(n *nodeState) bool {
	return n.pool != nil && cond.now.Sub(n.Created) < cond.policy.overdue(n.pool)
}

// overdue is how long a node of the pool may take to become ready.
func (policy *Policy) overdue(p *poolState) time.Duration {
	return max(3*min(p.ReadyAfter, 1000*time.Hour), policy.NodeOverdue)
}

// judgePools finds the pools that must not scale up now. A pool backs off while a node of
// it is overdue, for as long again as a node may take to become ready; after that the node
// counts as dead and the pool may scale up again. It also backs off while requested nodes do
// not register, or while too many of its nodes are unready: more nodes would fail likewise.
func (w *world) judgePools() {
	since := Times{}
	for _, p := range w.pools {
		if p.Target > p.Size {
			since[p.Name] = w.noteShort(p)
		}
		w.judgePool(p)
	}
	w.state.ShortSince = since
	for i, n := range w.eachNode() {
		w.noteNewNode(i)
		if n.since != NodeUnready || n.pool == nil || n.bound > 0 || n.pool.Fixed { // it has been ready, or no provider is to deliver it
			continue
		}
		p := n.pool
		if age := w.now.Sub(n.Created); age < 2*w.policy.overdue(p) && p.stop == "" {
			p.stop = BackingOff
			p.why = fmt.Sprintf("%s is not ready after %s, %s were allowed", n.name, short(age), short(w.policy.overdue(p)))
		}
	}
}

// noteShort returns since when a pool has had fewer nodes than its target. Where it was first
// seen so in this reconcile, that is the last request, if its nodes may still come. Else it is
// now: long after a request, the provider may be replacing a node that was lost. Each node that
// comes gives the missing ones their time again; a further request does not.
func (cond *conditions) noteShort(p *poolState) time.Time {
	asked, known := cond.state.LastScaleUp[p.Name]
	if !known { // no request is recorded
		asked = cond.now
		cond.state.LastScaleUp = with(cond.state.LastScaleUp, p.Name, asked)
	}
	since, known := cond.state.ShortSince[p.Name]
	switch {
	case known:
	case cond.now.Sub(asked) > cond.policy.overdue(p):
		since = cond.now
	default:
		since = asked
	}
	p.requestedAt, p.missingSince = later(asked, since), later(since, p.newest)
	return since
}

// undelivered returns how many of a pool's requested nodes are given up, and why: all missing ones once their time is
// over; before that, those that the provider reports as failed.
func (cond *conditions) undelivered(p *poolState) (n int, why string) {
	switch missing, late := p.Target-p.Size, cond.now.Sub(p.missingSince); {
	case missing <= 0:
		return 0, ""
	case late > cond.policy.overdue(p):
		return missing, fmt.Sprintf("%s requested %s ago did not register, %s were allowed", count(missing, "node"), short(late), short(cond.policy.overdue(p)))
	case p.Failed > 0:
		n = min(p.Failed, missing)
		return n, fmt.Sprintf("the provider could not make %s: %s", count(n, "node"), p.FailedWhy)
	}
	return 0, ""
}

func (cond *conditions) judgePool(p *poolState) {
	switch {
	case cond.hold != "":
		p.stop = cond.hold
	case p.Freeze:
		p.stop, p.why = Frozen, "the pool is frozen"
	case p.BackoffUntil.After(cond.now):
		p.stop, p.why = BackingOff, "backs off for "+short(p.BackoffUntil.Sub(cond.now))+" more"
	case cond.policy.tooManyUnready(p.unready, p.Size) && !p.Fixed:
		p.stop, p.why = BackingOff, fmt.Sprintf("%d of its %s are not ready", p.unready, count(p.Size, "node"))
	default:
		if n, why := cond.undelivered(p); n > 0 {
			p.stop, p.why = BackingOff, why
		}
	}
}

// addUnregistered adds the nodes that were requested and have no object yet.
func (w *world) addUnregistered() {
	for _, p := range w.pools {
		failed, _ := w.undelivered(p)
		for _, at := range w.requestTimes(p, min(max(p.Target-p.Size-failed, 0), maxUpcoming)) {
			w.addSpare(p, at.Add(p.ReadyAfter), -1)
		}
	}
}

// requestTimes are when a pool's newest n nodes were requested, ascending. A further request does not delay those
// before it.
func (cond *conditions) requestTimes(p *poolState, n int) []time.Time {
	out := slices.Repeat([]time.Time{p.requestedAt}, n)
	for _, g := range slices.Backward(cond.state.Grown[p.Name]) {
		for range min(g.Nodes, n) {
			n--
			out[n] = later(g.At, cond.state.ShortSince[p.Name])
		}
	}
	slices.SortFunc(out, time.Time.Compare)
	return out
}

// addSpare adds an upcoming node that no pod uses yet.
func (w *world) addSpare(p *poolState, at time.Time, action int) int {
	n := w.addVirtual(p, at, action)
	w.nodes[n].unclaimed = true
	p = w.touchPool(p)
	p.spare = append(p.spare, n)
	return n
}

// addVirtual adds a node of the pool that is ready at the given time, or now where that is over, and returns its index.
func (w *world) addVirtual(p *poolState, at time.Time, action int) int {
	n := *p.fresh
	n.Node = &Node{Name: w.nextName(p), Pool: p.Name}
	n.due, n.at, n.action, n.capacity, n.derived = at, later(w.now, at), action, n.clone(), nil
	n.changeAt = n.at
	return w.addNode(n)
}

// withdraw takes back requests that a pool's provider has not delivered. Otherwise the nodes
// come when there is stock again, for demand that may be gone. The pool backs off, and then
// requests what is demanded by then. A provider that cannot withdraw is asked in each reconcile,
// so these actions do not count towards MaxActionsPerReconcile, as in finishOperations.
func (w *world) withdraw() {
	defer func() { w.actions.finishing = len(w.actions.list) }()
	for _, p := range w.pools {
		n, why := w.undelivered(p)
		if n == 0 || p.Fixed || w.hold != "" || p.Freeze {
			continue
		}
		w.actions.add(Action{Verb: Withdraw, Pool: p.Name, From: p.Target, To: p.Target - n, Reason: NotDelivered, Detail: why})
		p.base -= n
	}
}

// A pool's template may not match its nodes: a label that no controller sets, a
// taint that the template lacks, a rack that it does not state, less CPU once the node's DaemonSets run. A pod
// that fits only the template would otherwise add a node in every reconcile.

// newNodeFor is how long a node counts as new.
const newNodeFor = time.Hour

// maxNewNodes bounds the nodes of one pool that are compared with its template.
const maxNewNodes = 8

// noteNewNode records a node that is new, in service, and runs no pod.
func (w *world) noteNewNode(i int) {
	n := &w.nodes[i]
	if n.pool == nil || n.tier != tierNow || n.bound > 0 || w.now.Sub(n.Created) > newNodeFor {
		return
	}
	if p := n.pool; len(p.newNodes) < maxNewNodes {
		p.newNodes = append(p.newNodes, i)
	}
}

// templateMismatch returns how a node of the pool does not fit the kind although the pool's
// template does; empty where there is no such node. It looks at nodes that are newer than the
// pending pod and that no pod uses.
func (w *world) templateMismatch(k *kind, p *poolState) string {
	since := k.pod.PendingSince
	if since.IsZero() {
		return ""
	}
	for _, i := range p.newNodes {
		n := &w.nodes[i]
		if n.promised > 0 || !n.Created.After(since) {
			continue
		}
		if why := w.nodeMismatch(k, n, p); why != "" {
			return fmt.Sprintf("%s does not match its pool's template: %s", n.name, why)
		}
	}
	return ""
}

// plainOf counts the GPUs without MIG.
func plainOf(gpus []GPU) (n int) {
	for i := range gpus {
		if !gpus[i].MIG {
			n++
		}
	}
	return n
}

// nodeMismatch returns what keeps the kind out of a node, apart from the layout,
// health and allocation of its GPUs.
func (w *world) nodeMismatch(k *kind, n *nodeState, p *poolState) string {
	switch {
	case !n.admits(k):
		return mismatch(k.pod, n.place(), n.Taints)
	case len(k.pod.Near) > 0 && !w.topology.rulesAllow(k, n): // it came in another place, as the next one may
		return excludedByRules
	}
	switch lack := w.models.lacks(k, &n.capacity); lack {
	case "":
		return ""
	case "slices":
		if plainOf(n.GPUs) == len(n.GPUs) && plainOf(p.Template.GPUs) < len(p.Template.GPUs) {
			return "its GPUs are not in MIG mode"
		}
		return ""
	case wholeGPUs, partOfGPU:
		if have, claimed := len(n.GPUs), len(p.Template.GPUs); have < claimed {
			return fmt.Sprintf("%s, not %d", count(have, "GPU"), claimed)
		}
		if plainOf(n.GPUs) < plainOf(p.Template.GPUs) {
			return "its GPUs are in MIG mode"
		}
		if slices.ContainsFunc(n.pods, func(p *Pod) bool { return !p.Demand.Zero() }) { // and no other pods run there
			return "pods of DaemonSets have GPUs of the node"
		}
		return ""
	default:
		return lackText(lack)
	}
}
