package capacity_test

import (
	"fmt"
	"math/rand"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/capacity"
	"pgregory.net/rapid"
)

// TestSharesAreWhole: every slice of every product is a whole number of shares.
func TestSharesAreWhole(t *testing.T) {
	for _, model := range mig.Models() {
		table, _ := mig.ForModel(model)
		if capacity.CardShares%table.ComputeSlices() != 0 || capacity.CardShares%table.MemorySlices() != 0 {
			t.Errorf("%s: %d and %d slices do not divide %d", model, table.ComputeSlices(), table.MemorySlices(), capacity.CardShares)
		}
	}
}

// TestRoomByHand looks at every layout that a card can have with one or two held
// instances, and compares with a search through all maximal layouts.
func TestRoomByHand(t *testing.T) {
	for _, model := range []string{"H100-80GB", "A30-24GB", "RTX-PRO-6000-Blackwell-96GB"} {
		table, _ := mig.ForModel(model)
		for _, first := range table.Free(nil) {
			for _, second := range append(table.Free(mig.NewLayout(first)), first) {
				held := mig.NewLayout(first)
				if second != first {
					held = mig.NewLayout(first, second)
				}
				sv := capacity.NewSurvey(oneCard(model, held), capacity.DefaultRules())
				checkSurvey(t, sv)
				for _, r := range sv.Room() {
					if want := mostBeside(table, held, r.Profile); r.Possible != want || r.Now != 0 || r.Allowed != 0 {
						t.Errorf("%s beside %s: %s %d now, %d allowed, %d possible, want 0, 0, %d",
							model, held, r.Name, r.Now, r.Allowed, r.Possible, want)
					}
				}
			}
		}
	}
}

func oneCard(model string, held mig.Layout) plan.Snapshot {
	m, _ := gpu.ParseProduct(model)
	c := plan.Card{Device: gpu.Device{Model: m}, MIG: true, HoldersKnown: true}
	for i, p := range held {
		c.Instances = append(c.Instances, plan.Instance{Placement: p, Placed: true, Holder: fmt.Sprintf("a/x-%d", i)})
	}
	return plan.Snapshot{Now: epoch, Nodes: []plan.Node{{Name: "n1", Ready: true, Cards: []plan.Card{c}}}}
}

func mostBeside(t *mig.Table, held mig.Layout, p mig.Profile) int {
	most := 0
	for _, l := range t.Maximal() {
		n, kept := 0, 0
		for _, q := range l {
			isHeld := false
			for _, h := range held {
				isHeld = isHeld || h == q
			}
			if isHeld {
				kept++
			} else if q.Profile == p {
				n++
			}
		}
		if kept == len(held) {
			most = max(most, n)
		}
	}
	return most
}

// TestUnplaced: where only counts are known nothing but what is free now is
// promised while anything is held; once nothing is, everything is.
func TestUnplaced(t *testing.T) {
	table, _ := mig.ForModel("H100-80GB")
	one, _ := table.Exact("1g.10gb")
	for held, want := range map[string]int{"a/x": 0, "": 2} {
		s := oneCard("H100-80GB", nil)
		for i := range 4 {
			in := plan.Instance{Placement: mig.Placement{Profile: one}}
			if i == 0 {
				in.Holder = held
			}
			s.Nodes[0].Cards[0].Instances = append(s.Nodes[0].Cards[0].Instances, in)
		}
		sv := capacity.NewSurvey(s, capacity.DefaultRules())
		checkSurvey(t, sv)
		for _, r := range sv.Room() {
			if r.Name == "3g.40gb" && r.Possible != want {
				t.Errorf("held by %q: %d possible, want %d", held, r.Possible, want)
			}
		}
		// Three of seven compute slices and four of eight memory slices are not cut;
		// a 3g, or a 2g and a 1g, could cover them if they lie well.
		if got := sv.Stranded()[0]; got.Cause != capacity.Uncut || got.Size != (capacity.Size{Compute: 360, Memory: 420}) {
			t.Errorf("held by %q: %+v", held, got)
		}
	}
}

// TestIllegible: what cannot be true is unknown, never free.
func TestIllegible(t *testing.T) {
	table, _ := mig.ForModel("H100-80GB")
	seven, _ := table.Exact("7g.80gb")
	whole := plan.Instance{Placement: mig.Placement{Profile: seven}, Placed: true}
	for name, spoil := range map[string]func(c *plan.Card){
		"two whole instances": func(c *plan.Card) { c.Instances = []plan.Instance{whole, whole} },
		"two whole instances, somewhere": func(c *plan.Card) {
			c.Instances = []plan.Instance{{Placement: whole.Placement}, {Placement: whole.Placement}}
		},
		"no table":              func(c *plan.Card) { c.Model = gpu.Model{Name: "H9000"} },
		"instances without MIG": func(c *plan.Card) { c.MIG, c.Instances = false, []plan.Instance{whole} },
		"holders of a MIG card": func(c *plan.Card) { c.Holders = []string{"a/x"} },
		"holders not known":     func(c *plan.Card) { c.HoldersKnown = false },
	} {
		s := oneCard("H100-80GB", nil)
		spoil(&s.Nodes[0].Cards[0])
		sv := capacity.NewSurvey(s, capacity.DefaultRules())
		checkSurvey(t, sv)
		if c := sv.Cards[0]; c.State != capacity.Unknown || len(c.Parts) != 1 || c.Parts[0].State != capacity.Unknown {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// TestSickAndUnknown: of a card that is out of service anyway, nobody is said to
// hold what nobody knows.
func TestSickAndUnknown(t *testing.T) {
	s := oneCard("L40S", nil)
	c := &s.Nodes[0].Cards[0]
	c.MIG, c.Holders, c.Health, c.HoldersKnown = false, []string{"a/x"}, gpu.Sick, false
	if got := capacity.NewSurvey(s, capacity.DefaultRules()).Cards[0]; got.State != capacity.Sick || got.Parts[0].Holder != "" {
		t.Errorf("%+v", got)
	}
}

// TestManySharers: eleven pods share a card, and nothing is lost by dividing.
func TestManySharers(t *testing.T) {
	s := oneCard("L40S", nil)
	c := &s.Nodes[0].Cards[0]
	c.MIG = false
	for i := range 11 {
		c.Holders = append(c.Holders, fmt.Sprint("a/x-", i))
	}
	sv := capacity.NewSurvey(s, capacity.DefaultRules())
	checkSurvey(t, sv)
	for _, p := range sv.Cards[0].Parts {
		if p.State != capacity.Held || p.Size.Compute < 76 || p.Size.Compute > 77 {
			t.Errorf("%+v", p)
		}
	}
}

// TestPoolRules: the price of a node is spread over its cards, a node that is being
// drained counts as cordoned, and only profiles that a pool allows are promised.
func TestPoolRules(t *testing.T) {
	s := oneCard("H100-80GB", nil)
	table, _ := mig.ForModel("H100-80GB")
	three, _ := table.Exact("3g.40gb")
	n := &s.Nodes[0]
	n.Cards = append(n.Cards, n.Cards[0])
	n.Cards[1].Index = 1
	n.Pool = "p"
	s.Pools = []plan.Pool{{Name: "p", PricePerHour: 8, MIG: plan.PoolMIG{Repartition: true, Allowed: []mig.Profile{three}}}}
	sv := capacity.NewSurvey(s, capacity.DefaultRules())
	for _, r := range sv.Room() {
		if want := map[string]int{"3g.40gb": 4}[r.Name]; r.Allowed != want {
			t.Errorf("%s: %d allowed, want %d", r.Name, r.Allowed, want)
		}
	}
	if sv.Cards[1].PricePerHour != 4 {
		t.Errorf("a card of two costs %g of 8", sv.Cards[1].PricePerHour)
	}
	n.Cordoned, n.CordonedBy, n.Drain = true, "op", &plan.Draining{}
	if got := capacity.NewSurvey(s, capacity.DefaultRules()).Cards[0].State; got != capacity.Cordoned {
		t.Errorf("on a node being drained: %s", got)
	}
}

// TestStaleBusy: a ratio that is too old is not known.
func TestStaleBusy(t *testing.T) {
	s := oneCard("L40S", nil)
	c := &s.Nodes[0].Cards[0]
	c.MIG, c.Holders = false, []string{"a/x"}
	for age, want := range map[time.Duration]bool{4 * time.Minute: true, 6 * time.Minute: false} {
		c.Busy = sample.Known(0.5, age)
		sv := capacity.NewSurvey(s, capacity.DefaultRules())
		if _, known := sv.Cards[0].Parts[0].Busy.Get(); known != want {
			t.Errorf("%s old: known is %v", age, known)
		}
	}
}

// world draws a cluster in any state, some of it impossible.
func world(t *rapid.T, now time.Time) plan.Snapshot {
	s := plan.Snapshot{Now: now, Pools: []plan.Pool{{Name: "p", PricePerHour: 8, Target: 3, Size: 2, Template: plan.Template{Cards: make([]plan.Card, 2)},
		MIG: plan.PoolMIG{Repartition: true, KeepsBusy: rapid.Bool().Draw(t, "keeps")}}}}
	flag := func(name string, of int) bool { return rapid.IntRange(0, of).Draw(t, name) == 0 }
	for n := range rapid.IntRange(0, 4).Draw(t, "nodes") {
		node := plan.Node{Name: fmt.Sprint("n", n), Pool: rapid.SampledFrom([]string{"", "p"}).Draw(t, "pool"), Ready: !flag("unready", 5),
			Cordoned: flag("cordoned", 5), Created: now.Add(-time.Duration(rapid.IntRange(0, 60).Draw(t, "age")) * time.Minute),
			CPUMilli: int64(rapid.IntRange(0, 4).Draw(t, "cpu")) * 1000, MemoryMi: int64(rapid.IntRange(0, 2).Draw(t, "memory"))}
		if flag("cut", 4) {
			node.Cordoned, node.CordonedBy, node.Operation = true, "op", &plan.Operation{ID: "op"}
		}
		if flag("tainted", 5) {
			node.Taints = []plan.Taint{{Key: "k", Effect: "NoSchedule"}}
		}
		for c := range rapid.IntRange(0, 3).Draw(t, "cards") {
			node.Cards = append(node.Cards, drawCard(t, flag, c))
		}
		s.Nodes = append(s.Nodes, node)
	}
	for i := range rapid.IntRange(0, 5).Draw(t, "pods") {
		p := plan.Pod{Namespace: "a", Name: fmt.Sprint("x-", i), Tenant: rapid.SampledFrom([]string{"", "red"}).Draw(t, "tenant"),
			CPUMilli: int64(rapid.IntRange(0, 3).Draw(t, "pod cpu")) * 1000, MemoryMi: int64(rapid.IntRange(0, 2).Draw(t, "pod memory")), PendingSince: now}
		if flag("bound", 1) {
			p.Node = "n0"
		}
		switch rapid.IntRange(0, 3).Draw(t, "demand") {
		case 0:
			p.Demand = demand.Demand{Cards: rapid.IntRange(0, 3).Draw(t, "wanted"), Vendor: "nvidia"}
		case 1:
			p.Demand.MIG = []demand.Instances{{Name: "3g.40gb", Profile: mig.Profile{Compute: 3}, MemoryGB: 40, Count: rapid.IntRange(1, 2).Draw(t, "count")}}
		case 2:
			p.Demand.Fraction = &demand.Fraction{CoreMilli: rapid.IntRange(0, 1200).Draw(t, "core"), MemoryMiB: rapid.IntRange(0, 50000).Draw(t, "mib")}
		}
		s.Pods = append(s.Pods, p)
	}
	return s
}

func drawCard(t *rapid.T, flag func(string, int) bool, index int) plan.Card {
	m, _ := gpu.ParseProduct(rapid.SampledFrom([]string{"H100-80GB", "A30-24GB", "RTX-PRO-6000", "L40S"}).Draw(t, "model"))
	c := plan.Card{Device: gpu.Device{Index: index, Model: m, Health: gpu.Health(rapid.IntRange(0, 2).Draw(t, "health"))}, HoldersKnown: !flag("unknown", 6)}
	table, ok := mig.ForModel(m.Name)
	if c.MIG = ok && flag("mig", 1); !c.MIG {
		for i := range rapid.IntRange(0, 3).Draw(t, "holders") {
			c.Holders = append(c.Holders, fmt.Sprint("a/x-", i))
		}
		return c
	}
	placed := !flag("unplaced", 4)
	for _, p := range rapid.SampledFrom(table.Maximal()).Draw(t, "layout") {
		in := plan.Instance{Placement: p, Placed: placed}
		if flag("gone", 4) {
			continue
		}
		if flag("held", 1) {
			in.Holder, in.Busy = "a/x-0", sample.Known(rapid.Float64Range(0, 1).Draw(t, "busy"), 0)
		}
		c.Instances = append(c.Instances, in)
		if flag("impossible", 30) {
			c.Instances = append(c.Instances, in)
		}
	}
	return c
}

// TestWorlds surveys clusters in any state, one after the other, and adds them up:
// the parts are the cards, the places are the capacity, the order of a snapshot's
// slices does not show, and what is unknown is not free.
func TestWorlds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := capacity.NewLedger(capacity.LedgerOptions{})
		now, cards, want := epoch, 0, int64(0)
		for range rapid.IntRange(1, 6).Draw(rt, "observations") {
			passed := time.Duration(rapid.IntRange(1, 1000000).Draw(rt, "ms")) * time.Millisecond
			now = now.Add(passed)
			s := world(rt, now)
			sv := capacity.NewSurvey(s, capacity.DefaultRules())
			checkSurvey(t, sv)
			want += int64(cards) * capacity.CardShares * passed.Milliseconds()
			cards = 0
			for _, n := range s.Nodes {
				cards += len(n.Cards)
				if len(n.Cards) == 0 && n.Pool == "p" {
					cards += 2
				}
			}
			must(rt, l.Add(sv.Observation()))
			if got := l.Totals(); got.Check() != nil || int64(got.Capacity) != want {
				rt.Fatalf("capacity %d, want %d: %v", got.Capacity, want, got.Check())
			}
			if text := tables(sv); text != tables(capacity.NewSurvey(shuffled(s), capacity.DefaultRules())) {
				rt.Fatalf("in another order the tables differ from\n%s", text)
			}
		}
	})
}

func tables(sv capacity.Survey) string {
	return strings.Join([]string{sv.Supply(capacity.ByNode).String(), sv.Pending(nil).String(), sv.Held().String(), sv.Stranded().String(), sv.Room().String()}, "\n")
}

func shuffled(s plan.Snapshot) plan.Snapshot {
	r := rand.New(rand.NewSource(1))
	mix := func(list any) {
		swap := reflect.Swapper(list)
		r.Shuffle(reflect.ValueOf(list).Len(), swap)
	}
	s.Nodes = append([]plan.Node(nil), s.Nodes...)
	s.Pods = append([]plan.Pod(nil), s.Pods...)
	mix(s.Nodes)
	mix(s.Pods)
	for n := range s.Nodes {
		s.Nodes[n].Cards = append([]plan.Card(nil), s.Nodes[n].Cards...)
		mix(s.Nodes[n].Cards)
	}
	return s
}
