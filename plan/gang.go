package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// gang is pending pods that are served together: a group of pods of which at least min must run at the same time, or,
// without a name, a pod by itself.
type gang struct {
	name    string // "namespace/name"
	min     int    // members that must run at the same time
	running int    // the number of runs
	runs    []*Pod // members that run and are not leaving
	members []int  // pending members, as indices into queue.pending: most urgent first, or as order sorts them
	reason  Reason // its verdict
	detail  string
	lacks   Reason   // why the first member that could not be served was not
	domains []string // the places chosen in this plan, in each of which members are near each other
}

// lacking is the number of pending members that must be served together.
func (g *gang) lacking() int { return max(g.min-g.running, 0) }

// formGangs groups the pending pods, and returns all gangs that have a name, by it. running are the gangs' running pods.
// A gang has the rank of its most urgent member.
func (q *queue) formGangs(running []*Pod) (named []*gang) {
	found := map[string]*gang{}
	of := func(p *Pod) *gang {
		g := found[p.Gang]
		if g == nil {
			g = &gang{name: p.Gang}
			found[p.Gang] = g
		}
		g.min = max(g.min, p.GangMin)
		return g
	}
	for _, p := range running {
		if g := of(p); !p.Leaving {
			g.running++
			g.runs = append(g.runs, p)
		}
	}
	alone := make([]gang, len(q.pending))
	for i := range q.pending {
		g := &alone[i]
		if p := q.pending[i].pod; p.Gang != "" {
			g = of(p)
		}
		if g.members = append(g.members, i); len(g.members) == 1 {
			q.gangs = append(q.gangs, g)
		}
	}
	for _, g := range q.gangs {
		if g.name != "" {
			// Where the readable ones are enough, the gang does not depend on the others.
			q.order(g, func(i int) int { return min(len(q.pending[i].pod.Unreadable), 1) })
		}
	}
	for _, g := range found { // sorted below
		named = append(named, g)
	}
	slices.SortFunc(named, func(a, b *gang) int { return strings.Compare(a.name, b.name) })
	return named
}

// order sorts a gang's members by rank, and then the core by size, the largest first, which
// wastes least. Age does not count within the core, as all of it is served or none.
func (q *queue) order(g *gang, rank func(i int) int) {
	g.members = slices.Clone(g.members)
	slices.SortStableFunc(g.members, func(a, b int) int { return cmp.Compare(rank(a), rank(b)) })
	core, _ := g.core()
	slices.SortStableFunc(core, func(a, b int) int {
		return cmp.Compare(q.pending[b].kind.eq, q.pending[a].kind.eq)
	})
}

// core are the members that are served together or not at all, rest the others.
// Both are nil for a gang that has too few members to run.
func (g *gang) core() (core, rest []int) {
	n := g.lacking()
	if n > len(g.members) {
		return nil, nil
	}
	return g.members[:n], g.members[n:]
}

// failed is the first member that could not be served: how many were served before it, and why
// it was not.
type failed struct {
	done int
	verdict
}

// allOrNone applies do to all members, or to none.
func (w *world) allOrNone(members []int, do func(i int) bool) (f failed, ok bool) {
	ok = w.try(func() bool {
		for _, i := range members {
			w.touchPending(i)
			if !do(i) {
				f.verdict = verdict{w.pending[i].reason, w.pending[i].detail}
				return false
			}
			f.done++
		}
		return true
	})
	return f, ok
}

// leavePending sets the reason of all members of a gang that is not served.
func (q *queue) leavePending(g *gang, members []int, reason Reason, detail string) {
	g.reason, g.detail = reason, detail
	for _, i := range members {
		q.pending[i].reason, q.pending[i].detail = reason, g.name+" "+detail
	}
}

// maxCores bounds the further combinations of members that are tried for one gang.
const maxCores = 8

// serveGang serves the members a gang lacks, all or none. Where a member cannot be
// served and there are enough members of other kinds, those are tried instead.
func (w *world) serveGang(g *gang) {
	var first failed
	var members []int // of the first trial
	var unserved []*kind
	for len(unserved) <= maxCores && w.prefer(g, unserved) {
		core, _ := g.core()
		f, ok := w.serveCore(g, core)
		if ok {
			w.gangServed(g, core)
			return
		}
		if members == nil {
			members, first = g.members, f
		}
		unserved = append(unserved, w.pending[core[f.done]].kind)
	}
	g.members = members
	core, _ := g.core()
	for _, i := range core {
		w.discountUnserved(i)
	}
	reason := GangWaits
	if first.reason == QuotaExceeded || w.hold != "" {
		reason = first.reason
	}
	if first.reason == PoolAtMax {
		w.keepCapacity(g, core[first.done])
	}
	p := w.pending[core[first.done]].pod
	g.lacks = first.reason
	near := ""
	if len(p.Near) > 0 {
		near = " in one " + p.Near[0].Key
	}
	text := fmt.Sprintf("has capacity for %d of %d members%s; %s: %s", first.done+g.running, g.min, near, p.Key(), first.reason)
	if first.detail != "" {
		text += ": " + first.detail
	}
	w.leavePending(g, core, reason, text)
}

// prefer orders the members of a gang that has more of them than it lacks. First come those that a free or an upcoming
// node serves, so that no action is taken for others in their place. Last come those that are decided already and those
// of the kinds in without. Where there are such kinds, it is false if too few other members are left.
func (w *world) prefer(g *gang, without []*kind) bool {
	lacking := g.lacking()
	if len(g.members) == lacking {
		return len(without) == 0
	}
	rank, left := map[int]int{}, 0
	w.try(func() bool { // what one takes the next one cannot have
		for _, i := range g.members {
			p, k := &w.pending[i], w.pending[i].kind
			n := w.tightest(k)
			if n < 0 {
				n = w.waitsFor(p)
			}
			switch {
			case p.served:
			case !p.undecided() || slices.Contains(without, p.kind):
				rank[i] = 2
			case n < 0:
				rank[i] = 1
			default:
				w.assign(k, n)
			}
			if rank[i] < 2 {
				left++
			}
		}
		return false
	})
	w.order(g, func(i int) int { return rank[i] })
	return len(without) == 0 || left >= lacking
}

func (w *world) gangServed(g *gang, core []int) {
	g.reason, g.detail = GangServed, w.gangText(g, core)
	for _, p := range w.evictions.later {
		if slices.ContainsFunc(core, func(i int) bool { return w.pending[i].pod.Key() == p }) {
			w.fail(stageOf(g.name))
			return
		}
	}
}

// stageOf is the name under which State.Failures counts the reconciles that evict only a part of
// the pods that have to leave for a gang.
func stageOf(gang string) string { return "gang " + gang }

// mayStage reports whether the evictions for a gang may be spread over several reconciles. Within
// an hour it allows as many reconciles as members of the gang need. Without that bound evictions
// would never end where a scheduler gives the capacity to other pods before all of it is free.
func (cond *conditions) mayStage(gang string, members int) bool {
	most := cond.policy.MaxEvictionsPerReconcile
	if most <= 0 || cond.policy.MaxActionsPerReconcile <= 0 {
		return false
	}
	f := cond.state.Failures[stageOf(gang)]
	return f.Count < (members+most-1)/most || cond.now.Sub(f.At) >= longestPause
}

// serveCore serves members together. What a bound delays is reserved for them.
func (w *world) serveCore(g *gang, core []int) (f failed, ok bool) {
	w.serving.committing, w.serving.staging = true, w.mayStage(g.name, len(core))
	defer func() { w.serving.committing, w.serving.staging, w.serving.rest = false, false, nil }()
	w.reclaimTogether(core, func() bool {
		f, ok = w.inDomains(g, core, func(i int) bool {
			w.discountUnserved(i)
			w.serving.rest = w.demandOf(core[slices.Index(core, i)+1:])
			return w.serve(i, true)
		})
		return ok
	})
	return f, ok
}

// keepCapacity keeps the nodes that pools can still add for a gang: less urgent pods get none of
// them (CapacityKept). Otherwise each node that becomes available would go to the first pod that
// needs one. Pools are kept only where they could serve the gang if they were empty; for members
// that must be near each other, the pools of one place. failed is the member that was not served.
func (w *world) keepCapacity(g *gang, failed int) {
	k := w.pending[failed].kind
	need := g.min
	if core, _ := g.core(); len(k.pod.Near) > 0 {
		need = len(slices.DeleteFunc(slices.Clone(core), func(i int) bool { return nearGroup(w.pending[i].pod) != nearGroup(k.pod) }))
	}
	members, pools := map[string]int{}, map[string][]*poolState{} // by place
	for _, p := range w.pools {
		if p.Fixed || p.stop != "" || w.misfit(k, p) != "" {
			continue
		}
		at := ""
		for _, r := range k.pod.Near {
			at += "\x00" + p.Template.Labels[r.Key]
		}
		empty, _ := w.models.capacityFor(k, p)
		members[at] += max(p.Max, 0) * w.models.fitting(k, &empty)
		pools[at] = append(pools[at], p)
	}
	for at, most := range members { // the order has no effect
		if most < need {
			continue
		}
		for _, p := range pools[at] {
			if p.keptFor == "" { // the most urgent gang comes first
				p = w.touchPool(p)
				p.keptFor, p.kept = g.name, w.pending[g.members[0]].pod.Priority
			}
		}
	}
}

// gangText states how a gang is served: "8 of 8: 5 WaitScheduler, 3 WaitUpcomingNode".
func (q *queue) gangText(g *gang, core []int) string {
	var reasons []Reason
	n := map[Reason]int{}
	for _, i := range core {
		r := q.pending[i].reason
		if n[r]++; n[r] == 1 {
			reasons = append(reasons, r)
		}
	}
	parts := make([]string, len(reasons))
	for i, r := range reasons {
		parts[i] = fmt.Sprintf("%d %s", n[r], r)
	}
	if g.running > 0 {
		parts = append(parts, fmt.Sprintf("%d Running", g.running))
	}
	text := fmt.Sprintf("%d of %d: %s", g.running+len(core), g.min, strings.Join(parts, ", "))
	if len(g.domains) > 0 {
		text += "; in " + strings.Join(g.domains[:min(len(g.domains), maxPlacesText)], " and in ")
	}
	return text
}

// maxPlacesText bounds the places that a text names.
const maxPlacesText = 4

func (w *world) gangVerdict(g *gang) Verdict {
	v := Verdict{Kind: KindGang, Subject: g.name, Reason: g.reason, Detail: g.detail}
	switch {
	case v.Reason != "":
	case g.lacking() == 0:
		v.Reason, v.Detail = GangRunning, fmt.Sprintf("%d of %d", g.running, g.min)
		if evicted := g.running - w.evictions.left(g); evicted > 0 {
			v.Detail += fmt.Sprintf(", %d of them evicted", evicted)
		}
	default:
		v.Reason, v.Detail = GangIncomplete, fmt.Sprintf("%d of %d members exist", g.running+len(g.members), g.min)
	}
	return v
}

func (e *evictions) gangNamed(name string) *gang {
	i, ok := slices.BinarySearchFunc(e.gangs, name, func(g *gang, n string) int { return strings.Compare(g.name, n) })
	if !ok || name == "" {
		return nil
	}
	return e.gangs[i]
}
