package replay

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/sim"
)

// Run is what one policy did.
type Run struct {
	Policy       string  `json:"policy"`
	Paid         float64 `json:"gpuHoursPaid"`
	Allocated    float64 `json:"gpuHoursAllocated"` // whole GPUs, and compute slices over those of a GPU
	Money        float64 `json:"money"`
	Pods         int     `json:"pods"`
	Served       int     `json:"served"`
	P50          float64 `json:"pendingP50Seconds"`
	P95          float64 `json:"pendingP95Seconds"`
	P99          float64 `json:"pendingP99Seconds"`
	Repartitions int     `json:"repartitions"`
	Evictions    int     `json:"evictions"`
	Added        int     `json:"nodesAdded"`
	Removed      int     `json:"nodesRemoved"`
	Plans        int     `json:"plans"`
	PeakGPUs     int     `json:"peakGPUs"`
	PerDay       float64 `json:"processorSecondsPerDay"`
}

// Result is the answer of a replay.
type Result struct {
	Runs  []Run   `json:"runs"`
	Bound float64 `json:"boundGPUHours"` // no policy that serves all pods pays less
	// BoundAtOnce is of whole nodes, where every pod runs from its arrival on.
	BoundAtOnce float64        `json:"boundAtOnceGPUHours"`
	Left        map[string]int `json:"leftOut"`
	Days        float64        `json:"days"` // from the first pod's arrival to the last one's
}

// maxQuiet is the longest time without a plan while the world has nodes or pods.
const maxQuiet = time.Minute

// grace is how long after the last arrival and end pods are waited for that do not
// run.
const grace = 24 * time.Hour

// Play plays the trace through each policy: ours, ours where every pod takes whole
// GPUs, and the best of the static ones, which is the one that serves most pods and
// then pays least. With all, every static one is in the answer.
func (t *Trace) Play(all bool) (Result, error) {
	r := Result{Bound: t.bound(), BoundAtOnce: t.boundAtOnce(), Left: t.Left, Days: (t.jobs[len(t.jobs)-1].Created - t.jobs[0].Created).Hours() / 24}
	for _, p := range t.ours() {
		run, err := t.play(p)
		if err != nil {
			return r, err
		}
		r.Runs = append(r.Runs, run)
	}
	var statics []Run
	for _, p := range t.statics() {
		run, err := t.play(p)
		if err != nil {
			return r, err
		}
		statics = append(statics, run)
	}
	slices.SortStableFunc(statics, func(a, b Run) int { return cmp.Or(b.Served-a.Served, cmp.Compare(a.Paid, b.Paid)) })
	if !all && len(statics) > 1 {
		statics = statics[:1]
	}
	r.Runs = append(r.Runs, statics...)
	return r, nil
}

// end is when a bound pod ends.
type end struct {
	at  time.Time
	key string
}

type ends []end

func (e ends) Len() int { return len(e) }
func (e ends) Less(i, j int) bool {
	return e[i].at.Before(e[j].at) || e[i].at.Equal(e[j].at) && e[i].key < e[j].key
}
func (e ends) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)   { *e = append(*e, x.(end)) }
func (e *ends) Pop() any     { last := (*e)[len(*e)-1]; *e = (*e)[:len(*e)-1]; return last }

// player is one policy in one world.
type player struct {
	t       *Trace
	p       policy
	w       *sim.World
	run     Run
	next    int                  // job that arrives next
	jobs    map[string]job       // in the world, by key
	running map[string]time.Time // since when, by key
	ends    ends
	waits   []time.Duration
	changed bool
	planned time.Time
	busy    time.Time // when a pod last arrived or ended
}

func (t *Trace) play(p policy) (Run, error) {
	x := &player{t: t, p: p, w: t.world(slices.Clone(p.pools)), run: Run{Policy: p.name, Pods: len(p.jobs)},
		jobs: map[string]job{}, running: map[string]time.Time{}, changed: true}
	start := x.w.State.Now
	x.busy = start
	used := t.processor()
	day := 0
	for x.next < len(p.jobs) || len(x.jobs) > 0 {
		if x.next == len(p.jobs) && len(x.running) == 0 && x.w.State.Now.Sub(x.busy) > grace {
			break // what is left never runs
		}
		x.step(x.nextTime())
		if err := x.reconcile(); err != nil {
			return x.run, fmt.Errorf("%s, %s after the start: %w", p.name, x.w.State.Now.Sub(start), err)
		}
		if d := int(x.w.State.Now.Sub(start).Hours() / 24); d > day && t.options.Progress != nil {
			day = d
			t.options.Progress(p.name, d)
		}
	}
	x.finish(x.w.State.Now.Sub(start), t.processor()-used)
	return x.run, nil
}

func (t *Trace) processor() time.Duration {
	if t.options.Processor == nil {
		return 0
	}
	return t.options.Processor()
}

// nextTime is when something next happens: an arrival, an end, or a plan.
func (x *player) nextTime() time.Time {
	pause := maxQuiet
	if x.changed {
		pause = x.t.options.Interval
	}
	at := x.planned.Add(pause)
	if x.planned.IsZero() {
		at = x.w.State.Now
	}
	if x.next < len(x.p.jobs) {
		arrival := time.Unix(0, 0).UTC().Add(x.p.jobs[x.next].Created)
		if arrival.Before(at) || len(x.jobs) == 0 && len(x.w.State.Nodes) == 0 && x.paidGPUs() == 0 && !x.changed {
			at = arrival
		}
	}
	if len(x.ends) > 0 && x.ends[0].at.Before(at) {
		at = x.ends[0].at
	}
	if at.Before(x.w.State.Now) {
		return x.w.State.Now
	}
	return at
}

func (x *player) paidGPUs() int {
	n := 0
	for _, p := range x.w.State.Pools {
		n += p.Target * len(p.Template.GPUs)
	}
	return n
}

// step lets time pass until at, then ends and adds the pods that are due. A node is
// paid for from the request until it is removed.
func (x *player) step(at time.Time) {
	d := at.Sub(x.w.State.Now)
	paid := x.paidGPUs()
	x.run.Paid += float64(paid) * d.Hours()
	x.run.PeakGPUs = max(x.run.PeakGPUs, paid)
	x.note(x.w.Advance(d))
	for len(x.ends) > 0 && !x.ends[0].at.After(at) {
		e := heap.Pop(&x.ends).(end)
		since, ok := x.running[e.key]
		j := x.jobs[e.key]
		if !ok || !since.Add(j.Run).Equal(e.at) {
			continue // it was evicted since
		}
		x.w.RemovePod(e.key)
		x.allocated(j, j.Run)
		x.run.Served++
		delete(x.running, e.key)
		delete(x.jobs, e.key)
		x.changed, x.busy = true, at
	}
	for x.next < len(x.p.jobs) && !time.Unix(0, 0).UTC().Add(x.p.jobs[x.next].Created).After(at) {
		j := x.p.jobs[x.next]
		p := x.t.pod(j, at)
		x.next++
		x.jobs[p.Key()] = j
		x.w.State.Pods = append(x.w.State.Pods, p)
		x.changed, x.busy = true, at
	}
	x.note(x.w.Advance(0))
}

// note records the pods that were bound.
func (x *player) note(events []sim.Event) {
	for _, e := range events {
		x.changed = true
		if e.Bound == "" {
			continue
		}
		j := x.jobs[e.Bound]
		x.running[e.Bound] = e.At
		heap.Push(&x.ends, end{e.At.Add(j.Run), e.Bound})
		x.waits = append(x.waits, e.At.Sub(time.Unix(0, 0).UTC().Add(j.Created)))
	}
}

func (x *player) allocated(j job, d time.Duration) {
	if j.profile.Compute == 0 {
		x.run.Allocated += float64(j.GPUs) * d.Hours()
		return
	}
	x.run.Allocated += float64(j.profile.Compute) / float64(x.t.table.ComputeSlices()) * d.Hours()
}

// reconcile plans where something changed and the interval has passed, or nothing
// did for maxQuiet.
func (x *player) reconcile() error {
	now, o := x.w.State.Now, x.t.options
	if passed := now.Sub(x.planned); !x.planned.IsZero() && (passed < o.Interval || !x.changed && passed < maxQuiet) {
		return nil
	}
	made := x.p.make(x.w.Snapshot())
	x.planned, x.changed = now, len(made.Actions) > 0
	x.run.Plans++
	for _, a := range made.Actions {
		switch a.Verb {
		case plan.ScaleUp:
			x.run.Added += a.To - a.From
		case plan.Replace:
			x.run.Added++
			x.run.Removed++
		case plan.RemoveNode:
			x.run.Removed++
		case plan.Repartition:
			x.run.Repartitions++
		}
	}
	if err := x.w.Apply(made); err != nil {
		return err
	}
	for i := range x.w.State.Pods {
		p := &x.w.State.Pods[i]
		since, ran := x.running[p.Key()]
		if p.Node == "" && ran {
			x.allocated(x.jobs[p.Key()], now.Sub(since))
			delete(x.running, p.Key())
			x.run.Evictions++
		}
		x.changed = x.changed || p.Node == ""
	}
	return nil
}

func (x *player) finish(length, used time.Duration) {
	x.run.Money = x.run.Paid * x.t.options.Price
	slices.Sort(x.waits)
	x.run.P50, x.run.P95, x.run.P99 = quantile(x.waits, 50), quantile(x.waits, 95), quantile(x.waits, 99)
	if days := length.Hours() / 24; days > 0 {
		x.run.PerDay = used.Seconds() / days
	}
}

// quantile is the least wait that so many in a hundred do not exceed, in seconds;
// 0 for none.
func quantile(sorted []time.Duration, percent int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*percent+99)/100-1].Seconds()
}

// String is the answer as a table.
func (r Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%.1f days; left out: %s\n\n", r.Days, leftText(r.Left))
	fmt.Fprintf(&b, "%10s %10s %9s %13s %6s %6s %6s %5s %5s %5s %5s %5s %7s  %s\n", "GPU-h paid", "allocated", "money", "served", "p50 s", "p95 s", "p99 s",
		"repar", "evict", "added", "gone", "peak", "s/day", "policy")
	for _, n := range r.Runs {
		fmt.Fprintf(&b, "%10.0f %10.0f %9.0f %6d/%6d %6.0f %6.0f %6.0f %5d %5d %5d %5d %5d %7.2f  %s\n", n.Paid, n.Allocated, n.Money, n.Served, n.Pods,
			n.P50, n.P95, n.P99, n.Repartitions, n.Evictions, n.Added, n.Removed, n.PeakGPUs, n.PerDay, n.Policy)
	}
	fmt.Fprintf(&b, "%10.0f %75s  hindsight: no policy that serves all pods pays less\n", r.Bound, "")
	fmt.Fprintf(&b, "%10.0f %75s  hindsight, whole nodes: none pays less under which no pod waits\n", r.BoundAtOnce, "")
	return b.String()
}

func leftText(left map[string]int) string {
	var words []string
	for why, n := range left {
		words = append(words, fmt.Sprintf("%d %s", n, why))
	}
	slices.Sort(words)
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}
