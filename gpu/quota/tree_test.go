package quota

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestMain draws more trees than rapid does by itself: a hundred miss the rare ones.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("rapid.checks").Value.String() == "100" {
		if err := flag.Set("rapid.checks", "3000"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func slices7(compute int64) Amount { return Amount{Compute: compute, Memory: compute} }

// team is a tenant with a guarantee and no other bounds.
func team(name, parent string, guarantee int64) Tenant {
	return Tenant{Name: name, Parent: parent, Guarantee: slices7(guarantee), Limit: All(), Borrow: All(), Lend: All()}
}

func tree(t testing.TB, tenants ...Tenant) Tree {
	t.Helper()
	tr, err := NewTree(tenants)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func take(t testing.TB, tr Tree, name string, n int64) Tree {
	t.Helper()
	tr, err := tr.Add(name, slices7(n))
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestBorrowAndReclaim(t *testing.T) {
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
	if _, err := tr.Add("b", slices7(2)); err == nil {
		t.Error("b took what a holds")
	}
	claims := tr.Reclaim("b", slices7(10))
	if len(claims) != 1 || claims[0] != (Claim{"a", slices7(9)}) {
		t.Errorf("got %v", claims)
	}
	if claims := tr.Reclaim("b", slices7(1)); claims != nil {
		t.Errorf("one is free already: got %v", claims)
	}
	if claims := tr.Reclaim("a", slices7(5)); claims != nil {
		t.Errorf("a has all it is guaranteed: got %v", claims)
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

// Compute and memory run out separately: 3g+3g takes eight of memory, six of compute.
func TestSlicesRunOutSeparately(t *testing.T) {
	a := team("a", "", 0)
	a.Guarantee = Amount{7, 8}
	tr, err := tree(t, a).Add("a", Amount{6, 8})
	if err != nil {
		t.Fatal(err)
	}
	if got := tr.Available("a"); got != (Amount{1, 0}) {
		t.Errorf("got %v", got)
	}
	if _, err := tr.Add("a", Amount{1, 1}); err == nil {
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
	back, err := over.Remove("a", slices7(20))
	if err != nil || back.Available("b") != slices7(14) {
		t.Errorf("given back: %v, %v", back.Available("b"), err)
	}
	if _, err := over.Remove("a", slices7(21)); err == nil {
		t.Error("gave back more than it used")
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
	if _, err := tr.Add("a", All()); err == nil {
		t.Error("used what never ends")
	}
}

func TestNewTreeRefuses(t *testing.T) {
	limited, negative := team("a", "", 7), team("a", "", -1)
	limited.Limit = slices7(6)
	for want, tenants := range map[string][]Tenant{
		`tenant "a": is there twice`:      {team("a", "", 1), team("a", "", 1)},
		`tenant "a": no parent "x"`:       {team("a", "x", 1)},
		"a tenant has no name":            {team("", "", 1)},
		"in a circle":                     {team("a", "b", 1), team("b", "a", 1)},
		`such: "b", "c", "d"`:             {team("a", "", 1), team("b", "c", 1), team("c", "b", 1), team("d", "b", 1)},
		`tenant "a": limit 6 compute + 6`: {limited},
		`tenant "a": a negative amount`:   {negative},
		`tenant "b": no parent "y"`:       {team("a", "x", 1), team("b", "y", 1)},
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
	if err != nil {
		r.Fatal(err)
	}
	return tr
}

// walk adds and removes at random, and checks after each step.
func walk(r *rapid.T, tr Tree, check func(Tree)) Tree {
	for range rapid.IntRange(0, 30).Draw(r, "steps") {
		name := rapid.SampledFrom(tr.Tenants()).Draw(r, "tenant").Name
		a := Amount{rapid.Int64Range(0, 8).Draw(r, "compute"), rapid.Int64Range(0, 8).Draw(r, "memory")}
		var err error
		next := tr
		if rapid.IntRange(0, 3).Draw(r, "verb") == 0 {
			next, err = tr.Remove(name, a.Min(tr.Used(name)))
			if err != nil {
				r.Fatal(err)
			}
		} else if next, err = tr.Add(name, a); (err == nil) != a.Fits(tr.Available(name)) {
			r.Fatalf("%v fits %v: %v", a, tr.Available(name), err)
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
		for _, tenant := range empty.Tenants() {
			capacity = capacity.Add(tenant.Guarantee)
		}
		full := walk(r, empty, func(tr Tree) {
			var sum Amount
			for i, n := range tr.nodes {
				sum = sum.Add(tr.used.at(i).own)
				if !tr.used.at(i).total.Fits(n.Limit) {
					r.Fatalf("%s uses %v of %v", n.Name, tr.used.at(i).total, n.Limit)
				}
				if !tr.over(i).Fits(n.Borrow) && n.parent >= 0 {
					r.Fatalf("%s borrows %v of %v", n.Name, tr.over(i), n.Borrow)
				}
				below := tr.used.at(i).own
				for _, c := range n.children {
					below = below.Add(tr.used.at(c).total)
				}
				if below != tr.used.at(i).total {
					r.Fatalf("%s: total %v, sum %v", n.Name, tr.used.at(i).total, below)
				}
			}
			if sum != tr.used.at(0).total || !sum.Fits(capacity) {
				r.Fatalf("used %v, root says %v, there are %v", sum, tr.used.at(0).total, capacity)
			}
		})
		for _, tenant := range full.Tenants() {
			var err error
			if full, err = full.Remove(tenant.Name, full.Used(tenant.Name)); err != nil {
				r.Fatal(err)
			}
		}
		for i := range full.nodes {
			if full.used.at(i) != (use{}) {
				r.Fatalf("all given back, and %s still uses %v", full.nodes[i].Name, full.used.at(i))
			}
		}
	})
}

// Whatever was lent, each tenant can get its whole guarantee back, and only those
// who borrow pay for it.
func TestWhatIsLentCanBeReclaimed(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		tr := walk(r, trees(r), func(Tree) {})
		for _, tenant := range tr.Tenants() {
			lacks := tenant.Guarantee.Sub(tr.Used(tenant.Name)).Floor()
			after := tr
			for _, c := range tr.Reclaim(tenant.Name, All()) {
				own, guarantee := after.Used(c.Tenant), after.nodes[after.index(c.Tenant)].Guarantee
				if c.Tenant == tenant.Name || !c.Amount.Fits(own.Sub(guarantee).Floor()) {
					r.Fatalf("%s must give %v, uses %v of its %v", c.Tenant, c.Amount, own, guarantee)
				}
				var err error
				if after, err = after.Remove(c.Tenant, c.Amount); err != nil {
					r.Fatal(err)
				}
			}
			if _, err := after.Add(tenant.Name, lacks); err != nil {
				r.Fatalf("its guarantee is not there: %v", err)
			}
		}
	})
}

func BenchmarkAvailable(b *testing.B) {
	tenants := []Tenant{team("root", "", 0)}
	for i := range 200 {
		tenants = append(tenants, team(fmt.Sprint("t", i), "root", 7))
	}
	tr := tree(b, tenants...)
	for b.Loop() {
		next, err := tr.Add("t199", slices7(1))
		if err != nil || next.Available("t0").Zero() {
			b.Fatal(err)
		}
	}
}
