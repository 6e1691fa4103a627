package plan

import (
	"fmt"
	"maps"
	"math/rand"
	"reflect"
	"slices"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/quota"
)

// remains is what a failed trial must not change. Caches (indices, splits,
// answers) may change; their effect is compared as a plan.
type remains struct {
	nodes       []nodeState
	pools       []poolState
	pending     []pending
	actions     []Action
	state       State
	evicted     int
	budgets     map[string]int
	evictedPods []string
	unserved    []int
	bounded     []bool
	used        map[string][2]quota.Amount
	topology    map[string]int
}

func remainsOf(w *world) remains {
	m := remains{pending: slices.Clone(w.pending), state: w.state, evicted: w.actions.evicted, budgets: maps.Clone(w.evictions.budgets),
		used: map[string][2]quota.Amount{}, topology: map[string]int{}}
	for i := range w.nodes {
		n := w.nodes[i]
		n.capacity = n.capacity.clone()
		n.free = slices.DeleteFunc(n.free, func(c mig.Count) bool { return c.N == 0 })
		n.derived, n.saved = nil, 0
		m.nodes = append(m.nodes, n)
	}
	for _, pool := range w.pools {
		p := *pool
		p.spare = slices.Clone(p.spare)
		m.pools = append(m.pools, p)
	}
	for _, a := range w.actions.list {
		a.For = slices.Clone(a.For)
		m.actions = append(m.actions, a)
	}
	for p, yes := range w.evictions.pods {
		if yes {
			m.evictedPods = append(m.evictedPods, p.Key())
		}
	}
	slices.Sort(m.evictedPods)
	for _, k := range w.kinds {
		m.unserved, m.bounded = append(m.unserved, k.unserved), append(m.bounded, k.bounded)
	}
	for _, t := range w.quotas.tenants {
		m.used[t.Name] = [2]quota.Amount{w.quotas.tree.Used(t.Name), w.quotas.tree.Total(t.Name)}
	}
	count := func(what string, counts map[string]int) {
		for value, n := range counts {
			if n != 0 {
				m.topology[what+" "+value] = n
			}
		}
	}
	for r, c := range w.topology.rules {
		count(fmt.Sprint("pods ", r), c.pods)
	}
	for _, b := range w.topology.barring {
		for value, all := range b.at {
			for _, one := range all {
				m.topology[fmt.Sprintf("barring %s=%s %v", b.key, value, one.rule)] = one.pods
			}
		}
	}
	return m
}

// RevertTrial serves some pending pods of a world and evicts some running ones in a trial, and reverts it. It returns
// the differences to before, in the state and in the plans made from both.
func RevertTrial(s Snapshot, policy Policy, r *rand.Rand) error {
	begun := func() *world {
		w := newWorld(s, policy)
		w.admit()
		w.placeNow()
		return w
	}
	w, untried := begun(), begun()
	before := remainsOf(w)
	w.try(func() bool {
		for i := range r.Intn(len(w.pending) + 1) {
			w.discountUnserved(i)
			p := w.touchPending(i)
			p.refused, p.reason = false, ""
			if w.reclaimLimit(&w.pending[i]) && w.chargeReadable(i) {
				w.serve(i, true)
			}
		}
		for _, p := range w.running {
			if p.node >= 0 && w.evictions.movable(p.pod) && r.Intn(4) == 0 {
				w.evict(p.node, p.pod, ReclaimIdle, "", "")
			}
		}
		return false
	})
	if why := underivable(w); why != "" {
		return fmt.Errorf("after a failed trial %s", why)
	}
	if after := remainsOf(w); !reflect.DeepEqual(before, after) {
		return fmt.Errorf("a failed trial changed the world: %s", difference(before, after))
	}
	for _, w := range []*world{w, untried} {
		w.placeRest(true)
		w.readmit()
		w.reclaimGuarantees()
		w.placeRest(false)
		w.prepare()
		w.scaleDown()
	}
	if got, want := w.plan().String(), untried.plan().String(); got != want {
		return fmt.Errorf("after a failed trial the plan is\n%s\nand without it\n%s", got, want)
	}
	return nil
}

// underivable returns a kind for which an index has another node than after the index is filled again, empty for none.
func underivable(w *world) string {
	for _, k := range w.kinds {
		usable, upcoming := w.tightest(k), w.soonest(k)
		k.usable, k.upcoming = index{}, index{}
		if again := w.tightest(k); again != usable {
			return fmt.Sprintf("%s: node %d is the tightest, %d when derived again", k.text, usable, again)
		}
		if again := w.soonest(k); again != upcoming {
			return fmt.Sprintf("%s: node %d is the soonest, %d when derived again", k.text, upcoming, again)
		}
	}
	return ""
}

// difference names the first field that differs.
func difference(a, b remains) string {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		f, g := x.Field(i), y.Field(i)
		name := x.Type().Field(i).Name
		if fmt.Sprintf("%+v", f) != fmt.Sprintf("%+v", g) {
			return fmt.Sprintf("%s\n%+v\n%+v", name, f, g)
		}
	}
	return "in a pointer"
}

// Retried is the number of gang members that a plan serves in trials of evictions.
func Retried(s Snapshot, p Policy) int {
	w := newWorld(s, p)
	w.decide()
	return w.serving.retried
}
