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
	for _, p := range w.running {
		if p.Gang == "" {
			continue
		}
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
		if g := w.units[i].gang; g != nil {
			w.units[i].members = w.readableFirst(g.members)
		}
	}
	for _, g := range found { // sorted below
		w.gangs = append(w.gangs, g)
	}
	slices.SortFunc(w.gangs, func(a, b *gang) int { return strings.Compare(a.name, b.name) })
}

// readableFirst moves members with an unreadable demand behind the others:
// where the rest is enough, the gang does not depend on them.
func (w *world) readableFirst(members []int) []int {
	return w.behind(members, func(i int) bool { return w.pending[i].pod.Unreadable != "" })
}

// behind moves some of the members behind the others, in the same order
// otherwise.
func (w *world) behind(members []int, some func(i int) bool) []int {
	first, last := make([]int, 0, len(members)), []int(nil)
	for _, i := range members {
		if some(i) {
			last = append(last, i)
		} else {
			first = append(first, i)
		}
	}
	return append(first, last...)
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

// together applies do to all members, or to none. It returns how many
// succeeded.
func (w *world) together(members []int, do func(i int) bool) (int, bool) {
	done, why := 0, verdict{}
	ok := w.try(func() bool {
		for _, i := range members {
			w.touchPending(i)
			if !do(i) {
				why = verdict{w.pending[i].reason, w.pending[i].detail}
				return false
			}
			done++
		}
		return true
	})
	if !ok { // the member that failed keeps its reason
		p := &w.pending[members[done]]
		p.reason, p.detail = why.reason, why.detail
	}
	return done, ok
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
	core, _ := u.core()
	placed, ok := w.serveCore(core)
	if !ok && !w.serveOthers(u, core[placed]) {
		for _, i := range core {
			w.discountUnserved(i)
		}
		p := w.pending[core[placed]]
		reason := GangWaits
		if p.reason == QuotaExceeded || w.hold != "" {
			reason = p.reason
		}
		if p.reason == PoolAtMax {
			w.keepCapacity(u, core[placed])
		}
		w.leavePending(g, core, reason, fmt.Sprintf("has capacity for %d of %d; for %s: %s: %s", placed+g.running, g.min, p.pod.Key(), p.reason, p.detail))
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
	f := w.failure(stageOf(gang))
	return f.Count < (members+most-1)/most || w.now.Sub(f.At) >= longestPause
}

// serveCore serves members together. What a bound delays is reserved for them.
func (w *world) serveCore(core []int) (placed int, ok bool) {
	w.committing, w.staging = true, w.mayStage(w.pending[core[0]].pod.Gang, len(core))
	defer func() { w.committing, w.staging = false, false }()
	return w.inOnePlace(core, func(i int) bool {
		w.discountUnserved(i)
		return w.serve(i, true)
	})
}

// keepCapacity keeps the free capacity of pools that a gang waits for from less urgent pods,
// where the pools could serve the gang if nothing else used them: otherwise each
// node that becomes available would go to the first pod that needs one.
func (w *world) keepCapacity(u *unit, failed int) {
	k := &w.kinds[w.pending[failed].kind]
	var pools []int
	members := 0
	for j := range w.pools {
		if p := &w.pools[j]; !p.Fixed && p.stop == "" && w.misfit(k, p) == "" {
			pools = append(pools, j)
			members += max(p.Max, 0) * w.fitsNew(k, p)
		}
	}
	if members < u.gang.min {
		return
	}
	for _, j := range pools {
		p := w.touchPool(j)
		if urgent := w.pending[u.members[0]].pod.Priority; p.keptFor == "" || urgent > p.kept {
			p.keptFor, p.kept = u.gang.name, urgent
		}
	}
}

// maxCores bounds the combinations of members that are tried for one gang.
const maxCores = 8

// elsewhere are reasons that need not apply to members of another kind.
var elsewhere = []Reason{NoPoolFits, RepartitionExhausted, PoolAtMax}

// serveOthers serves a gang without the kinds of members that cannot be served,
// beginning with the member that failed first. Where that fails too, nothing
// changes.
func (w *world) serveOthers(u *unit, failed int) bool {
	members, kinds, tried := u.members, []int(nil), []int(nil)
	for range maxCores {
		if !slices.Contains(elsewhere, w.pending[failed].reason) {
			break
		}
		kinds = append(kinds, w.pending[failed].kind)
		if !w.regroup(u, kinds) {
			break
		}
		core, _ := u.core()
		placed, ok := w.serveCore(core)
		if ok {
			return true
		}
		failed = core[placed]
		tried = append(tried, failed)
	}
	u.members = members
	for _, i := range tried {
		w.pending[i].reason, w.pending[i].detail = "", ""
	}
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
	u.members = w.behind(u.members, useless)
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
	return fmt.Sprintf("%d of %d: %s", g.running+len(core), g.min, strings.Join(parts, ", "))
}

func (w *world) gangVerdict(g *gang) Verdict {
	v := Verdict{Kind: KindGang, Subject: g.name, Reason: g.reason, Detail: g.detail}
	switch {
	case v.Reason != "":
	case g.lacking() == 0:
		v.Reason, v.Detail = GangRunning, fmt.Sprintf("%d of %d", g.running, g.min)
	default:
		v.Reason, v.Detail = GangIncomplete, fmt.Sprintf("%d of %d members exist", g.running+len(g.members), g.min)
	}
	return v
}

// maxDomains bounds the places that are tried for one gang.
const maxDomains = 32

// domain is a place that pods which must be near each other could share: a value
// for each label of their rules.
type domain struct {
	group  *affinityGroup
	keys   []string
	values []string
	free   int // slices that are free, and of nodes that can be added
	most   int // GPUs that are there or can be added
}

// inOnePlace is together for members that may have to be near each other and of
// which none is anywhere yet: the place is chosen before the members, the one in
// which all of them cost least; between two that need new nodes the pools' lowest
// priority comes first. Otherwise the first member would choose it, and
// the others might not fit.
func (w *world) inOnePlace(members []int, do func(i int) bool) (int, bool) {
	domains := w.domainsOf(members)
	if len(domains) == 0 {
		return w.together(members, do)
	}
	best, least, priority := -1, 0.0, int64(noNode)
	for i := range domains {
		w.try(func() bool {
			before := w.spent
			w.lowest = noNode
			_, ok := w.togetherIn(&domains[i], members, do)
			better := best < 0 || w.spent-before < least
			if best >= 0 && w.lowest != priority && w.lowest != noNode && priority != noNode {
				better = w.lowest > priority
			}
			if ok && better {
				best, least, priority = i, w.spent-before, w.lowest
			}
			return false
		})
		if best >= 0 && least <= 0 {
			break
		}
	}
	if best < 0 {
		return w.togetherIn(&domains[0], members, do)
	}
	return w.togetherIn(&domains[best], members, do)
}

// noNode is the lowest priority where no new node is used.
const noNode = math.MaxInt64

// togetherIn is together in one place: a pod of the group is assumed there until
// the members are.
func (w *world) togetherIn(d *domain, members []int, do func(i int) bool) (done int, ok bool) {
	assume := func(by int) {
		for i, key := range d.keys {
			d.group.add(key, d.values[i], by)
		}
	}
	assume(1)
	done, ok = w.together(members, do)
	assume(-1)
	return done, ok
}

// domainsOf are the places that the members could share, those with the most free capacity first;
// none where they need not be in one place or where one of their group is.
func (w *world) domainsOf(members []int) []domain {
	k, need := (*kind)(nil), 0.0
	for _, i := range members {
		other := &w.kinds[w.pending[i].kind]
		need += other.eq
		if k == nil && len(other.pod.Near) > 0 {
			k = other
		}
	}
	if k == nil || len(members) < 2 {
		return nil
	}
	group := w.topology.near[affinityGroupOf(k.pod)]
	if group == nil || !group.has(k.pod) || group.anywhere(k.pod) {
		return nil
	}
	all := map[string]*domain{}
	of := func(labels map[string]string, name string) *domain {
		d := domain{group: group}
		id := ""
		for _, r := range k.pod.Near {
			v, ok := placeOf(labels, name, r.Key)
			if !ok {
				return nil
			}
			d.keys, d.values = append(d.keys, r.Key), append(d.values, v)
			id += "\x00" + v
		}
		if all[id] == nil {
			all[id] = &d
		}
		return all[id]
	}
	for i := range w.nodes {
		n := &w.nodes[i]
		if n.tier == tierOut && !slices.Contains(w.reopenable, i) || !w.admits(k, n) {
			continue
		}
		labels, _ := w.labelsAndTaints(n)
		if d := of(labels, n.Node.Name); d != nil {
			d.most += len(n.gpus())
			d.free += n.freeSlices()
		}
	}
	for i := range w.pools {
		p := &w.pools[i]
		if !k.admitsNew(p) || p.Fixed || p.stop != "" || slices.ContainsFunc(k.pod.Near, func(r Rule) bool { return w.isHost(r.Key) }) {
			continue
		}
		if d, more := of(p.Template.Labels, ""), p.Max-p.base-p.grown-p.later; d != nil && more > 0 {
			d.most += more * len(p.Template.GPUs)
			d.free += more * len(p.Template.GPUs) * gpuSlices
		}
	}
	var out []domain
	for _, d := range all { // sorted below
		if float64(d.most) >= need {
			out = append(out, *d)
		}
	}
	slices.SortFunc(out, func(a, b domain) int { return cmp.Or(cmp.Compare(b.free, a.free), slices.Compare(a.values, b.values)) })
	return out[:min(len(out), maxDomains)]
}
