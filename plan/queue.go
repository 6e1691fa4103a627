package plan

import (
	"slices"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// queue is the pending pods in the order in which they are served, and the kinds of all pods that
// are placed. The stages write to them, in a trial only by touchPending and touchKind.
type queue struct {
	journal  *journal
	topology *topology
	pending  []pending // most urgent first
	gangs    []*gang   // pending pods that are served together, most urgent first; those of one pod too
	kinds    []*kind
	kindAt   map[string]*kind
	further  [][]mig.Count // by pool, what further pending pods could use; nil for not known, see furtherDemand
}

// pending is a pending pod.
type pending struct {
	pod      *Pod
	kind     *kind
	rank     int   // its index in the queue
	served   bool  // by free or upcoming capacity, or by an action of this plan
	refused  bool  // nothing is done for it: by its quota, or as chargeReadable decides
	borrowed bool  // charged beyond its tenant's guarantee
	shared   bool  // borrowed, but only what the tenants above are guaranteed themselves
	charged  bool  // counted in the quota tree
	counted  bool  // counted in its kind's unserved
	upcoming *Node // the upcoming node with an object that it will use, nil for none
	reason   Reason
	detail   string
	chosen   choice // the option that serves it
}

// kindOf returns the pod's kind.
func (q *queue) kindOf(p *Pod) *kind {
	key := q.topology.kindKey(p)
	k := q.kindAt[key]
	if k == nil {
		if p.PartsOn != nil { // where it runs, not where the next one does
			next := *p
			next.PartsOn, p = nil, &next
		}
		k = &kind{pod: p, placed: q.topology.placed(p), failedTrial: -1, text: p.Demand.String(), eq: float64(slicesOf(p)) / gpuSlices}
		q.kindAt[key] = k
		q.kinds = append(q.kinds, k)
	}
	return k
}

// expected is an entry for a pod that is not pending, such as a forecast replica, for which capacity is provided
// ahead. It ranks after all pending pods.
func (q *queue) expected(p *Pod) *pending {
	return &pending{pod: p, kind: q.kindOf(p), rank: len(q.pending)}
}

func (q *queue) touchPending(i int) *pending { return edit(q.journal, &q.pending, i) }

// touchKind returns a kind whose counts are written to.
func (q *queue) touchKind(k *kind) *kind {
	if q.journal.current != 0 {
		unserved, bounded := k.unserved, k.bounded
		q.journal.record(func() { k.unserved, k.bounded = unserved, bounded })
	}
	return k
}

// countUnserved counts a pod among the unserved ones of its kind.
func (q *queue) countUnserved(i int) {
	p := &q.pending[i]
	if !p.served && (p.pod.Unschedulable || p.pod.Gang != "") {
		q.touchKind(p.kind).unserved++
		p.counted = true
	}
}

func (q *queue) discountUnserved(i int) {
	p := q.touchPending(i)
	if !p.counted {
		return
	}
	p.counted = false
	k := q.touchKind(p.kind)
	if k.unserved--; k.unserved < gpuSlices {
		q.further = nil
	}
}

// undecided reports a pod about which nothing has been decided.
func (p *pending) undecided() bool { return !p.served && !p.refused && p.reason == "" }

// unservedKinds lists the kinds of unserved pods that their quota admits.
func (q *queue) unservedKinds() (kinds []*kind) {
	for i := range q.pending {
		if p := &q.pending[i]; !p.served && !p.refused && !slices.Contains(kinds, p.kind) {
			kinds = append(kinds, p.kind)
		}
	}
	return kinds
}
