package pack

import (
	"math/rand"
	"slices"
	"testing"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
)

func table(t testing.TB, model string) *mig.Table {
	t.Helper()
	table, ok := mig.ForModel(model)
	if !ok {
		t.Fatalf("no table for %s", model)
	}
	return table
}

func layout(t testing.TB, table *mig.Table, s string) mig.Layout {
	t.Helper()
	l, err := mig.ParseLayout(table, s)
	require.NoError(t, err)
	return l
}

func counts(t testing.TB, table *mig.Table, names ...string) []mig.Count {
	t.Helper()
	var out []mig.Count
	for _, name := range names {
		p, ok := table.Exact(name)
		if !ok {
			t.Fatalf("no profile %s", name)
		}
		out = append(out, mig.Count{Profile: p, N: 1})
	}
	return out
}

func TestTarget(t *testing.T) {
	h100 := table(t, "H100-80GB")
	ones := "1g.10gb@0 1g.10gb@1 1g.10gb@2 1g.10gb@3 1g.10gb@4 1g.10gb@5 1g.10gb@6"
	tests := []struct {
		name       string
		keep       string
		spare      string
		must, want []string
		allowed    []string
		grow       bool
		layout     string // "" for no answer
	}{
		{name: "keeps what it can", spare: ones, must: []string{"3g.40gb"}, layout: "1g.10gb@0 1g.10gb@1 1g.10gb@2 1g.10gb@3 3g.40gb@4"},
		{name: "grows where the layout cannot change later", spare: ones, must: []string{"3g.40gb"}, grow: true, layout: "3g.40gb@0 3g.40gb@4"},
		{name: "serving precedes keeping", spare: ones, must: []string{"3g.40gb"}, want: []string{"3g.40gb"}, layout: "3g.40gb@0 3g.40gb@4"},
		{name: "allocated instances stay", keep: "1g.10gb@1", spare: "2g.20gb@4", must: []string{"3g.40gb"}, grow: true,
			layout: "1g.10gb@0 1g.10gb@1 2g.20gb@2 3g.40gb@4"},
		{name: "no place beside what is allocated", keep: "1g.10gb@1 1g.10gb@5", must: []string{"3g.40gb"}},
		{name: "only allowed profiles are created", spare: "7g.80gb@0", must: []string{"2g.20gb"}, allowed: []string{"3g.40gb"}},
		{name: "any may stay", spare: "1g.10gb@0 3g.40gb@4", must: []string{"3g.40gb"}, allowed: []string{"1g.10gb"},
			layout: "1g.10gb@0 1g.10gb@1 1g.10gb@2 1g.10gb@3 3g.40gb@4"},
		{name: "a profile with attributes only when requested", must: []string{"1g.10gb+me"}, grow: true, layout: "4g.40gb@0 2g.20gb@4 1g.10gb+me@6"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			q := Question{Table: h100, Keep: layout(t, h100, test.keep), Spare: layout(t, h100, test.spare),
				Must: counts(t, h100, test.must...), Further: counts(t, h100, test.want...), Grow: test.grow}
			for _, c := range counts(t, h100, test.allowed...) {
				q.Allowed = append(q.Allowed, c.Profile)
			}
			if a, ok := Target(q); ok != (test.layout != "") || ok && h100.Format(a.Layout) != test.layout {
				t.Errorf("got %v %q, want %q", ok, h100.Format(a.Layout), test.layout)
			}
		})
	}
}

// TestTargetAgainstBruteForce compares with every subset of every maximal layout: none serves more, and none that
// serves as much keeps more. Some requests are for instances with media engines or graphics, of which a GPU has few.
func TestTargetAgainstBruteForce(t *testing.T) {
	r := rand.New(rand.NewSource(testall.Seed(t, 7)))
	for _, model := range []string{"H100-80GB", "A30-24GB", "RTX-PRO-6000-Blackwell-96GB"} {
		tab, answered := table(t, model), 0
		for range 150 {
			q := randomQuestion(r, tab)
			a, ok := Target(q)
			served, kept, possible := bruteForce(q)
			if ok != possible {
				t.Fatalf("%s keep %v spare %v must %v: answered %v, brute force %v", model, q.Keep, q.Spare, q.Must, ok, possible)
			}
			if !ok {
				continue
			}
			answered++
			if err := tab.Legal(a.Layout); err != nil {
				t.Fatalf("%v: %v", a.Layout, err)
			}
			if a.Served != served || !q.Grow && a.Kept != kept {
				t.Fatalf("%s keep %v spare %v must %v want %v: %v serves %d keeps %d, brute force %d and %d",
					model, q.Keep, q.Spare, q.Must, q.Further, a.Layout, a.Served, a.Kept, served, kept)
			}
			for _, p := range q.Keep {
				if !slices.Contains(a.Layout, p) {
					t.Fatalf("%v has lost %v", a.Layout, p)
				}
			}
		}
		if answered < 20 {
			t.Errorf("%s: %d of 150 questions have an answer", model, answered)
		}
	}
}

func randomQuestion(r *rand.Rand, tab *mig.Table) Question {
	q := Question{Table: tab, Grow: r.Intn(2) == 0}
	maximal := tab.Maximal()
	for _, p := range maximal[r.Intn(len(maximal))] {
		if r.Intn(3) == 0 {
			q.Keep = append(q.Keep, p)
		} else {
			q.Spare = append(q.Spare, p)
		}
	}
	profiles := tab.Profiles()
	q.Must = []mig.Count{{Profile: profiles[r.Intn(len(profiles))], N: 1 + r.Intn(2)}}
	for range r.Intn(3) {
		q.Further = append(q.Further, mig.Count{Profile: profiles[r.Intn(len(profiles))], N: 1 + r.Intn(3)})
	}
	return q
}

// bruteForce evaluates every subset of every maximal layout that contains
// Keep; layouts that are not maximal serve and keep no more.
func bruteForce(q Question) (served, kept int, possible bool) {
	for _, l := range q.Table.Maximal() {
		rest, ok := without(l, q.Keep)
		if !ok {
			continue
		}
		for subset := range 1 << len(rest) {
			var added mig.Layout
			for i, p := range rest {
				if subset&(1<<i) != 0 {
					added = append(added, p)
				}
			}
			s, k, ok := value(q, added)
			if ok && (!possible || s > served || s == served && k > kept) {
				served, kept, possible = s, k, true
			}
		}
	}
	return served, kept, possible
}

func value(q Question, added mig.Layout) (served, kept int, ok bool) {
	for _, m := range q.Must {
		if added.Count(m.Profile) < m.N {
			return 0, 0, false
		}
	}
	for _, p := range q.Table.Profiles() {
		served += min(added.Count(p), mig.CountOf(q.Must, p)+mig.CountOf(q.Further, p)) * p.Compute
	}
	for _, p := range added {
		if slices.Contains(q.Spare, p) {
			kept += p.Profile.Compute
		}
	}
	return served, kept, true
}

// without removes keep from l; false if l does not contain all of it.
func without(l, keep mig.Layout) (mig.Layout, bool) {
	for _, p := range keep {
		if !slices.Contains(l, p) {
			return nil, false
		}
	}
	return slices.DeleteFunc(slices.Clone(l), func(p mig.Placement) bool { return slices.Contains(keep, p) }), true
}
