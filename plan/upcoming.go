package plan

import (
	"fmt"
	"time"
)

// maxUpcoming bounds the unregistered nodes of one pool that count as upcoming, so
// that an invalid target does not exhaust memory.
const maxUpcoming = 10000

// young reports a node of a pool that may still become ready.
func (w *world) young(n *nodeState) bool {
	return n.pool >= 0 && w.now.Sub(n.Created) < w.overdue(&w.pools[n.pool])
}

// overdue is how long a node of the pool may take to become ready.
func (w *world) overdue(p *poolState) time.Duration {
	return max(3*min(p.ReadyAfter, 1000*time.Hour), w.policy.NodeOverdue)
}

// judgePools finds the pools that must not scale up now. A pool backs off while it
// has a node that is overdue, for as long as a node may take to become ready; after
// that the node counts as dead and the pool may scale up again. It backs off while
// requested nodes do not register: more of them would come as little.
func (w *world) judgePools() {
	for i := range w.pools {
		p := &w.pools[i]
		if p.Target > p.Size {
			p.requestedAt, _ = stampAt(w.state.LastScaleUp, p.Name)
			if p.requestedAt.IsZero() { // no request is recorded: the time starts now
				p.requestedAt = w.now
				w.state.LastScaleUp = stamped(w.state.LastScaleUp, p.Name, w.now)
			}
		}
		w.judgePool(p)
	}
	for i := range w.nodes {
		n := &w.nodes[i]
		w.noteNewNode(i)
		if n.since != NodeUnready || n.pool < 0 || w.pools[n.pool].Fixed { // no provider is to deliver it
			continue
		}
		p := &w.pools[n.pool]
		if age := w.now.Sub(n.Created); age < 2*w.overdue(p) && p.stop == "" {
			p.stop = BackingOff
			p.why = fmt.Sprintf("%s is not ready after %s, %s were allowed", n.name, short(age), short(w.overdue(p)))
		}
	}
}

func (w *world) judgePool(p *poolState) {
	late := w.now.Sub(p.requestedAt)
	switch {
	case w.hold != "":
		p.stop = w.hold
	case p.Freeze:
		p.stop, p.why = Frozen, "the pool is frozen"
	case p.BackoffUntil.After(w.now):
		p.stop, p.why = BackingOff, "backs off for "+short(p.BackoffUntil.Sub(w.now))+" more"
	case p.Target > p.Size && late > w.overdue(p):
		p.stop = BackingOff
		p.why = fmt.Sprintf("%s requested %s ago did not register, %s were allowed",
			count(p.Target-p.Size, "node"), short(late), short(w.overdue(p)))
	}
}

// addUnregistered adds the nodes that were requested and have no object yet.
func (w *world) addUnregistered() {
	for i := range w.pools {
		p := &w.pools[i]
		if w.now.Sub(p.requestedAt) > w.overdue(p) {
			continue
		}
		at := later(w.now, p.requestedAt.Add(p.ReadyAfter))
		for range min(max(p.Target-p.Size, 0), maxUpcoming) {
			w.addSpare(i, at, -1)
		}
	}
}

// addSpare adds an upcoming node that no pod uses yet.
func (w *world) addSpare(pool int, at time.Time, action int) int {
	n := w.addVirtual(pool, at, action)
	w.nodes[n].unclaimed = true
	p := w.touchPool(pool)
	p.spare = append(p.spare, n)
	return n
}

// addVirtual adds a node of the pool that is ready at the given time, and
// returns its index.
func (w *world) addVirtual(pool int, at time.Time, action int) int {
	p := &w.pools[pool]
	name := "a new node of " + p.Name
	unique := fmt.Sprintf("%s, %d", name, len(w.nodes)) // a place of its own
	return w.addNode(nodeState{Node: &Node{Name: unique, Pool: p.Name}, virtual: true, name: name, pool: pool,
		class: p.class, tier: tierNode, since: NodeUpcoming, at: at, changeAt: at, capacity: p.empty.clone(), action: action,
		expected: p.Template.GPUs, repartition: make([]bool, len(p.Template.GPUs))})
}
