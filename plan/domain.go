package plan

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// maxDomains bounds the places that are tried for one gang.
const maxDomains = 32

// domain is a place that pods which must be near each other could share: a value
// for each label of their rules.
type domain struct {
	rules  []Rule
	values []string
	now    float64 // free capacity for members, in GPUs
	free   float64 // the same, with nodes that can be added and GPUs that can be repartitioned
	most   int     // all GPUs of its nodes and of those that can be added, free or not
}

// text is "zone=a", or "rack=r1, zone=a".
func (d *domain) text() string {
	parts := make([]string, len(d.rules))
	for i, r := range d.rules {
		parts[i] = r.Key + "=" + d.values[i]
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// inDomains is inOneDomain for members with different near groups. Consecutive members of the
// same near groups share one place; the next ones may have another. A member without near rules
// belongs to the run that it is in.
func (w *world) inDomains(g *gang, members []int, do func(i int) bool) (f failed, ok bool) {
	g.domains = nil
	ok = w.try(func() bool {
		for from := 0; from < len(members); {
			to, groups := from, ""
			for ; to < len(members); to++ {
				if of := nearGroup(w.pending[members[to]].pod); groups == "" {
					groups = of
				} else if of != "" && of != groups {
					break
				}
			}
			here, placed := w.inOneDomain(g, members[from:to], do)
			if f = (failed{f.done + here.done, here.verdict}); !placed {
				return false
			}
			from = to
		}
		return true
	})
	return f, ok
}

// inOneDomain is allOrNone for members that may have to be near each other. Where none of them
// has a place yet, it chooses the place before it serves them: the one where all of them together
// cost least. Otherwise the first member would choose the place, and the others might not fit
// there. Where two places need new nodes of pools of different priorities, priority decides: a
// place is as good as its pool of the lowest priority.
func (w *world) inOneDomain(g *gang, members []int, do func(i int) bool) (failed, bool) {
	domains := w.domainsOf(members)
	if len(domains) == 0 {
		return w.allOrNone(members, do)
	}
	best, least, priority := -1, 0.0, int64(noNode)
	furthest, most := 0, -1 // where none holds all of them
	for i := range domains {
		w.try(func() bool {
			before := w.serving.spent
			w.serving.lowest = noNode
			f, ok := w.allOrNoneIn(domains[i], members, do)
			if f.done > most {
				furthest, most = i, f.done
			}
			better := best < 0 || w.serving.spent-before < least
			if best >= 0 && w.serving.lowest != priority && w.serving.lowest != noNode && priority != noNode {
				better = w.serving.lowest > priority
			}
			if ok && better {
				best, least, priority = i, w.serving.spent-before, w.serving.lowest
			}
			return false
		})
		if best >= 0 && least <= 0 {
			break
		}
	}
	if best < 0 {
		best = furthest
		for _, i := range members { // the texts of the trials were about other places
			w.pending[i].kind.explained = false
		}
	}
	g.domains = append(g.domains, domains[best].text())
	return w.allOrNoneIn(domains[best], members, do)
}

// noNode is serving.lowest where no new or unclaimed node is used.
const noNode = math.MaxInt64

// allOrNoneIn is allOrNone in one place. Meanwhile a pod of the near group is assumed there, so
// that the first members must be there too.
func (w *world) allOrNoneIn(d *domain, members []int, do func(i int) bool) (f failed, ok bool) {
	t := w.topology
	for i, r := range d.rules {
		t.assumed[r] = d.values[i]
		t.rules[r].changes++
	}
	f, ok = w.allOrNone(members, do)
	for _, r := range d.rules {
		delete(t.assumed, r)
		t.rules[r].changes++
	}
	return f, ok
}

// domainsOf lists the places that the members could share, at most maxDomains. First come places that hold all members
// now, then those that hold them with nodes to add and GPUs to repartition; of both the tightest first, so that larger
// ones stay free for larger gangs. Last come the others, those with the most free capacity first. It is nil where the
// members need not be in one place, or where a pod of their group has a place already.
func (w *world) domainsOf(members []int) []*domain {
	k, need, alike := (*kind)(nil), 0.0, true
	for _, i := range members {
		other := w.pending[i].kind
		need, alike = need+other.eq, alike && w.pending[i].kind == w.pending[members[0]].kind
		if k == nil && len(other.pod.Near) > 0 {
			k = other
		}
	}
	if k == nil || len(members) < 2 {
		return nil
	}
	rules := nearRules(k.pod)
	if !nearItself(k.pod) || w.topology.anywhere(rules) {
		return nil
	}
	all := map[string]*domain{}
	values := make([]string, len(rules))
	of := func(at place) *domain {
		for i, r := range rules {
			var ok bool
			if values[i], ok = at.value(r.Key); !ok {
				return nil
			}
		}
		id := strings.Join(values, "\x00")
		if all[id] == nil {
			all[id] = &domain{rules: rules, values: slices.Clone(values)}
		}
		return all[id]
	}
	hosts := slices.ContainsFunc(k.pod.Near, func(r Rule) bool { return r.Key == hostnameLabel })
	worth := w.worthOf(k, alike)
	byHeap := map[int]*domain{} // unless it is about hosts, all nodes of a heap are in one place
	for _, n := range w.eachNode() {
		if n.tier == tierOut && !w.reopens(n) || !n.admits(k) {
			continue
		}
		heap := k.heapOf(n)
		d, known := byHeap[heap]
		if !known || hosts {
			d = of(n.place())
			byHeap[heap] = d
		}
		if d != nil {
			now := float64(w.models.fitting(k, &n.capacity)) * k.eq
			d.most, d.now, d.free = d.most+len(n.gpus()), d.now+now, d.free+max(now, w.repartitioned(k, n, worth))
		}
	}
	for _, p := range w.pools {
		if !p.fresh.admits(k) || p.Fixed || p.stop != "" {
			continue
		}
		more := p.Max - p.base - p.grown - p.later
		if d := of(w.nextPlace(p)); d != nil && more > 0 {
			d.most += more * len(p.Template.GPUs)
			d.free += float64(more*len(p.Template.GPUs)) * worth[p.index]
		}
	}
	rank := func(d *domain) (int, float64) {
		switch {
		case d.now > need-rounding:
			return 0, d.now
		case d.free > need-rounding:
			return 1, d.free
		}
		return 2, -d.free
	}
	compare := func(a, b *domain) int {
		first, x := rank(a)
		second, y := rank(b)
		return cmp.Or(cmp.Compare(first, second), cmp.Compare(x, y), slices.Compare(a.values, b.values))
	}
	var out []*domain
	for _, d := range all { // sorted below
		if float64(d.most) >= need {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, compare)
	return out[:min(len(out), maxDomains)]
}

// repartitioned is the most that members can have of a node's GPUs once these are repartitioned for them, in GPUs.
func (w *world) repartitioned(k *kind, n *nodeState, worth []float64) (sum float64) {
	if len(k.pod.Demand.MIG) == 0 {
		return 0
	}
	if _, ok := w.mayRepartition(k, n); ok {
		for _, c := range w.repartitionable(n) {
			sum += float64(c.alike) * worth[n.pool.index]
		}
	}
	return sum
}

// worthOf is, for each pool, the share of a GPU that members can have once it is repartitioned for
// them. It is 1 where they request no instances, or are not alike.
func (w *world) worthOf(k *kind, alike bool) []float64 {
	worth := make([]float64, len(w.pools))
	for i, p := range w.pools {
		if worth[i] = 1; alike && len(k.pod.Demand.MIG) > 0 {
			empty, _ := w.models.capacityFor(k, p)
			worth[i] = float64(w.models.fitting(k, &empty)) * k.eq / p.gpus()
		}
	}
	return worth
}

// rounding is more than the error of a sum of GPU equivalents.
const rounding = 1e-6

// fitting is how many pods of the kind fit the free capacity of one node.
func (ms *models) fitting(k *kind, free *capacity) int {
	switch {
	case ms.lacks(k, free) != "":
		return 0
	case slices.ContainsFunc(k.pod.Apart, func(r Apart) bool { return r.Key == hostnameLabel && k.in(r.Group) && !k.in(r.Except) }):
		return 1 // they exclude each other
	}
	r, n := free.clone(), 0
	for n < 4*maxGPUsOfNode && ms.lacks(k, &r) == "" {
		ms.take(k, &r)
		n++
	}
	return n
}
