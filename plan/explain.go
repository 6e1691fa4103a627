package plan

import (
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
	// Options are all ways to serve it, free capacity first, new nodes last; those
	// of a pool each are bounded by MaxOptions.
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
	chosen  map[*Pod]choice
}

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
	w.watch = &watch{of: of, last: -1, chosen: map[*Pod]choice{}}
	w.decide()
	if w.watch.last < 0 { // it was never considered: refused, or served by free capacity
		w.consider(first)
	}
	q := &w.pending[w.watch.last]
	k := &w.kinds[q.kind]
	request := k.text
	if q.pod.Unreadable != "" {
		request = "an unknown amount"
	}
	return Explanation{
		Pod: *q.pod, Verdict: w.pendingVerdict(q), Rank: w.watch.last + 1, Pending: len(w.pending),
		Requests: request, Weight: k.eq, Borrowed: q.borrowed, Options: w.watch.outcome(q), Plan: w.plan(),
	}, true
}

// chose records the option taken for a watched pod.
func (w *world) chose(p *pending, kind OptionKind, on string) {
	if w.watch != nil && w.watch.of(p.pod) {
		w.watch.chosen[p.pod] = choice{kind, on}
	}
}

// unservedReasons are reasons under which the option chosen for the pod is void.
var unservedReasons = []Reason{GangWaits, GangIncomplete, QuotaExceeded}

// outcome marks the option that was taken.
func (t *watch) outcome(p *pending) []Option {
	c, ok := t.chosen[p.pod]
	if !ok || slices.Contains(unservedReasons, p.reason) {
		return t.options
	}
	for i := range t.options {
		o := &t.options[i]
		if o.Kind == c.kind && (o.On == c.on || strings.HasPrefix(o.On, c.on+"/")) {
			o.Chosen = true
			return t.options
		}
	}
	// The option was not recorded: the world has changed since.
	o := Option{Kind: c.kind, On: c.on, Possible: true, Chosen: true, Reason: p.reason, Detail: p.detail}
	for i := range t.options {
		if t.options[i].Kind == c.kind {
			t.options[i] = o
			return t.options
		}
	}
	return append(t.options, o)
}
