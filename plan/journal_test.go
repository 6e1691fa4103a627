package plan

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/quota"
	"pgregory.net/rapid"
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
	m := remains{pending: slices.Clone(w.pending), state: w.state, evicted: w.evicted, budgets: maps.Clone(w.budgets),
		used: map[string][2]quota.Amount{}, topology: map[string]int{}}
	for i := range w.nodes {
		n := w.nodes[i]
		n.capacity, n.repartition = n.capacity.clone(), slices.Clone(n.repartition)
		n.free = slices.DeleteFunc(n.free, func(c mig.Count) bool { return c.N == 0 })
		n.derived, n.saved = nil, 0
		m.nodes = append(m.nodes, n)
	}
	for _, p := range w.pools {
		p.spare = slices.Clone(p.spare)
		m.pools = append(m.pools, p)
	}
	for _, a := range w.actions {
		a.For = slices.Clone(a.For)
		m.actions = append(m.actions, a)
	}
	for p, yes := range w.evictedPods {
		if yes {
			m.evictedPods = append(m.evictedPods, p.Key())
		}
	}
	slices.Sort(m.evictedPods)
	for i := range w.kinds {
		m.unserved, m.bounded = append(m.unserved, w.kinds[i].unserved), append(m.bounded, w.kinds[i].bounded)
	}
	for _, t := range w.tenants {
		m.used[t.Name] = [2]quota.Amount{w.tree.Used(t.Name), w.tree.Total(t.Name)}
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
		count(fmt.Sprint("barring ", r), c.barring)
	}
	for name, c := range w.topology.near {
		for key, counts := range c.at {
			count(fmt.Sprint("near ", name, key), counts)
		}
	}
	return m
}

// smallWorld is a few nodes with every feature, some of it at random.
func smallWorld(t *testing.T, r *rapid.T) Snapshot {
	s := largeWorld(t, rapid.IntRange(2, 6).Draw(r, "nodes"), rapid.IntRange(1, 40).Draw(r, "pending"))
	enrich(&s)
	for i := range s.Tenants {
		s.Tenants[i].Guarantee = quota.Amount{Compute: 7, Memory: 8}.Min(s.Tenants[i].Guarantee)
		if rapid.IntRange(0, 4).Draw(r, "limited") == 0 {
			n := rapid.Int64Range(1, 20).Draw(r, "limit")
			s.Tenants[i].Limit = quota.Amount{Compute: 70 + 7*n, Memory: 80 + 8*n}
		}
	}
	for i := range s.Pods {
		p := &s.Pods[i]
		p.Tenant = fmt.Sprintf("team-%02d", rapid.IntRange(0, 5).Draw(r, "team"))
		p.Evictable = rapid.Bool().Draw(r, "evictable")
		if rapid.IntRange(0, 3).Draw(r, "budgeted") == 0 {
			p.Budgets = []Budget{{fmt.Sprint("b", rapid.IntRange(0, 2).Draw(r, "budget")), rapid.IntRange(0, 3).Draw(r, "allowed")}}
		}
		if p.Node == "" && rapid.IntRange(0, 3).Draw(r, "ruled") == 0 {
			drawRules(r, p)
		}
	}
	for i := range s.Pools {
		s.Pools[i].Max = s.Pools[i].Size + rapid.IntRange(0, 3).Draw(r, "max")
		s.Pools[i].MIG.KeepsBusy = rapid.Bool().Draw(r, "keeps busy")
	}
	return s
}

func drawRules(r *rapid.T, p *Pod) {
	rule := func() Rule {
		return Rule{rapid.SampledFrom([]string{"zone", "host"}).Draw(r, "key"), rapid.SampledFrom([]string{"x", "y"}).Draw(r, "group")}
	}
	spread := func(skew int) Spread {
		return Spread{rule(), skew, rapid.IntRange(0, 4).Draw(r, "domains"), rapid.Bool().Draw(r, "ignore"), rapid.Bool().Draw(r, "honor")}
	}
	switch rapid.IntRange(0, 5).Draw(r, "rules") {
	case 0:
		p.Spread = []Spread{spread(rapid.IntRange(1, 2).Draw(r, "skew"))}
	case 1:
		p.Apart = []Rule{rule()}
	case 2:
		p.Near = []Rule{rule()}
	case 3:
		p.Near = []Rule{rule(), rule()}
	case 4:
		p.Spread = []Spread{spread(1), spread(2)}
		p.Apart = []Rule{rule()}
	}
}

// TestRevertedTrialChangesNothing serves some pending pods in a trial, reverts
// it, and compares the state before and after, and the plans made from both.
func TestRevertedTrialChangesNothing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := smallWorld(t, r)
		begun := func() *world {
			policy := DefaultPolicy()
			policy.ReclaimBorrowed = true
			w := newWorld(s, policy)
			w.admit()
			w.placeNow()
			return w
		}
		w, untried := begun(), begun()
		before := remainsOf(w)
		n := rapid.IntRange(1, len(w.pending)).Draw(r, "tried")
		w.try(func() bool {
			for i := range n {
				w.discountUnserved(i)
				p := w.touchPending(i)
				p.refused, p.reason = false, ""
				if w.reclaimLimit(&w.pending[i]) && w.chargeReadable(i) {
					w.serve(i, true)
				}
			}
			for _, p := range w.running {
				if p.node >= 0 && w.movable(p.pod) && rapid.IntRange(0, 3).Draw(r, "evicted") == 0 {
					w.evict(p.node, p.pod, ReclaimIdle, "", "")
				}
			}
			return false
		})
		if why := underivable(w); why != "" {
			r.Fatalf("after a failed trial %s", why)
		}
		if after := remainsOf(w); !reflect.DeepEqual(before, after) {
			r.Fatalf("a failed trial changed the world: %s", difference(before, after))
		}
		for _, w := range []*world{w, untried} {
			w.placeRest(true)
			w.readmit()
			w.reclaimGuarantees()
			w.placeRest(false)
			w.prepare()
			w.scaleDown()
		}
		got, want := Plan{Actions: w.actions, Verdicts: w.verdicts()}.String(), Plan{Actions: untried.actions, Verdicts: untried.verdicts()}.String()
		if got != want {
			r.Fatalf("after a failed trial the plan is\n%s\nand without it\n%s", got, want)
		}
	})
}

// underivable returns a kind for which an index has another node than the one
// that is found when the index is filled again, empty for none.
func underivable(w *world) string {
	for i := range w.kinds {
		k := &w.kinds[i]
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
