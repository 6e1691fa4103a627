package plan

import (
	"cmp"
	"fmt"
	"math"
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
	name    string
	min     int
	running int
	runs    []*Pod // running and not leaving
	members []int  // pending
	reason  Reason
	detail  string
	lacks   Reason   // why the member that could not be served was not
	places  []string // in which its members are near each other, chosen in this plan
}

// lacking is the number of pending members that must be served together.
func (g *gang) lacking() int { return max(g.min-g.running, 0) }

// formUnits collects gangs. A gang has the rank of its most urgent member.
func (w *world) formUnits() {
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
	for _, p := range w.ganged {
		if g := of(p); !p.Leaving {
			g.running++
			g.runs = append(g.runs, p)
		}
	}
	for i := range w.pending {
		p := w.pending[i].pod
		if p.Gang == "" {
			w.units = append(w.units, unit{members: []int{i}})
			continue
		}
		g := of(p)
		if len(g.members) == 0 {
			w.units = append(w.units, unit{gang: g})
		}
		g.members = append(g.members, i)
	}
	for i := range w.units {
		if u := &w.units[i]; u.gang != nil {
			// Where the readable ones are enough, the gang does not depend on the others.
			u.members = u.gang.members
			w.order(u, func(i int) bool { return w.pending[i].pod.Unreadable != "" })
		}
	}
	for _, g := range found { // sorted below
		w.gangs = append(w.gangs, g)
	}
	slices.SortFunc(w.gangs, func(a, b *gang) int { return strings.Compare(a.name, b.name) })
}

// order moves some of a gang's members behind the others. All of the core are served or none,
// so that their age does not count there: the largest first waste least.
func (w *world) order(u *unit, behind func(i int) bool) {
	u.members = slices.Clone(u.members)
	slices.SortStableFunc(u.members, func(a, b int) int { return last(behind(a), behind(b)) })
	core, _ := u.core()
	slices.SortStableFunc(core, func(a, b int) int {
		return cmp.Compare(w.kinds[w.pending[b].kind].eq, w.kinds[w.pending[a].kind].eq)
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

// failed is how many members were served before one that was not, and why it was
// not.
type failed struct {
	done int
	verdict
}

// together applies do to all members, or to none.
func (w *world) together(members []int, do func(i int) bool) (f failed, ok bool) {
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
func (w *world) leavePending(g *gang, members []int, reason Reason, detail string) {
	g.reason, g.detail = reason, detail
	for _, i := range members {
		w.pending[i].reason, w.pending[i].detail = reason, g.name+" "+detail
	}
}

// serveGang serves the members a gang lacks, all or none. Where a member cannot be
// served and there are enough members of other kinds, those are tried instead.
func (w *world) serveGang(u *unit) {
	g := u.gang
	if len(u.members) > g.lacking() { // those come first for which a node is free or upcoming: no action serves others in their place
		w.order(u, func(i int) bool {
			p, k := &w.pending[i], &w.kinds[w.pending[i].kind]
			return !p.served && (!p.undecided() || w.tightest(k) < 0 && w.soonest(k) < 0)
		})
	}
	core, _ := u.core()
	f, ok := w.serveCore(u, core)
	if !ok && !w.serveOthers(u, core[f.done]) {
		for _, i := range core {
			w.discountUnserved(i)
		}
		reason := GangWaits
		if f.reason == QuotaExceeded || w.hold != "" {
			reason = f.reason
		}
		if f.reason == PoolAtMax {
			w.keepCapacity(u, core[f.done])
		}
		p := w.pending[core[f.done]].pod
		g.lacks = f.reason
		near := ""
		if len(p.Near) > 0 {
			near = " in one " + p.Near[0].Key
		}
		w.leavePending(g, core, reason, fmt.Sprintf("has capacity for %d of %d%s; for %s: %s: %s", f.done+g.running, g.min, near, p.Key(), f.reason, f.detail))
		return
	}
	core, _ = u.core()
	w.gangServed(g, core)
}

func (w *world) gangServed(g *gang, core []int) {
	g.reason, g.detail = GangServed, w.gangText(g, core)
	for _, p := range w.evictedLater {
		if slices.ContainsFunc(core, func(i int) bool { return w.pending[i].pod.Key() == p }) {
			w.fail(stageOf(g.name))
			return
		}
	}
}

// stageOf is the name under which reconciles that evict a part of what a gang
// needs are recorded.
func stageOf(gang string) string { return "gang " + gang }

// mayStage reports whether evictions for a gang may be spread over reconciles: as
// many in an hour as it needs. Where a scheduler gives the capacity to others
// before all of it is free, evictions would go on without end.
func (w *world) mayStage(gang string, members int) bool {
	most := w.policy.MaxEvictionsPerReconcile
	if most <= 0 {
		return false
	}
	f := w.state.Failures[stageOf(gang)]
	return f.Count < (members+most-1)/most || w.now.Sub(f.At) >= longestPause
}

// serveCore serves members together. What a bound delays is reserved for them.
func (w *world) serveCore(u *unit, core []int) (f failed, ok bool) {
	w.committing, w.staging = true, w.mayStage(w.pending[core[0]].pod.Gang, len(core))
	defer func() { w.committing, w.staging, w.rest = false, false, nil }()
	w.reclaimTogether(core, func() float64 {
		f, ok = w.inPlaces(u.gang, core, func(i int) bool {
			w.discountUnserved(i)
			w.rest = w.demandOf(core[slices.Index(core, i)+1:])
			return w.serve(i, true)
		})
		if !ok {
			return math.Inf(1)
		}
		return 0
	})
	return f, ok
}

// keepCapacity keeps the free capacity of pools that a gang waits for from less urgent pods,
// where the pools could serve the gang if nothing else used them: otherwise each
// node that becomes available would go to the first pod that needs one. Members that must
// be near each other need the pools of one place.
func (w *world) keepCapacity(u *unit, failed int) {
	k := &w.kinds[w.pending[failed].kind]
	need := u.gang.min
	if core, _ := u.core(); len(k.pod.Near) > 0 {
		need = len(slices.DeleteFunc(slices.Clone(core), func(i int) bool { return w.nearGroups(i) != nearGroup(k.pod) }))
	}
	members, pools := map[string]int{}, map[string][]int{} // by place
	for j := range w.pools {
		p := &w.pools[j]
		if p.Fixed || p.stop != "" || w.misfit(k, p) != "" {
			continue
		}
		nodes, at := max(p.Max, 0), ""
		for _, r := range k.pod.Near {
			at += "\x00" + p.Template.Labels[r.Key]
			if r.Key == hostnameLabel {
				nodes, at = min(nodes, 1), at+p.Name
			}
		}
		members[at] += nodes * w.fitting(k, &p.empty)
		pools[at] = append(pools[at], j)
	}
	for at, most := range members { // the order has no effect
		if most < need {
			continue
		}
		for _, j := range pools[at] {
			p := w.touchPool(j)
			if p.keptFor == "" { // the most urgent gang comes first
				p.keptFor, p.kept = u.gang.name, w.pending[u.members[0]].pod.Priority
			}
		}
	}
}

// maxCores bounds the combinations of members that are tried for one gang.
const maxCores = 8

// serveOthers serves a gang without the kinds of members that cannot be served,
// beginning with that of the member that failed first. Where that fails too, nothing
// changes.
func (w *world) serveOthers(u *unit, member int) bool {
	members, kinds := u.members, []int(nil)
	for range maxCores {
		kinds = append(kinds, w.pending[member].kind)
		if !w.regroup(u, kinds) {
			break
		}
		core, _ := u.core()
		f, ok := w.serveCore(u, core)
		if ok {
			return true
		}
		member = core[f.done]
	}
	u.members = members
	return false
}

// regroup moves members of some kinds, and those already decided, behind the
// others; false where the others are too few.
func (w *world) regroup(u *unit, kinds []int) bool {
	left := 0
	useless := func(i int) bool { return slices.Contains(kinds, w.pending[i].kind) || !w.pending[i].undecided() }
	for _, i := range u.members {
		if !useless(i) {
			left++
		}
	}
	if left < u.gang.lacking() {
		return false
	}
	w.order(u, useless)
	return true
}

// gangText states how a gang is served: "8 of 8: 5 WaitScheduler, 3 WaitUpcomingNode".
func (w *world) gangText(g *gang, core []int) string {
	var reasons []Reason
	n := map[Reason]int{}
	for _, i := range core {
		r := w.pending[i].reason
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
	if len(g.places) > 0 {
		text += "; in " + strings.Join(g.places[:min(len(g.places), maxPlacesText)], " and in ")
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
		if evicted := g.running - w.left(g); evicted > 0 {
			v.Detail += fmt.Sprintf(", %d of them evicted", evicted)
		}
	default:
		v.Reason, v.Detail = GangIncomplete, fmt.Sprintf("%d of %d members exist", g.running+len(g.members), g.min)
	}
	return v
}
