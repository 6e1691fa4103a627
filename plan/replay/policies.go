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
	jobs  []job // with what each requests under this policy
	// decider makes a decider for one run, which may keep state.
	decider func() decider
	// scan is the least time between two plans.
	scan time.Duration
}

// decider makes plans. again reports whether to call plan again even if nothing
// happens.
type decider interface {
	plan(s plan.Snapshot) plan.Plan
	again(s *plan.Snapshot) bool
}

// production is plan.Make with its default policy.
type production struct{}

func (production) plan(s plan.Snapshot) plan.Plan { return plan.Make(s, plan.DefaultPolicy()) }

// again is true while pods are pending, since a guardrail may have stopped the plan.
func (production) again(s *plan.Snapshot) bool { return len(pendingPods(s)) > 0 }

// ours is plan.Make with its default policy over two pools: whole GPUs, and MIG
// GPUs that may be repartitioned, with the pools' defaults for the rest. A second policy
// has no MIG pool: pods that request MIG instances take whole GPUs. Where no pod requests
// an instance, there is one policy, without MIG.
func (t *trace) ours() []policy {
	decide := func() decider { return production{} }
	scan := t.options.Interval
	whole := t.pools("whole", nil)
	boot := t.filled(t.used(), mig.Profile{})
	if len(boot) == 0 {
		return []policy{{"ours", whole, t.jobs, decide, scan}}
	}
	both := slices.Clone(whole)
	for _, p := range t.pools("mig", boot) {
		p.MIG = plan.PoolMIG{Repartition: true, KeepsBusy: t.options.Agent, IdleAfter: time.Minute, Duration: t.options.Repartition}
		both = append(both, p)
	}
	return []policy{{"ours", both, t.jobs, decide, scan}, {"ours, whole GPUs", whole, t.wholeJobs(), decide, scan}}
}

// wholeJobs returns the jobs, with a whole GPU in place of each MIG instance.
func (t *trace) wholeJobs() []job {
	jobs := slices.Clone(t.jobs)
	for i := range jobs {
		jobs[i].profile = mig.Profile{}
	}
	return jobs
}

// used are the profiles that jobs request, smallest first.
func (t *trace) used() []mig.Profile {
	var all []mig.Profile
	for _, j := range t.jobs {
		if j.profile.Compute > 0 && !slices.Contains(all, j.profile) {
			all = append(all, j.profile)
		}
	}
	slices.SortFunc(all, mig.Profile.Compare)
	return all
}

// filled returns a layout with as many instances of first as a GPU takes, then as many
// as fit beside them of the other profiles, largest first.
func (t *trace) filled(of []mig.Profile, first mig.Profile) mig.Layout {
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

// fixed returns policies whose layouts never change:
//   - Whole GPUs for all pods.
//   - For each profile in use, one MIG pool whose layout is filled with that profile
//     first. A pod requests the smallest instance of this layout that is enough for it, or
//     a whole GPU.
//   - A pool for each profile in use.
func (t *trace) fixed(kind string, decide func() decider, scan time.Duration) []policy {
	whole := t.pools("whole", nil)
	one := func(name string, pools []plan.Pool, jobs []job) policy {
		return policy{kind + ", " + name, pools, jobs, decide, scan}
	}
	all := []policy{one("whole GPUs", whole, t.wholeJobs())}
	each := slices.Clone(whole)
	for _, p := range t.used() {
		l, name := t.filled(t.used(), p), t.table.Name(p)
		each = append(each, t.pools("mig-"+name, l)...)
		var has []mig.Profile
		for _, c := range mig.Counts(l) {
			has = append(has, c.Profile)
		}
		jobs := slices.Clone(t.jobs)
		for i := range jobs {
			if jobs[i].profile.Compute > 0 {
				jobs[i].profile = t.smallest(jobs[i].profile.Compute, jobs[i].profile.Memory, has)
			}
		}
		all = append(all, one(t.table.Format(l), slices.Concat(whole, t.pools("mig-"+name, l)), jobs))
	}
	if len(each) > len(whole) {
		all = append(all, one("a pool for each profile", each, t.jobs))
	}
	return all
}
