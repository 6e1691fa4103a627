package pack

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/testall"
)

func TestMain(m *testing.M) { testall.Main(m) }

// drawLayout adds random instances while any fits.
func drawLayout(r *rapid.T, t *mig.Table) mig.Layout {
	var l mig.Layout
	for range rapid.IntRange(0, 7).Draw(r, "instances") {
		free := t.Free(l)
		if len(free) == 0 {
			break
		}
		l = mig.NewLayout(append(l[:len(l):len(l)], rapid.SampledFrom(free).Draw(r, "placement"))...)
	}
	return l
}

// TestGeometryAgreesWithTheTable: for any layout, its state and the table agree
// on what can be added and what is free.
func TestGeometryAgreesWithTheTable(t *testing.T) {
	for _, model := range mig.Models() {
		tab := table(t, model)
		c := NewGeometry(tab)
		t.Logf("%s: %d states", model, c.States())
		rapid.Check(t, func(r *rapid.T) {
			l := drawLayout(r, tab)
			s := state(t, c, l)
			free := map[mig.Placement]bool{}
			for _, p := range tab.Free(l) {
				free[p] = true
			}
			for _, p := range tab.Profiles() {
				for _, step := range c.Steps(s, p) {
					at := mig.Placement{Profile: p, Start: step.Start}
					if !free[at] {
						r.Fatalf("%s: %v cannot be added to %v", model, at, l)
					}
					delete(free, at)
					next := state(t, c, mig.NewLayout(append(l[:len(l):len(l)], at)...))
					if next != step.To {
						r.Fatalf("%s: %v on %v leads to state %d, want %d", model, at, l, step.To, next)
					}
				}
			}
			if len(free) > 0 {
				r.Fatalf("%s: %v could be added to %v as well: %v", model, l, s, free)
			}
			if compute, _ := tab.FreeSlices(l); compute != c.Free(s) {
				r.Fatalf("%s: %d slices are free on %v, not %d", model, compute, l, c.Free(s))
			}
		})
	}
}

func state(t testing.TB, c *Geometry, l mig.Layout) int {
	t.Helper()
	s, err := c.State(l)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestGeometryRefuses(t *testing.T) {
	tab := table(t, "H100-80GB")
	c := NewGeometry(tab)
	p, _ := tab.Exact("3g.40gb")
	if s, err := c.State(mig.Layout{{Profile: p, Start: 0}, {Profile: p, Start: 2}}); err == nil {
		t.Errorf("two instances in one place are state %d", s)
	}
	if steps := c.Steps(0, mig.Profile{Compute: 5, Memory: 5}); steps != nil {
		t.Errorf("a profile that H100 does not have fits it: %v", steps)
	}
}

// TestOutlook: an expected value is between zero and what is free, and Place
// takes the start that costs least.
func TestOutlook(t *testing.T) {
	for _, model := range []string{"A30", "H100-80GB"} {
		tab := table(t, model)
		c := NewGeometry(tab)
		rapid.Check(t, func(r *rapid.T) {
			demand := map[mig.Profile]float64{}
			for _, p := range tab.Profiles() {
				demand[p] = float64(rapid.IntRange(0, 5).Draw(r, "share"))
			}
			o := NewOutlook(c, demand)
			s := rapid.IntRange(0, c.States()-1).Draw(r, "state")
			if left := o.Left(s); left < 0 || left > float64(c.Free(s)) {
				r.Fatalf("%v of %d slices stay empty", left, c.Free(s))
			}
			p := rapid.SampledFrom(tab.Profiles()).Draw(r, "profile")
			best, fits := o.Place(s, p)
			if fits != (len(c.Steps(s, p)) > 0) {
				r.Fatalf("Place returns %v, there are %v", fits, c.Steps(s, p))
			}
			for _, step := range c.Steps(s, p) {
				if o.Cost(step.To) < o.Cost(best.To) {
					r.Fatalf("%v costs %v, %v costs %v", best, o.Cost(best.To), step, o.Cost(step.To))
				}
			}
		})
	}
}

// TestOutlookPlaces: on an empty GPU, a 1g goes where it hurts 3g and 4g least.
func TestOutlookPlaces(t *testing.T) {
	tab := table(t, "H100-80GB")
	c := NewGeometry(tab)
	want := counts(t, tab, "1g.10gb", "3g.40gb", "4g.40gb", "2g.20gb")
	one, three, four, two := want[0].Profile, want[1].Profile, want[2].Profile, want[3].Profile
	o := NewOutlook(c, map[mig.Profile]float64{one: 1, three: 4, four: 4})
	tests := []struct {
		layout string
		p      mig.Profile
		want   int
	}{
		{"", three, 4},          // leaves 0 … 3, the only place of a 4g
		{"", one, 4},            // so does this
		{"4g.40gb@0", two, 4},   // leaves 6, one more 1g
		{"3g.40gb@0", one, 4},   // the other half is lost to 3g anyway
		{"4g.40gb@0", four, -1}, // there is no place
		{"3g.40gb@4", three, 0}, // the other half
		{"1g.10gb@6", three, 0}, // 4 … 7 is taken
		{"2g.20gb@0", three, 4}, // 0 … 3 is taken
		{"1g.10gb@0", four, -1}, // 4g begins at 0 only
		{"2g.20gb@4", one, 6},   // keeps 0 … 3 whole
		{"3g.40gb@0", three, 4}, // two halves
		{"7g.80gb@0", one, -1},  // full
		{"", four, 0},           // its only place
		{"1g.10gb@5", one, 4},   // beside the other
		{"3g.40gb@4", four, 0},  // full
	}
	for _, test := range tests {
		s := state(t, c, layout(t, tab, test.layout))
		step, ok := o.Place(s, test.p)
		got := step.Start
		if !ok {
			got = -1
		}
		if got != test.want {
			t.Errorf("%s on %q: at %d, want %d", tab.Name(test.p), test.layout, got, test.want)
		}
	}
}
