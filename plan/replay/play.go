package replay

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/sim"
)

// maxQuiet is the longest time without a plan while the world has nodes or pods.
const maxQuiet = time.Minute

// grace is how long after the last arrival and end pods are waited for that do not
// run.
const grace = 24 * time.Hour

// Play plays pods through each policy: ours, ours where every pod takes whole GPUs, and
// of the static and of the karpenter-like ones the best, which is the one that serves
// most pods of the first seed and then pays least. With all, every one is in the answer.
func Play(pods []Pod, o Options, all bool) (Result, error) {
	r := Result{Seeds: o.seeds()}
	runs := map[string][]Run{} // by policy
	var order []string
	for n := range r.Seeds {
		at := o
		at.Seed += uint64(n)
		t, err := newTrace(pods, at)
		if err != nil {
			return r, err
		}
		r.Bound += t.bound() / float64(r.Seeds)
		r.BoundAtOnce += t.boundAtOnce() / float64(r.Seeds)
		if n == 0 {
			r.Left, r.demand = t.left, t.demand()
			r.Days = (t.jobs[len(t.jobs)-1].Created - t.jobs[0].Created).Hours() / 24
		}
		for _, family := range [][]policy{
			t.ours(),
			t.fixed("static", func() decider { return &clusterAutoscaler{} }, o.Interval),
			t.fixed("karpenter-like", func() decider { return &karpenter{} }, batchIdle),
		} {
			var here []Run
			for _, p := range family {
				if n > 0 && !slices.Contains(order, p.name) {
					continue
				}
				run, err := t.play(p)
				if err != nil {
					return r, err
				}
				here = append(here, run)
			}
			if n == 0 && family[0].name != "ours" {
				slices.SortStableFunc(here, func(a, b Run) int { return cmp.Or(cmp.Compare(b.Served, a.Served), cmp.Compare(a.Paid, b.Paid)) })
				if !all {
					here = here[:1]
				}
			}
			for _, run := range here {
				if n == 0 {
					order = append(order, run.Policy)
				}
				runs[run.Policy] = append(runs[run.Policy], run)
			}
		}
	}
	for _, name := range order {
		r.Runs = append(r.Runs, mean(runs[name]))
	}
	return r, nil
}

// end is when a bound pod ends.
type end struct {
	at  time.Time
	key string
}

func (x *player) endAt(e end) {
	i, _ := slices.BinarySearchFunc(x.ends, e, func(a, b end) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.key, b.key)) })
	x.ends = slices.Insert(x.ends, i, e)
}

// live is a job in the world.
type live struct {
	job
	pending time.Time // since when, also while it runs
	running time.Time // since when, zero while it is pending
	bound   bool      // it has run
}

// player is one policy in one world.
type player struct {
	t       *trace
	p       policy
	d       decider
	w       *sim.World
	random  *rand.Rand
	run     Run
	next    int              // job that arrives next
	live    map[string]*live // by key
	runs    int              // of them
	ends    []end            // soonest first
	waits   []time.Duration
	changed bool
	planned time.Time
	busy    time.Time // when a pod last arrived or ended
}

func (t *trace) play(p policy) (Run, error) {
	o := t.options
	x := &player{t: t, p: p, d: p.decider(), w: t.world(slices.Clone(p.pools)), random: rand.New(rand.NewPCG(o.Seed, 3)),
		run: Run{Policy: p.name, Figures: Figures{Pods: float64(len(p.jobs))}, curve: t.curve()}, live: map[string]*live{}, changed: true}
	start := x.w.State.Now
	x.busy = start
	used := t.processor()
	day := 0
	for x.next < len(p.jobs) || len(x.live) > 0 {
		if x.next == len(p.jobs) && x.runs == 0 && x.w.State.Now.Sub(x.busy) > grace {
			break // what is left never runs
		}
		x.step(x.nextTime())
		if err := x.reconcile(); err != nil {
			return x.run, fmt.Errorf("%s, %s after the start: %w", p.name, x.w.State.Now.Sub(start), err)
		}
		if d := int(x.w.State.Now.Sub(start).Hours() / 24); d > day && o.Progress != nil {
			day = d
			o.Progress(p.name, o.Seed, d)
		}
	}
	x.finish(x.w.State.Now.Sub(start), t.processor()-used)
	return x.run, nil
}

func (t *trace) processor() time.Duration {
	if t.options.Processor == nil {
		return 0
	}
	return t.options.Processor()
}

// at is a time of the trace in the world.
func at(d time.Duration) time.Time { return time.Unix(0, 0).UTC().Add(d) }

// nextTime is when something next happens: an arrival, an end, or a plan.
func (x *player) nextTime() time.Time {
	pause := maxQuiet
	if x.changed {
		pause = x.p.scan
	}
	next := x.planned.Add(pause)
	if x.planned.IsZero() {
		next = x.w.State.Now
	}
	if x.next < len(x.p.jobs) {
		arrival := at(x.p.jobs[x.next].Created)
		if arrival.Before(next) || x.empty() && !x.changed {
			next = arrival
		}
	}
	if len(x.ends) > 0 && x.ends[0].at.Before(next) {
		next = x.ends[0].at
	}
	if next.Before(x.w.State.Now) {
		return x.w.State.Now
	}
	return next
}

// paid is the GPUs that are paid for, and their price for an hour.
func (x *player) paid() (gpus, price float64) {
	for i := range x.w.State.Pools {
		p := &x.w.State.Pools[i]
		gpus += float64(p.Target * len(p.Template.GPUs))
		price += float64(p.Target) * p.PricePerHour
	}
	return gpus, price
}

// empty reports a world without pods and nodes, requested ones included.
func (x *player) empty() bool {
	gpus, _ := x.paid()
	return len(x.live) == 0 && len(x.w.State.Nodes) == 0 && gpus == 0
}

// step lets time pass until next, then ends and adds the pods that are due. A node is
// paid for from the request until it is removed.
func (x *player) step(next time.Time) {
	d := next.Sub(x.w.State.Now)
	paid, price := x.paid()
	x.run.Paid += paid * d.Hours()
	x.run.Money += price * d.Hours()
	x.run.PeakGPUs = max(x.run.PeakGPUs, paid)
	x.run.curve.add(x.w.State.Now.Sub(at(0)), d, paid)
	x.note(x.w.Advance(d))
	for len(x.ends) > 0 && !x.ends[0].at.After(next) {
		e := x.ends[0]
		x.ends = x.ends[1:]
		j := x.live[e.key]
		if j == nil || !j.Replica && !j.running.Add(j.Run).Equal(e.at) {
			continue // it was evicted since
		}
		x.w.RemovePod(e.key)
		if j.Gang != "" {
			x.smaller("trace/" + j.Gang)
		}
		x.pause(j, next)
		if j.bound {
			x.run.Served++
		} else {
			x.wait(j, next)
		}
		delete(x.live, e.key)
		x.changed, x.busy = true, next
	}
	for x.next < len(x.p.jobs) && !at(x.p.jobs[x.next].Created).After(next) {
		j := x.p.jobs[x.next]
		p := x.t.pod(j, next)
		x.next++
		x.live[p.Key()] = &live{job: j, pending: at(j.Created)}
		if j.Replica {
			x.endAt(end{at(j.Created + j.Run), p.Key()})
		}
		x.w.State.Pods = append(x.w.State.Pods, p)
		x.changed, x.busy = true, next
	}
	x.note(x.w.Advance(0))
}

// smaller lets a gang run without a pod that has ended: gang schedulers count it.
func (x *player) smaller(gang string) {
	for i := range x.w.State.Pods {
		if p := &x.w.State.Pods[i]; p.Gang == gang {
			p.GangMin--
		}
	}
}

// pause ends what a job has allocated.
func (x *player) pause(j *live, now time.Time) {
	if !j.running.IsZero() {
		x.run.Allocated += x.t.gpus(&j.job) * now.Sub(j.running).Hours()
		j.running, j.pending = time.Time{}, now
		x.runs--
	}
}

// wait counts how long a job was pending.
func (x *player) wait(j *live, now time.Time) {
	x.waits = append(x.waits, now.Sub(j.pending))
	x.run.Pending += x.t.gpus(&j.job) * now.Sub(j.pending).Hours()
}

// note records the pods that were bound, and those that were evicted.
func (x *player) note(events []sim.Event) {
	for _, e := range events {
		x.changed = true
		if e.Bound == "" {
			continue
		}
		j := x.live[e.Bound]
		x.evicted(j, e.Since)
		x.wait(j, e.At)
		j.running, j.bound = e.At, true
		x.runs++
		if !j.Replica {
			x.endAt(end{e.At.Add(j.Run), e.Bound})
		}
	}
	for i := range x.w.State.Pods {
		if p := &x.w.State.Pods[i]; p.Node == "" {
			x.evicted(x.live[p.Key()], p.PendingSince)
		}
	}
}

func (x *player) evicted(j *live, now time.Time) {
	if !j.running.IsZero() {
		x.pause(j, now)
		x.run.Evictions++
	}
}

// reconcile plans where something changed and the interval has passed, or nothing
// did for maxQuiet.
func (x *player) reconcile() error {
	now := x.w.State.Now
	if passed := now.Sub(x.planned); !x.planned.IsZero() && (passed < x.p.scan || !x.changed && passed < maxQuiet) {
		return nil
	}
	made := x.d.plan(x.w.State) // which no policy changes
	x.planned, x.changed = now, len(made.Actions) > 0
	x.run.Plans++
	for _, a := range made.Actions {
		switch a.Verb {
		case plan.ScaleUp:
			x.run.Added += float64(a.To - a.From)
		case plan.Replace:
			x.run.Added++
			x.run.Removed++
		case plan.RemoveNode:
			x.run.Removed++
		case plan.Repartition:
			x.run.Repartitions++
			if x.random.Float64() < x.t.options.FailRepartition {
				x.w.Fail = append(x.w.Fail, fmt.Sprintf("%s/%d", a.Node, a.GPU))
			}
		}
	}
	if err := x.w.Apply(made); err != nil {
		return err
	}
	x.note(nil)
	x.changed = x.changed || x.d.again(&x.w.State)
	return nil
}

func (x *player) finish(length, used time.Duration) {
	for _, p := range x.w.State.Pods { // they were never served
		x.wait(x.live[p.Key()], x.w.State.Now)
	}
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
