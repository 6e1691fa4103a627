package quota

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// fleet is some cards, how they are cut, and which tenant holds which instance.
type fleet struct {
	tables  []*mig.Table
	layouts []mig.Layout
	holder  []map[mig.Placement]string
}

func fleets(r *rapid.T) *fleet {
	f := &fleet{}
	for range rapid.IntRange(1, 3).Draw(r, "cards") {
		t, _ := mig.ForModel(rapid.SampledFrom([]string{"H100-80GB", "A30-24GB", "RTX-PRO-6000-Blackwell-96GB"}).Draw(r, "product"))
		f.tables = append(f.tables, t)
		f.layouts = append(f.layouts, rapid.SampledFrom(t.Maximal()).Draw(r, "layout"))
		f.holder = append(f.holder, map[mig.Placement]string{})
	}
	return f
}

func slicesOf(p mig.Profile) Amount {
	return Amount{Compute: int64(p.Compute), Memory: int64(p.Memory)}
}

// capacity is counted from what the cards are cut into now and what that strands.
func (f *fleet) capacity() Amount {
	var all Amount
	for i, t := range f.tables {
		for _, p := range f.layouts[i] {
			all = all.Add(slicesOf(p.Profile))
		}
		compute, memory := t.Room(f.layouts[i])
		all = all.Add(Amount{int64(compute), int64(memory)})
	}
	return all
}

// tree charges every tenant what it holds now; what the cards have beyond the
// guarantees is the root's.
func (f *fleet) tree(r *rapid.T, tenants []Tenant) Tree {
	root := Tenant{Name: "root", Guarantee: f.capacity(), Limit: All(), Borrow: All(), Lend: All()}
	for _, t := range tenants {
		root.Guarantee = root.Guarantee.Sub(t.Guarantee)
	}
	tr, err := NewTree(append([]Tenant{root}, tenants...))
	if err != nil {
		r.Fatal(err)
	}
	for i := range f.holder {
		for _, p := range f.layouts[i] {
			if name := f.holder[i][p]; name != "" {
				tr = tr.Force(name, slicesOf(p.Profile))
			}
		}
	}
	return tr
}

// teams draws tenants, some below others, that are guaranteed no more than there is.
func teams(r *rapid.T, capacity Amount) []Tenant {
	upTo := func(most Amount, what string) Amount {
		return Amount{rapid.Int64Range(0, most.Compute).Draw(r, what), rapid.Int64Range(0, most.Memory).Draw(r, what)}
	}
	var out []Tenant
	below := map[string]Amount{}
	n := rapid.IntRange(1, 5).Draw(r, "tenants")
	for i := range n {
		t := Tenant{Name: fmt.Sprint("t", i), Parent: "root", Guarantee: upTo(capacity, "guarantee"), Limit: All(), Borrow: All(), Lend: All()}
		capacity = capacity.Sub(t.Guarantee)
		if i > 0 && rapid.Bool().Draw(r, "nested") {
			t.Parent = fmt.Sprint("t", rapid.IntRange(0, i-1).Draw(r, "parent"))
		}
		if rapid.Bool().Draw(r, "bounds") {
			t.Borrow, t.Lend = upTo(Amount{8, 8}, "borrow"), upTo(Amount{8, 8}, "lend")
		}
		out = append(out, t)
	}
	for i := n - 1; i >= 0; i-- {
		all := below[out[i].Name].Add(out[i].Guarantee)
		below[out[i].Parent] = below[out[i].Parent].Add(all)
		if rapid.Bool().Draw(r, "limited") {
			out[i].Limit = all.Add(upTo(Amount{8, 8}, "limit"))
		}
	}
	return out
}

// repartition cuts a card anew, whatever of it is not held.
func (f *fleet) repartition(r *rapid.T) {
	i := rapid.IntRange(0, len(f.tables)-1).Draw(r, "card")
	held := func(p mig.Placement) bool { return f.holder[i][p] != "" }
	var keep mig.Layout
	for _, p := range f.layouts[i] {
		if held(p) {
			keep = append(keep, p)
		}
	}
	want := mig.Counts(rapid.SampledFrom(f.tables[i].Maximal()).Draw(r, "new layout"))
	for _, c := range mig.Counts(keep) {
		for j := range want {
			if want[j].Profile == c.Profile {
				want[j].N = max(0, want[j].N-c.N)
			}
		}
	}
	to, ok := f.tables[i].Arrange(keep, want)
	if !ok {
		return
	}
	if _, err := mig.Diff(f.layouts[i], to, held); err != nil {
		r.Fatal(err)
	}
	f.layouts[i] = to
}

// take has a tenant take an instance that nobody holds, if its quota admits it.
func (f *fleet) take(r *rapid.T, tr Tree, name string) Tree {
	i := rapid.IntRange(0, len(f.tables)-1).Draw(r, "card")
	p := rapid.SampledFrom(f.layouts[i]).Draw(r, "instance")
	if f.holder[i][p] != "" {
		return tr
	}
	next, err := tr.Add(name, slicesOf(p.Profile))
	if err != nil {
		return tr
	}
	f.holder[i][p] = name
	return next
}

// right is what a quota gives a tenant.
type right struct {
	Guarantee, Used, Available Amount
	AfterReclaim               Amount
	Claims                     string
}

func rights(r *rapid.T, tr Tree) map[string]right {
	out := map[string]right{}
	for _, t := range tr.Tenants() {
		claims := tr.Reclaim(t.Name, All())
		after := tr
		for _, c := range claims {
			var err error
			if after, err = after.Remove(c.Tenant, c.Amount); err != nil {
				r.Fatal(err)
			}
		}
		out[t.Name] = right{t.Guarantee, tr.Used(t.Name), tr.Available(t.Name), after.Available(t.Name), fmt.Sprint(claims)}
	}
	return out
}

// A guarantee never shrinks through a repartition: whatever the cards, the tenants
// and the way there, what each is guaranteed, uses, may use now and can get after a
// reclaim is the same in slices before and after any card is cut anew. Nothing is
// made or lost, nobody gets past its limit through Add, and what is lent comes back.
func TestGuaranteeSurvivesRepartition(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		f := fleets(r)
		tenants := teams(r, f.capacity())
		tr := f.tree(r, tenants)
		for range rapid.IntRange(1, 20).Draw(r, "steps") {
			name := rapid.SampledFrom(tenants).Draw(r, "tenant").Name
			if rapid.IntRange(0, 2).Draw(r, "verb") > 0 {
				tr = f.take(r, tr, name)
				continue
			}
			before, capacity := rights(r, tr), f.capacity()
			f.repartition(r)
			if got := f.capacity(); got != capacity {
				r.Fatalf("there were %v, there are %v", capacity, got)
			}
			// Nothing of the old cut is remembered: the tree is built from the cards.
			if tr = f.tree(r, tenants); !maps.Equal(rights(r, tr), before) {
				r.Fatalf("before %v\nafter  %v", before, rights(r, tr))
			}
		}
		if !tr.Total("root").Fits(f.capacity()) {
			r.Fatalf("%v are used of %v", tr.Total("root"), f.capacity())
		}
		for _, tenant := range tenants {
			if !tr.Total(tenant.Name).Fits(tenant.Limit) {
				r.Fatalf("%s uses %v of at most %v", tenant.Name, tr.Total(tenant.Name), tenant.Limit)
			}
			lacks := tenant.Guarantee.Sub(tr.Used(tenant.Name)).Floor()
			if got := rights(r, tr)[tenant.Name].AfterReclaim; !lacks.Fits(got) {
				r.Fatalf("%s lacks %v of its guarantee and can get %v", tenant.Name, lacks, got)
			}
		}
	})
}

// What runs is a fact, even beyond every bound: the guarantees of the others can
// still be reclaimed.
func TestReclaimAfterForce(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		tr := trees(r)
		names := tr.Tenants()
		for range rapid.IntRange(0, 10).Draw(r, "steps") {
			name := rapid.SampledFrom(names).Draw(r, "tenant").Name
			tr = tr.Force(name, Amount{rapid.Int64Range(0, 20).Draw(r, "compute"), rapid.Int64Range(0, 20).Draw(r, "memory")})
		}
		for _, tenant := range names {
			lacks := tenant.Guarantee.Sub(tr.Used(tenant.Name)).Floor()
			after := tr
			for _, c := range tr.Reclaim(tenant.Name, lacks) {
				over := after.Used(c.Tenant).Sub(after.nodes[after.index(c.Tenant)].Guarantee).Floor()
				if c.Tenant == tenant.Name || !c.Amount.Fits(over) {
					r.Fatalf("%s must give %v for %s", c.Tenant, c.Amount, tenant.Name)
				}
				var err error
				if after, err = after.Remove(c.Tenant, c.Amount); err != nil {
					r.Fatal(err)
				}
			}
			if got := after.Available(tenant.Name); !lacks.Fits(got) {
				r.Fatalf("%s lacks %v and can get %v", tenant.Name, lacks, got)
			}
		}
	})
}

// An old tree stays as it was, however many are made of it.
func TestTreesShareNothingThatChanges(t *testing.T) {
	tenants := []Tenant{team("root", "", 0)}
	for i := range 3 * pageSize {
		tenants = append(tenants, team(fmt.Sprint("t", i), "root", 7))
	}
	old := tree(t, tenants...)
	trees, want := []Tree{old}, []string{""}
	for i := range 3 * pageSize {
		from := trees[i/2] // branches, not a line
		name := fmt.Sprint("t", i)
		trees = append(trees, take(t, from, name, 3))
		want = append(want, want[i/2]+name+" ")
	}
	for i, tr := range trees {
		got := ""
		total := int64(0)
		for _, tenant := range slices.Backward(tr.Tenants()) {
			if !tr.Used(tenant.Name).Zero() {
				got += tenant.Name + " "
				total += 3
			}
		}
		if len(got) != len(want[i]) || tr.Total("root") != slices7(total) {
			t.Errorf("tree %d: used by %s, want %s", i, got, want[i])
		}
	}
}

// BenchmarkAdd: 500 tenants in 25 departments, as a planning round uses them.
func BenchmarkAdd(b *testing.B) {
	tenants := []Tenant{team("root", "", 0)}
	var names []string
	for d := range 25 {
		department := fmt.Sprint("department", d)
		tenants = append(tenants, team(department, "root", 0))
		for i := range 19 {
			name := fmt.Sprint(department, "-", i)
			names = append(names, name)
			tenants = append(tenants, team(name, department, 7000))
		}
	}
	empty := tree(b, tenants...)
	tr, i := empty, 0
	b.ReportAllocs()
	for b.Loop() {
		next, err := tr.Add(names[i%len(names)], slices7(1))
		if err != nil {
			b.Fatal(err)
		}
		tr = next
		if i++; i%10000 == 0 {
			tr = empty
		}
	}
}
