package plan

import (
	"slices"
	"strings"
	"time"
)

// Explanation is what Make thought about one pod that waits.
type Explanation struct {
	Pod     Pod
	Verdict Verdict
	// Rank is the pod's place among the pods that wait, 1 for the most urgent, of
	// Waiting.
	Rank, Waiting int
	// Wants is the demand as people say it: "2 cards".
	Wants string
	// Weight is the demand in cards, by which waiting is priced.
	Weight float64
	// Borrowed: its quota admits it only beyond what its tenant is guaranteed.
	Borrowed bool
	// Options are all ways there are to serve it, what is free first, nodes to buy
	// last; those at one pool each are bounded by MaxOptions.
	Options []Option
	// Plan is the whole of what was decided: what Make decides.
	Plan Plan
}

// OptionKind is a way to serve a pod. The set is closed.
type OptionKind string

// Kinds of options, in the order in which they are weighed.
const (
	OptionFree        OptionKind = "free"        // the scheduler can place it now
	OptionWait        OptionKind = "wait"        // for what is on its way
	OptionRepartition OptionKind = "repartition" // of a card
	OptionReclaim     OptionKind = "reclaim"     // what was lent
	OptionNode        OptionKind = "node"        // of a pool
)

// MaxOptions bounds the pools an Explanation lists.
const MaxOptions = 50

// Option is one way to serve a pod, as it stood when the pod's turn came.
type Option struct {
	Kind OptionKind
	// On is the node, card or pool; empty where it is about all of them.
	On string
	// Possible options have a Cost, in the policy's currency, and a time At which
	// they would serve the pod.
	Possible bool
	Cost     float64
	At       time.Time
	// Chosen is the one that was taken, if any was.
	Chosen bool
	// Reason and Detail say what stands against it; of a possible one, what it
	// would bring about.
	Reason Reason
	Detail string
}

// watch notes what is weighed for some pods.
type watch struct {
	of func(p *Pod) bool
	// who was considered last: index into pending, -1 for nobody.
	who     int
	options []Option
	chosen  map[*Pod]choice
}

type choice struct {
	kind OptionKind
	on   string
}

// Explain decides as Make does and tells what it weighed for a pending pod,
// "namespace/name"; false when no such pod waits.
func Explain(s Snapshot, p Policy, pod string) (Explanation, bool) {
	return explain(s, p, func(q *Pod) bool { return q.Key() == pod })
}

// ExplainGang tells the same of the member on which serving a gang,
// "namespace/name", came to an end: the one that could not be served, or the
// last one that was. It is false when no member waits.
func ExplainGang(s Snapshot, p Policy, gang string) (Explanation, bool) {
	return explain(s, p, func(q *Pod) bool { return q.Gang == gang })
}

func explain(s Snapshot, p Policy, of func(p *Pod) bool) (Explanation, bool) {
	w := newWorld(s, p)
	first := slices.IndexFunc(w.pending, func(q pending) bool { return of(q.pod) })
	if first < 0 {
		return Explanation{}, false
	}
	w.watch = &watch{of: of, who: -1, chosen: map[*Pod]choice{}}
	w.decide()
	if w.watch.who < 0 { // its turn never came: it was refused, or what is free does
		w.consider(first)
	}
	q := &w.pending[w.watch.who]
	k := &w.kinds[q.kind]
	wants := k.wants
	if q.pod.Unreadable != "" {
		wants = "what cannot be read"
	}
	return Explanation{
		Pod: *q.pod, Verdict: w.waitingVerdict(q), Rank: w.watch.who + 1, Waiting: len(w.pending),
		Wants: wants, Weight: k.eq, Borrowed: q.borrowed, Options: w.watch.outcome(q), Plan: w.plan(),
	}, true
}

// chose notes what is done for a pod that is watched.
func (w *world) chose(p *pending, kind OptionKind, on string) {
	if w.watch != nil && w.watch.of(p.pod) {
		w.watch.chosen[p.pod] = choice{kind, on}
	}
}

// takenBack are answers under which nothing that was chosen for the pod stands.
var takenBack = []Reason{GangWaits, GangIncomplete, QuotaExceeded}

// outcome marks the option that was taken.
func (t *watch) outcome(p *pending) []Option {
	c, ok := t.chosen[p.pod]
	if !ok || slices.Contains(takenBack, p.reason) {
		return t.options
	}
	for i := range t.options {
		o := &t.options[i]
		if o.Kind == c.kind && (o.On == c.on || strings.HasPrefix(o.On, c.on+"/")) {
			o.Chosen = true
			return t.options
		}
	}
	// Another than at first sight: what was there when its turn came has changed.
	o := Option{Kind: c.kind, On: c.on, Possible: true, Chosen: true, Reason: p.reason, Detail: p.detail}
	for i := range t.options {
		if t.options[i].Kind == c.kind {
			t.options[i] = o
			return t.options
		}
	}
	return append(t.options, o)
}
