package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// unit is pending pods that are served together: one pod, or the members of a
// gang.
type unit struct {
	gang    *gang // nil for a pod by itself
	members []int // indices into pending, most urgent first
}

// gang is a group of pods of which at least min must run at the same time.
type gang struct {
	name    string // "namespace/name"
	min     int    // members that must run at the same time
	running int    // the number of runs
	runs    []*Pod // members that run and are not leaving
	members []int  // pending members, as indices into queue.pending
	reason  Reason // its verdict
	detail  string
	lacks   Reason   // why the first member that could not be served was not
	domains []string // the places chosen in this plan, in each of which members are near each other
}

// lacking is the number of pending members that must be served together.
func (g *gang) lacking() int { return max(g.min-g.running, 0) }

// formUnits groups the pending pods into units, and returns all gangs by name. running are the gangs' running pods.
// A gang has the rank of its most urgent member.
func (q *queue) formUnits(running []*Pod) (gangs []*gang) {
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
	for i := range q.pending {
		p := q.pending[i].pod
		if p.Gang == "" {
			q.units = append(q.units, unit{members: []int{i}})
			continue
		}
		g := of(p)
		if len(g.members) == 0 {
			q.units = append(q.units, unit{gang: g})
		}
		g.members = append(g.members, i)
	}
	for i := range q.units {
		if u := &q.units[i]; u.gang != nil {
			// Where the readable ones are enough, the gang does not depend on the others.
			u.members = u.gang.members
			q.order(u, func(i int) int { return min(len(q.pending[i].pod.Unreadable), 1) })
		}
	}
	for _, g := range found { // sorted below
		gangs = append(gangs, g)
	}
	slices.SortFunc(gangs, func(a, b *gang) int { return strings.Compare(a.name, b.name) })
	return gangs
}

// order sorts a gang's members by rank, and then the core by size, the largest first, which
// wastes least. Age does not count within the core, as all of it is served or none.
func (q *queue) order(u *unit, rank func(i int) int) {
	u.members = slices.Clone(u.members)
	slices.SortStableFunc(u.members, func(a, b int) int { return cmp.Compare(rank(a), rank(b)) })
	core, _ := u.core()
	slices.SortStableFunc(core, func(a, b int) int {
		return cmp.Compare(q.pending[b].kind.eq, q.pending[a].kind.eq)
	})
}

// core are the members that are served together or not at all, rest the others.
// Both are empty for a gang that has too few members to run.
func (u *unit) core() (core, rest []int) {
	if u.gang == nil {
		return nil, u.members
	}
	n := u.gang.lacking()
	if n > len(u.members) {
		return nil, nil
	}
	return u.members[:n], u.members[n:]
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
func (w *world) serveGang(u *unit) {
	g := u.gang
	var first failed
	var members []int // of the first trial
	var unserved []*kind
	for len(unserved) <= maxCores && w.prefer(u, unserved) {
		core, _ := u.core()
		f, ok := w.serveCore(u, core)
		if ok {
			w.gangServed(g, core)
			return
		}
		if members == nil {
			members, first = u.members, f
		}
		unserved = append(unserved, w.pending[core[f.done]].kind)
	}
	u.members = members
	core, _ := u.core()
	for _, i := range core {
		w.discountUnserved(i)
	}
	reason := GangWaits
	if first.reason == QuotaExceeded || w.hold != "" {
		reason = first.reason
	}
	if first.reason == PoolAtMax {
		w.keepCapacity(u, core[first.done])
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
func (w *world) prefer(u *unit, without []*kind) bool {
	lacking := u.gang.lacking()
	if len(u.members) == lacking {
		return len(without) == 0
	}
	rank, left := map[int]int{}, 0
	w.try(func() bool { // what one takes the next one cannot have
		for _, i := range u.members {
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
	w.order(u, func(i int) int { return rank[i] })
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
func (w *world) serveCore(u *unit, core []int) (f failed, ok bool) {
	w.serving.committing, w.serving.staging = true, w.mayStage(w.pending[core[0]].pod.Gang, len(core))
	defer func() { w.serving.committing, w.serving.staging, w.serving.rest = false, false, nil }()
	w.reclaimTogether(core, func() bool {
		f, ok = w.inDomains(u.gang, core, func(i int) bool {
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
func (w *world) keepCapacity(u *unit, failed int) {
	k := w.pending[failed].kind
	need := u.gang.min
	if core, _ := u.core(); len(k.pod.Near) > 0 {
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
				p.keptFor, p.kept = u.gang.name, w.pending[u.members[0]].pod.Priority
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
