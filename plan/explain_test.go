package plan

import (
	"testing"
)

// TestExplainedInALargeWorld: in a world with gangs, tenants, parts of cards, busy
// cards and rules on zones, where much depends on what was looked at before, being
// asked changes no decision. Each kind of pod is explained once.
func TestExplainedInALargeWorld(t *testing.T) {
	s := largeWorld(t, 120, 400)
	enrich(&s)
	p := DefaultPolicy()
	made := Make(s, p).String()
	asked, reasons := map[string]bool{}, map[Reason]int{}
	w := newWorld(s, p)
	for i := range w.pending {
		q := w.pending[i].pod
		kind := w.kindKey(q) + q.Tenant[:4]
		if q.Gang != "" {
			kind += " in a gang"
		}
		if asked[kind] || len(asked) >= 60 {
			continue
		}
		asked[kind] = true
		e, ok := Explain(s, p, q.Key())
		if !ok {
			t.Fatalf("%s waits and is not explained", q.Key())
		}
		reasons[e.Verdict.Reason]++
		if e.Plan.String() != made {
			t.Fatalf("explaining %s has changed the plan", q.Key())
		}
		if len(e.Options) < 4+len(s.Pools) {
			t.Errorf("%s: %d options for %d pools", q.Key(), len(e.Options), len(s.Pools))
		}
	}
	if len(asked) < 20 || len(reasons) < 2 {
		t.Errorf("%d kinds with %v: the world is too plain for this test", len(asked), reasons)
	}
}

// TestNobodyToExplain: pods that run, and those that are not there, are not
// explained; gangs neither.
func TestNobodyToExplain(t *testing.T) {
	s := Snapshot{Pods: []Pod{{Namespace: "a", Name: "runs", Node: "n1", Gang: "a/g"}}}
	for _, name := range []string{"a/runs", "a/none", ""} {
		if _, ok := Explain(s, DefaultPolicy(), name); ok {
			t.Errorf("%q is explained", name)
		}
	}
	if _, ok := ExplainGang(s, DefaultPolicy(), "a/g"); ok {
		t.Error("a gang that runs is explained")
	}
}

// BenchmarkExplain is BenchmarkMake with one pod watched.
func BenchmarkExplain(b *testing.B) {
	s := largeWorld(b, 10000, 10000)
	key := newWorld(s, DefaultPolicy()).pending[5000].pod.Key()
	for b.Loop() {
		if _, ok := Explain(s, DefaultPolicy(), key); !ok {
			b.Fatal("not explained")
		}
	}
}
