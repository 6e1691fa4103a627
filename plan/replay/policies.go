package replay

import (
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// policy is one way to run the fleet.
type policy struct {
	name  string
	pools []plan.Pool
	jobs  []job // with what each requests here
	make  func(plan.Snapshot) plan.Plan
}

// ours is plan.Make with its default policy over two pools: whole GPUs, and MIG
// GPUs that may be repartitioned, with the pools' defaults for the rest. Where pods
// request MIG instances there is a second one without: each takes a whole GPU.
func (t *Trace) ours() []policy {
	decide := func(s plan.Snapshot) plan.Plan { return plan.Make(s, plan.DefaultPolicy()) }
	whole := []plan.Pool{t.pool("whole", nil)}
	boot := t.filled(t.used(), mig.Profile{})
	if len(boot) == 0 {
		return []policy{{"ours", whole, t.jobs, decide}}
	}
	p := t.pool("mig", boot)
	p.MIG = plan.PoolMIG{Repartition: true, KeepsBusy: t.options.Agent, IdleAfter: time.Minute, Duration: t.options.Repartition}
	return []policy{{"ours", append(whole, p), t.jobs, decide}, {"ours, whole GPUs", whole, t.wholeJobs(), decide}}
}

// wholeJobs are the jobs where each that requests an instance takes a whole GPU.
func (t *Trace) wholeJobs() []job {
	jobs := slices.Clone(t.jobs)
	for i := range jobs {
		jobs[i].profile = mig.Profile{}
	}
	return jobs
}

// used are the profiles that jobs request, smallest first.
func (t *Trace) used() []mig.Profile {
	var all []mig.Profile
	for _, j := range t.jobs {
		if j.profile.Compute > 0 && !slices.Contains(all, j.profile) {
			all = append(all, j.profile)
		}
	}
	slices.SortFunc(all, mig.Profile.Compare)
	return all
}

// filled is a layout with as many instances of first as a GPU takes, then as many
// as fit beside them of the others, largest first.
func (t *Trace) filled(of []mig.Profile, first mig.Profile) mig.Layout {
	var l mig.Layout
	add := func(p mig.Profile) {
		for {
			more, ok := t.table.Arrange(l, []mig.Count{{Profile: p, N: 1}})
			if !ok {
				return
			}
			l = more
		}
	}
	if first.Compute > 0 {
		add(first)
	}
	for _, p := range slices.Backward(of) {
		add(p)
	}
	return l
}

// statics are fixed layouts under cluster-autoscaler's rules: whole GPUs for all, a
// pool for each profile in use, and one MIG pool for each profile in use whose layout is
// filled with that profile first, where a pod requests the smallest instance that
// the layout has for it, or a whole GPU.
func (t *Trace) statics() []policy {
	whole := t.pool("whole", nil)
	each := policy{name: "static, a pool for each profile", pools: []plan.Pool{whole}, jobs: t.jobs}
	all := []policy{{name: "static, whole GPUs", pools: []plan.Pool{whole}, jobs: t.wholeJobs()}}
	for _, p := range t.used() {
		l, name := t.filled(t.used(), p), t.table.Name(p)
		each.pools = append(each.pools, t.pool("mig-"+name, l))
		one := policy{name: "static, " + t.table.Format(l), pools: []plan.Pool{whole, t.pool("mig-"+name, l)}}
		var has []mig.Profile
		for _, c := range mig.Counts(l) {
			has = append(has, c.Profile)
		}
		for _, j := range t.jobs {
			if j.profile.Compute > 0 {
				j.profile = t.smallest(j.Milli, has)
			}
			one.jobs = append(one.jobs, j)
		}
		all = append(all, one)
	}
	if len(each.pools) > 1 {
		all = append(all, each)
	}
	for i := range all {
		c := &clusterAutoscaler{unneeded: map[string]time.Time{}}
		all[i].make = c.plan
	}
	return all
}

// clusterAutoscaler has cluster-autoscaler's rules with its default flags (its FAQ,
// and static_autoscaler.go for the GPU pods' wait; read 2026-11): a scan every 10
// s; pods that need a GPU count once the oldest of them has waited 30 s; new nodes
// are estimated by first fit, largest request first; of the pools the one that
// wastes least CPU and memory is scaled, one in each scan (expander least-waste); a
// node that has been empty for 10 minutes is removed, ten at once, never within 10
// minutes of a scale up; meanwhile it has a soft taint, ten nodes more at each scan.
// It does not move pods, since those of the trace are not evictable.
type clusterAutoscaler struct {
	unneeded map[string]time.Time
	grew     time.Time
}

const (
	gpuPodWait       = 30 * time.Second
	unneededFor      = 10 * time.Minute
	delayAfterAdd    = 10 * time.Minute
	removalsAtOnce   = 10
	softTaintsAtOnce = 10
)

// spare is what a node has free.
type spare struct {
	cpu, memory int64
	gpus        int
	free        []mig.Count
}

func (r *spare) take(p *plan.Pod, profile mig.Profile) bool {
	if p.CPUMilli > r.cpu || p.MemoryMi > r.memory || p.Demand.GPUs > r.gpus {
		return false
	}
	if len(p.Demand.MIG) > 0 {
		i := slices.IndexFunc(r.free, func(c mig.Count) bool { return c.Profile == profile && c.N > 0 })
		if i < 0 {
			return false
		}
		r.free[i].N--
	}
	r.cpu, r.memory, r.gpus = r.cpu-p.CPUMilli, r.memory-p.MemoryMi, r.gpus-p.Demand.GPUs
	return true
}

func freeOf(p *plan.Pool) spare {
	r := spare{cpu: p.Template.CPUMilli, memory: p.Template.MemoryMi}
	var l mig.Layout
	for i := range p.Template.GPUs {
		g := &p.Template.GPUs[i]
		if !g.MIG {
			r.gpus++
		}
		for _, in := range g.Instances {
			l = append(l, in.Placement)
		}
	}
	r.free = mig.Counts(l)
	return r
}

func (c *clusterAutoscaler) plan(s plan.Snapshot) plan.Plan {
	out := plan.Plan{At: s.Now}
	waiting := c.waiting(&s)
	if len(waiting) > 0 {
		if a, ok := c.scaleUp(&s, waiting); ok {
			c.grew = s.Now
			out.Actions = append(out.Actions, a)
		}
	}
	busy := map[string]bool{}
	for i := range s.Pods {
		busy[s.Pods[i].Node] = true
	}
	since := map[string]time.Time{}
	removals, tainted := 0, 0
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.SoftTainted != !busy[n.Name] && tainted < softTaintsAtOnce {
			tainted++
			verb := plan.SoftTaint
			if n.SoftTainted {
				verb = plan.RemoveSoftTaint
			}
			out.Actions = append(out.Actions, plan.Action{Verb: verb, Pool: n.Pool, Node: n.Name})
		}
		if busy[n.Name] {
			continue
		}
		since[n.Name] = s.Now
		if at, ok := c.unneeded[n.Name]; ok {
			since[n.Name] = at
		}
		if s.Now.Sub(since[n.Name]) >= unneededFor && s.Now.Sub(c.grew) >= delayAfterAdd && removals < removalsAtOnce {
			removals++
			out.Actions = append(out.Actions, plan.Action{Verb: plan.RemoveNode, Pool: n.Pool, Node: n.Name, Reason: plan.NodeEmpty})
		}
	}
	c.unneeded = since
	return out
}

// waiting are the pods that need a new node, largest first: those that do not fit
// the nodes on their way, once the oldest of them has waited long enough.
func (c *clusterAutoscaler) waiting(s *plan.Snapshot) []*plan.Pod {
	var pods []*plan.Pod
	for i := range s.Pods {
		if p := &s.Pods[i]; p.Node == "" {
			pods = append(pods, p)
		}
	}
	slices.SortStableFunc(pods, func(a, b *plan.Pod) int { return b.Demand.GPUs - a.Demand.GPUs })
	for i := range s.Pools {
		p := &s.Pools[i]
		pods, _ = fill(s, p, pods, p.Target-p.Size)
	}
	if !slices.ContainsFunc(pods, func(p *plan.Pod) bool { return s.Now.Sub(p.Created) >= gpuPodWait }) {
		return nil
	}
	return pods
}

// fill puts pods on at most as many new nodes of a pool, each on the first that it
// fits, and returns those left and the nodes used.
func fill(s *plan.Snapshot, p *plan.Pool, pods []*plan.Pod, most int) (left []*plan.Pod, used []spare) {
	for _, pod := range pods {
		profile, ok := profileOf(s, p, pod)
		if !ok {
			left = append(left, pod)
			continue
		}
		fits := false
		for i := 0; i < len(used) && !fits; i++ {
			fits = used[i].take(pod, profile)
		}
		if fits {
			continue
		}
		fresh := freeOf(p)
		if len(used) >= most || !fresh.take(pod, profile) {
			left = append(left, pod)
			continue
		}
		used = append(used, fresh)
	}
	return left, used
}

// profileOf is the profile that a pod's request means on a pool's GPUs; false
// where they have none such.
func profileOf(s *plan.Snapshot, p *plan.Pool, pod *plan.Pod) (mig.Profile, bool) {
	if len(pod.Demand.MIG) == 0 {
		return mig.Profile{}, true
	}
	t, ok := s.Tables.ForModel(p.Template.GPUs[0].Model.Name)
	if !ok {
		return mig.Profile{}, false
	}
	return t.Exact(pod.Demand.MIG[0].Name)
}

// scaleUp is the pool with the least waste, by the nodes that its pods need.
func (c *clusterAutoscaler) scaleUp(s *plan.Snapshot, waiting []*plan.Pod) (plan.Action, bool) {
	best, least, found := plan.Action{}, 0.0, false
	for i := range s.Pools {
		p := &s.Pools[i]
		_, used := fill(s, p, waiting, p.Max-p.Target)
		if len(used) == 0 {
			continue
		}
		waste := 0.0
		for _, r := range used {
			waste += float64(r.cpu)/float64(p.Template.CPUMilli) + float64(r.memory)/float64(p.Template.MemoryMi)
		}
		if waste /= float64(len(used)); !found || waste < least {
			best, least, found = plan.Action{Verb: plan.ScaleUp, Pool: p.Name, From: p.Target, To: p.Target + len(used)}, waste, true
		}
	}
	return best, found
}
