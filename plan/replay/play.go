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

// grace is how long a play goes on after the last arrival or end while no pod runs. Pods
// that are still pending then never run.
const grace = 24 * time.Hour

// Play plays pods through each policy: ours, ours where every pod takes whole GPUs, the
// best static one and the best karpenter-like one. The best is the one that serves most
// pods of the first seed and then pays least. With all, every policy is in the result.
func Play(pods []Pod, o Options, all bool) (Result, error) {
	r := Result{Seeds: o.seeds(), sizes: len(o.GPUs)}
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

// live is a job in the world. Times count from the beginning.
type live struct {
	job
	pending time.Duration // since when, while it does not run
	running time.Duration // since when, while it runs
	runs    bool
	bound   bool // it has run
}

// end is when a pod ends.
type end struct {
	at  time.Duration
	key string
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
	running int              // of them
	ends    []end            // soonest first
	waits   []time.Duration  // how long pods were pending
	changed bool             // something happened since the last plan
	planned time.Duration    // when the last plan was made
	busy    time.Duration    // when a pod last arrived or ended
}

// began is the time at which each world begins.
var began = time.Unix(0, 0).UTC()

func (t *trace) play(p policy) (Run, error) {
	o := t.options
	x := &player{t: t, p: p, d: p.decider(), w: t.world(slices.Clone(p.pools)), random: rand.New(rand.NewPCG(o.Seed, 3)),
		run: Run{Policy: p.name, Figures: Figures{Pods: float64(len(p.jobs))}, curve: t.curve()}, live: map[string]*live{},
		changed: true, planned: -maxQuiet - p.scan}
	x.w.Bound, x.w.Evicted = x.bound, x.evicted
	used := t.processor()
	day := 0
	for x.next < len(p.jobs) || len(x.live) > 0 {
		if x.next == len(p.jobs) && x.running == 0 && x.now()-x.busy > grace {
			break // what is left never runs
		}
		x.step(x.nextTime())
		if err := x.reconcile(); err != nil {
			return x.run, fmt.Errorf("policy %s, %s after the start: %w", p.name, x.now(), err)
		}
		if d := int(x.now().Hours() / 24); d > day && o.Progress != nil {
			day = d
			o.Progress(p.name, o.Seed, d)
		}
	}
	for _, p := range x.w.State.Pods { // they were never served
		x.wait(x.live[p.Key()])
	}
	slices.Sort(x.waits)
	x.run.P50, x.run.P95, x.run.P99 = quantile(x.waits, 50), quantile(x.waits, 95), quantile(x.waits, 99)
	if days := x.now().Hours() / 24; days > 0 {
		x.run.PerDay = (t.processor() - used).Seconds() / days
	}
	return x.run, nil
}

func (t *trace) processor() time.Duration {
	if t.options.Processor == nil {
		return 0
	}
	return t.options.Processor()
}

func (x *player) now() time.Duration { return x.w.State.Now.Sub(began) }

// nextTime is when something next happens: an arrival, an end, or a plan.
func (x *player) nextTime() time.Duration {
	next := x.planned + maxQuiet
	if x.changed {
		next = x.planned + x.p.scan
	}
	if x.next < len(x.p.jobs) {
		if arrival := x.p.jobs[x.next].Created; arrival < next || x.empty() && !x.changed {
			next = arrival
		}
	}
	if len(x.ends) > 0 {
		next = min(next, x.ends[0].at)
	}
	return max(next, x.now())
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

// inService returns the GPUs of ready nodes, and those of ready nodes with pods.
func (x *player) inService() (ready, used float64) {
	runs := map[string]bool{}
	for i := range x.w.State.Pods {
		runs[x.w.State.Pods[i].Node] = true
	}
	for i := range x.w.State.Nodes {
		if n := &x.w.State.Nodes[i]; n.Ready {
			ready += float64(len(n.GPUs))
			if runs[n.Name] {
				used += float64(len(n.GPUs))
			}
		}
	}
	return ready, used
}

// empty reports whether the world has no pods and no nodes, and none are requested.
func (x *player) empty() bool {
	gpus, _ := x.paid()
	return len(x.live) == 0 && len(x.w.State.Nodes) == 0 && gpus == 0
}

// step lets time pass until next, then ends and adds the pods that are due. A node is
// paid for from the request until it is removed.
func (x *player) step(next time.Duration) {
	d := next - x.now()
	paid, price := x.paid()
	x.run.Paid += paid * d.Hours()
	x.run.Money += price * d.Hours()
	ready, used := x.inService()
	x.run.Booting += (paid - ready) * d.Hours()
	x.run.Empty += (ready - used) * d.Hours()
	x.run.PeakGPUs = max(x.run.PeakGPUs, paid)
	x.run.curve.add(x.now(), d, paid)
	x.advance(d)
	for len(x.ends) > 0 && x.ends[0].at <= next {
		e := x.ends[0]
		x.ends = x.ends[1:]
		// A pod that was evicted since does not end now.
		if j := x.live[e.key]; j != nil && (j.Replica || j.runs && j.running+j.Run == e.at) {
			x.leave(j, e.key)
		}
	}
	for x.next < len(x.p.jobs) && x.p.jobs[x.next].Created <= next {
		x.arrive(x.p.jobs[x.next])
		x.next++
	}
	x.advance(0)
}

func (x *player) advance(d time.Duration) {
	if events := x.w.Advance(d); len(events) > 0 {
		x.changed = true
	}
}

func (x *player) arrive(j job) {
	p := x.t.pod(j, x.w.State.Now)
	x.w.State.Pods = append(x.w.State.Pods, p)
	x.live[p.Key()] = &live{job: j, pending: j.Created}
	if j.Replica {
		x.endAt(j.Created+j.Run, p.Key())
	}
	x.changed, x.busy = true, x.now()
}

// leave ends a pod. The rest of its gang may run without it, since gang schedulers count
// members that have ended.
func (x *player) leave(j *live, key string) {
	x.w.RemovePod(key)
	for i := range x.w.State.Pods {
		if p := &x.w.State.Pods[i]; j.Gang != "" && p.Gang == gangOf(j.job) {
			p.GangMin--
		}
	}
	if x.stop(j); j.bound {
		x.run.Served++
	} else {
		x.wait(j)
	}
	delete(x.live, key)
	x.changed, x.busy = true, x.now()
}

func (x *player) endAt(at time.Duration, key string) {
	e := end{at, key}
	i, _ := slices.BinarySearchFunc(x.ends, e, func(a, b end) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.key, b.key)) })
	x.ends = slices.Insert(x.ends, i, e)
}

func (x *player) bound(p *plan.Pod) {
	j := x.live[p.Key()]
	x.wait(j)
	j.running, j.runs, j.bound = x.now(), true, true
	x.running++
	if !j.Replica {
		x.endAt(x.now()+j.Run, p.Key())
	}
}

func (x *player) evicted(p *plan.Pod) {
	x.stop(x.live[p.Key()])
	x.run.Evictions++
}

// stop adds what a running job has allocated to the figures. From then on the job is pending.
func (x *player) stop(j *live) {
	if j.runs {
		x.run.Allocated += x.t.gpus(&j.job) * (x.now() - j.running).Hours()
		j.runs, j.pending = false, x.now()
		x.running--
	}
}

// wait adds how long a job was pending to the figures.
func (x *player) wait(j *live) {
	d := x.now() - j.pending
	x.waits = append(x.waits, d)
	x.run.Pending += x.t.gpus(&j.job) * d.Hours()
}

// reconcile makes a plan and applies it, if something changed and the policy's interval has
// passed since the last plan, or if maxQuiet has.
func (x *player) reconcile() error {
	if passed := x.now() - x.planned; passed < x.p.scan || !x.changed && passed < maxQuiet {
		return nil
	}
	made := x.d.plan(x.w.State) // no copy: no policy changes it
	x.planned, x.changed = x.now(), len(made.Actions) > 0
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
	err := x.w.Apply(made)
	x.changed = x.changed || x.d.again(&x.w.State)
	return err
}

// quantile returns the least wait that percent of the waits do not exceed, in seconds;
// 0 for no waits.
func quantile(sorted []time.Duration, percent int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*percent+99)/100-1].Seconds()
}
