package quota

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
)

func TestMain(m *testing.M) { testall.Main(m) }

func slices7(compute int64) Amount { return Amount{Compute: compute, Memory: compute} }

// team is a tenant with a guarantee and no other bounds.
func team(name, parent string, guarantee int64) Tenant {
	return Tenant{Name: name, Parent: parent, Guarantee: slices7(guarantee), Limit: All(), Borrow: All(), Lend: All()}
}

func tree(t testing.TB, tenants ...Tenant) Tree {
	t.Helper()
	tr, err := NewTree(tenants)
	require.NoError(t, err)
	return tr
}

func take(t testing.TB, tr Tree, name string, n int64) Tree {
	t.Helper()
	tr, ok := tr.Add(name, slices7(n))
	if !ok {
		t.Fatalf("%d of %s are not available", n, name)
	}
	return tr
}

func TestBorrow(t *testing.T) {
	tr := tree(t, team("root", "", 0), team("a", "root", 7), team("b", "root", 14))
	if got := tr.Available("a"); got != slices7(21) {
		t.Errorf("alone, a may use all: got %v", got)
	}
	tr = take(t, tr, "a", 20)
	if got := tr.Borrowed("a"); got != slices7(13) {
		t.Errorf("a borrows %v", got)
	}
	if got := tr.Available("b"); got != slices7(1) {
		t.Errorf("b has left: %v", got)
	}
	if _, ok := tr.Add("b", slices7(2)); ok {
		t.Error("b used what a uses")
	}
}

func TestBounds(t *testing.T) {
	a, b := team("a", "root", 7), team("b", "root", 14)
	for _, c := range []struct {
		name  string
		bound func()
		want  int64 // what a may use
	}{
		{"nothing", func() {}, 21},
		{"a borrows at most 3", func() { a.Borrow = slices7(3) }, 10},
		{"a has a limit of 9", func() { a.Borrow, a.Limit = All(), slices7(9) }, 9},
		{"b lends at most 1", func() { a.Limit, b.Lend = All(), slices7(1) }, 8},
		{"b lends nothing", func() { b.Lend = Amount{} }, 7},
	} {
		c.bound()
		tr := tree(t, team("root", "", 0), a, b)
		if got := tr.Available("a"); got != slices7(c.want) {
			t.Errorf("%s: got %v, want %d", c.name, got, c.want)
		}
	}
}

// TestFull: the error names the first tenant on the way to the root whose limit is exceeded.
func TestFull(t *testing.T) {
	root, a := team("root", "", 0), team("a", "root", 7)
	root.Limit, a.Limit = slices7(20), slices7(9)
	tr := take(t, tree(t, root, a, team("b", "root", 7)), "b", 12)
	for n, want := range map[int64]string{8: "", 9: "root", 10: "a"} {
		if got, limit := tr.Full("a", slices7(n)); got != want || got == "a" && limit != a.Limit {
			t.Errorf("%d more: %q of %v, want %q", n, got, limit, want)
		}
	}
	if tr.Guaranteed("root") != slices7(14) || !tr.Within("a", "root") || tr.Within("root", "a") || tr.Within("a", "b") {
		t.Error("what is below the root is not known")
	}
}

// TestSlicesRunOutSeparately: compute and memory run out separately: 3g+3g takes eight of memory, six of compute.
func TestSlicesRunOutSeparately(t *testing.T) {
	a := team("a", "", 0)
	a.Guarantee = Amount{7, 8}
	tr, ok := tree(t, a).Add("a", Amount{6, 8})
	if got := tr.Available("a"); !ok || got != (Amount{1, 0}) {
		t.Errorf("got %v", got)
	}
	if _, ok := tr.Add("a", Amount{1, 1}); ok {
		t.Error("took a memory slice that is not there")
	}
}

func TestForce(t *testing.T) {
	tr := tree(t, team("root", "", 0), team("a", "root", 7), team("b", "root", 7))
	over := tr.Force("a", slices7(20))
	if got := over.Available("b"); got != (Amount{}) {
		t.Errorf("b has left: %v", got)
	}
	if got := tr.Used("a"); got != (Amount{}) {
		t.Errorf("the old tree changed: %v", got)
	}
	kept := team("b", "root", 7)
	kept.Lend = Amount{}
	if got := tree(t, team("root", "", 0), team("a", "root", 7), kept).Force("a", slices7(20)).Available("b"); got != slices7(7) {
		t.Errorf("b, which lends nothing, has left: %v", got)
	}
	back, ok := over.Remove("a", slices7(20))
	if !ok || back.Available("b") != slices7(14) {
		t.Errorf("removed: %v, %v", back.Available("b"), ok)
	}
	if _, ok := over.Remove("a", slices7(21)); ok {
		t.Error("removed more than it used")
	}
}

func TestUnlimitedGuarantee(t *testing.T) {
	root := team("root", "", 0)
	root.Guarantee = All()
	tr := tree(t, root, team("a", "root", 7))
	tr = take(t, tr, "a", 1000)
	if got := tr.Available("a"); got != All() {
		t.Errorf("got %v", got)
	}
	if _, ok := tr.Add("a", All()); ok {
		t.Error("used what never ends")
	}
}

func TestNewTreeRefuses(t *testing.T) {
	limited, negative := team("a", "", 7), team("a", "", -1)
	limited.Limit = slices7(6)
	for want, tenants := range map[string][]Tenant{
		`tenant "a": is listed twice`:   {team("a", "", 1), team("a", "", 1)},
		`tenant "a": no parent "x"`:     {team("a", "x", 1)},
		"a tenant has no name":          {team("", "", 1)},
		"in a cycle of parents":         {team("a", "b", 1), team("b", "a", 1)},
		`below one: "b", "c", "d"`:      {team("a", "", 1), team("b", "c", 1), team("c", "b", 1), team("d", "b", 1)},
		`tenant "a": limit 6+6 slices`:  {limited},
		`tenant "a": a negative amount`: {negative},
		`tenant "b": no parent "y"`:     {team("a", "x", 1), team("b", "y", 1)},
	} {
		if _, err := NewTree(tenants); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// trees draws a small tree with all kinds of bounds.
func trees(r *rapid.T) Tree {
	amount := rapid.Custom(func(r *rapid.T) Amount {
		return Amount{rapid.Int64Range(0, 12).Draw(r, "compute"), rapid.Int64Range(0, 12).Draw(r, "memory")}
	})
	bound := rapid.OneOf(rapid.Just(All()), amount)
	var tenants []Tenant
	guaranteed := map[string]Amount{}
	for i := range rapid.IntRange(1, 7).Draw(r, "tenants") {
		tenant := Tenant{Name: fmt.Sprint("t", i), Guarantee: amount.Draw(r, "guarantee"), Borrow: bound.Draw(r, "borrow"), Lend: bound.Draw(r, "lend")}
		if i > 0 {
			tenant.Parent = fmt.Sprint("t", rapid.IntRange(0, i-1).Draw(r, "parent"))
		}
		tenants = append(tenants, tenant)
	}
	for i := len(tenants) - 1; i >= 0; i-- {
		t := &tenants[i]
		all := guaranteed[t.Name].Add(t.Guarantee)
		guaranteed[t.Parent] = guaranteed[t.Parent].Add(all)
		t.Limit = rapid.OneOf(rapid.Just(All()), rapid.Map(amount, all.Add)).Draw(r, "limit")
	}
	tr, err := NewTree(tenants)
	require.NoError(r, err)
	return tr
}

// walk adds and removes at random, and checks after each step.
func walk(r *rapid.T, tr Tree, check func(Tree)) Tree {
	for range rapid.IntRange(0, 30).Draw(r, "steps") {
		name := rapid.SampledFrom(tr.nodes).Draw(r, "tenant").Name
		a := Amount{rapid.Int64Range(0, 8).Draw(r, "compute"), rapid.Int64Range(0, 8).Draw(r, "memory")}
		var next Tree
		var ok bool
		if rapid.IntRange(0, 3).Draw(r, "verb") == 0 {
			if next, ok = tr.Remove(name, a.Min(tr.Used(name))); !ok {
				r.Fatalf("%s does not use %v", name, a)
			}
		} else if next, ok = tr.Add(name, a); ok != a.Fits(tr.Available(name)) {
			r.Fatalf("%v fits %v: %v", a, tr.Available(name), ok)
		}
		tr = next
		check(tr)
	}
	return tr
}

func TestConservation(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		empty := trees(r)
		var capacity Amount
		for _, tenant := range empty.nodes {
			capacity = capacity.Add(tenant.Guarantee)
		}
		full := walk(r, empty, func(tr Tree) {
			var sum Amount
			for i, n := range tr.nodes {
				sum = sum.Add(tr.used[i].own)
				if !tr.used[i].total.Fits(n.Limit) {
					r.Fatalf("%s uses %v of %v", n.Name, tr.used[i].total, n.Limit)
				}
				if !tr.over(i).Fits(n.Borrow) && n.parent >= 0 {
					r.Fatalf("%s borrows %v of %v", n.Name, tr.over(i), n.Borrow)
				}
				below := tr.used[i].own
				for c, child := range tr.nodes {
					if child.parent == i {
						below = below.Add(tr.used[c].total)
					}
				}
				if below != tr.used[i].total {
					r.Fatalf("%s: total %v, sum %v", n.Name, tr.used[i].total, below)
				}
			}
			if sum != tr.used[0].total || !sum.Fits(capacity) {
				r.Fatalf("used %v, the root has %v, there are %v", sum, tr.used[0].total, capacity)
			}
		})
		for _, tenant := range full.nodes {
			full, _ = full.Remove(tenant.Name, full.Used(tenant.Name))
		}
		for i := range full.nodes {
			if *full.used[i] != (use{}) {
				r.Fatalf("all removed, and %s still uses %v", full.nodes[i].Name, full.used[i])
			}
		}
	})
}

// TestWhatIsLentCanBeReclaimed: whatever is lent or used beyond a quota, each tenant can use its guarantee once every
// other tenant is back at its own.
func TestWhatIsLentCanBeReclaimed(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		tr := walk(r, trees(r), func(Tree) {})
		for range rapid.IntRange(0, 10).Draw(r, "forced") {
			name := rapid.SampledFrom(tr.nodes).Draw(r, "tenant").Name
			tr = tr.Force(name, Amount{rapid.Int64Range(0, 20).Draw(r, "compute"), rapid.Int64Range(0, 20).Draw(r, "memory")})
		}
		for _, tenant := range tr.nodes {
			after := tr
			for _, other := range tr.nodes {
				if other.Name == tenant.Name {
					continue
				}
				var ok bool
				if after, ok = after.Remove(other.Name, after.Used(other.Name).Sub(other.Guarantee).Floor()); !ok {
					r.Fatalf("%s uses less than it uses", other.Name)
				}
			}
			lacks := tenant.Guarantee.Sub(tr.Used(tenant.Name)).Floor()
			if got := after.Available(tenant.Name); !lacks.Fits(got) {
				r.Fatalf("%s lacks %v of its guarantee and can get %v", tenant.Name, lacks, got)
			}
		}
	})
}

// TestTreesShareNothingThatChanges: an old tree is unchanged, whatever is
// derived from it.
func TestTreesShareNothingThatChanges(t *testing.T) {
	tenants := []Tenant{team("root", "", 0)}
	for i := range 24 {
		tenants = append(tenants, team(fmt.Sprint("t", i), "root", 7))
	}
	trees, want := []Tree{tree(t, tenants...)}, []map[string]bool{{}}
	for i := range 24 {
		name := fmt.Sprint("t", i)
		trees = append(trees, take(t, trees[i/2], name, 3)) // branches, not a line
		used := maps.Clone(want[i/2])
		used[name] = true
		want = append(want, used)
	}
	for i, tr := range trees {
		for _, tenant := range tenants {
			if used := !tr.Used(tenant.Name).Zero(); used != want[i][tenant.Name] {
				t.Errorf("tree %d: %s uses %v", i, tenant.Name, tr.Used(tenant.Name))
			}
		}
		if tr.Total("root") != slices7(int64(3*len(want[i]))) {
			t.Errorf("tree %d: %v are used by %d tenants", i, tr.Total("root"), len(want[i]))
		}
	}
}

// TestCovered: children share their parent's own guarantee; what they use beyond it is lent by another tenant.
func TestCovered(t *testing.T) {
	tr := tree(t, team("all", "", 1), team("root", "all", 3), team("a", "root", 2), team("b", "root", 0), team("c", "all", 4))
	for _, c := range []struct {
		a, b      int64
		ofA, ofB  bool
		explained string
	}{
		{2, 0, true, true, "its own"},
		{2, 3, true, true, "the parent's"},
		{2, 4, true, true, "that of the parent's parent"},
		{2, 5, true, false, "a and c lend"},
		{0, 5, true, false, "a's is not for b, which a does not use"},
		{4, 2, true, true, "both share what is above them"},
		{7, 0, false, true, "a borrows, and b uses nothing"},
	} {
		at := tr.Force("a", slices7(c.a)).Force("b", slices7(c.b))
		if at.Covered("a") != c.ofA || at.Covered("b") != c.ofB {
			t.Errorf("%s: a uses %d, covered %v; b uses %d, covered %v", c.explained, c.a, at.Covered("a"), c.b, at.Covered("b"))
		}
	}
	if tr.Covered("unknown") {
		t.Error("an unknown tenant is covered")
	}
}
