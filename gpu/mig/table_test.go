package mig

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/internal/require"
)

// table returns a product's table, or one reduced to some of its profiles.
func table(t testing.TB, model string, profiles ...string) *Table {
	t.Helper()
	full, ok := ForModel(model)
	if !ok {
		t.Fatalf("no product %s", model)
	}
	s := full.Spec()
	s.Profiles = slices.DeleteFunc(s.Profiles, func(ps ProfileSpec) bool {
		return len(profiles) > 0 && !slices.Contains(profiles, ps.Name)
	})
	tab, err := NewTable(s)
	require.NoError(t, err)
	return tab
}

// TestMaximalLayouts: NVIDIA publishes nineteen layouts for the classic seven-slice profiles; the
// other figures follow from the same rules and were counted by hand or twice.
func TestMaximalLayouts(t *testing.T) {
	classic := []string{"1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"}
	for _, c := range []struct {
		name            string
		table           *Table
		sets, multisets int
	}{
		{"seven, classic", table(t, "A100-40GB", classic...), 19, 14},
		{"seven, with fake memory", table(t, "A100-40GB", append(classic, "1g.10gb")...), 78, 38},
		{"seven, with +me too", table(t, "A100-40GB"), 239, 64},
		{"A30", table(t, "A30-24GB", "1g.6gb", "2g.12gb", "4g.24gb"), 5, 4},
		{"A30, with +me", table(t, "A30-24GB"), 17, 8},
		{"RTX PRO 6000", table(t, "RTX-PRO-6000-Blackwell-96GB", "1g.24gb", "2g.48gb", "4g.96gb"), 5, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			sets := c.table.Maximal()
			if len(sets) != c.sets {
				t.Errorf("%d maximal layouts, want %d", len(sets), c.sets)
			}
			if got := multisets(sets); got != c.multisets {
				t.Errorf("%d multisets, want %d", got, c.multisets)
			}
		})
	}
}

func multisets(layouts []Layout) int {
	seen := map[string]bool{}
	for _, l := range layouts {
		var b strings.Builder
		for _, c := range Counts(l) {
			b.WriteString(strings.Repeat(c.Profile.String()+" ", c.N))
		}
		seen[b.String()] = true
	}
	return len(seen)
}

// A layout in slices can be parsed without a table.
func TestEveryMaximalLayoutIsLegalAndFull(t *testing.T) {
	for _, model := range Models() {
		tab, _ := ForModel(model)
		for _, l := range tab.Maximal() {
			if err := tab.Legal(l); err != nil {
				t.Errorf("%s: %s: %v", model, tab.Format(l), err)
			}
			if free := tab.Free(l); len(free) > 0 {
				t.Errorf("%s: %s is not maximal: %v", model, tab.Format(l), free)
			}
			if got, err := ParseSlices(l.String()); err != nil || !got.Equal(l) {
				t.Fatalf("%s: %s is read as %s: %v", model, l, got, err)
			}
		}
	}
}

func TestProductsWithoutMIG(t *testing.T) {
	for _, label := range []string{"Tesla-V100-SXM2-32GB", "Tesla-T4", "NVIDIA-L4", "NVIDIA-L40S", "NVIDIA-A10", "MI300X", "RTX-PRO-5000-48GB", "", "cabbage"} {
		if tab, ok := ForModel(label); ok {
			t.Errorf("%q has a table: %s", label, tab.Model())
		}
	}
}

func TestEveryTableKnowsItsMemory(t *testing.T) {
	for _, model := range Models() {
		m, ok := gpu.ParseProduct(model)
		if !ok || m.Name != model {
			t.Errorf("gpu does not know %s", model)
		}
		tab, _ := ForModel(model)
		for _, p := range tab.Profiles() {
			n, err := ParseName(tab.Name(p))
			require.NoError(t, err)
			// The GB in a name are the instance's share, within rounding.
			if got := float64(tab.MemoryMiB(p)) / 1024; got < 0.85*float64(n.GB)-1 || got > 1.1*float64(n.GB)+1 {
				t.Errorf("%s %s: %.1f GiB", model, tab.Name(p), got)
			}
		}
	}
	h100, _ := ForModel("H100-80GB")
	if got := h100.MemoryMiB(Profile{3, 4, 0}); got != 81559/2 {
		t.Errorf("3g.40gb has %d MiB", got)
	}
	if got := h100.MemoryMiB(Profile{5, 5, 0}); got != 0 {
		t.Errorf("a profile that is not there has %d MiB", got)
	}
}

func TestNewTableRefuses(t *testing.T) {
	good := func() Spec {
		return Spec{Model: "X", ComputeSlices: 2, MemorySlices: 2, Profiles: []ProfileSpec{
			{Profile: Profile{1, 1, 0}, Name: "1g.16gb", Starts: []int{0, 1}, Max: 2},
			{Profile: Profile{2, 2, 0}, Name: "2g.32gb", Starts: []int{0}, Max: 1},
		}}
	}
	if tab, err := NewTable(good()); err != nil || len(tab.Maximal()) != 2 {
		t.Fatalf("a good table: %v", err)
	}
	for why, break_ := range map[string]func(*Spec){
		"no model name":           func(s *Spec) { s.Model = "" },
		"want 1 … 16":             func(s *Spec) { s.MemorySlices = 17 },
		"does not fit 2":          func(s *Spec) { s.Profiles[0].Starts = []int{2} },
		"max 0":                   func(s *Spec) { s.Profiles[0].Max = 0 },
		"no starts":               func(s *Spec) { s.Profiles[0].Starts = nil },
		"do not fit the GPU":      func(s *Spec) { s.Profiles[1].Memory = 3 },
		"the name does not match": func(s *Spec) { s.Profiles[1].Name = "3g.32gb" },
		"has no memory":           func(s *Spec) { s.Profiles[1].Name = "2g" },
		"two profiles are called": func(s *Spec) { s.Profiles[0] = s.Profiles[1] },
		"are the same profile":    func(s *Spec) { s.Profiles[0] = s.Profiles[1]; s.Profiles[0].Name = "2g.33gb" },
		"1 media engines of 0":    func(s *Spec) { s.Profiles[0].Media = 1 },
		`MIG profile "16gb"`:      func(s *Spec) { s.Profiles[0].Aliases = []string{"16gb"} },
	} {
		s := good()
		break_(&s)
		if _, err := NewTable(s); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("want %q, got %v", why, err)
		}
	}
}

// TestNewTableBoundsItsLayouts: an unrealistic table is an error, not an
// endless search.
func TestNewTableBoundsItsLayouts(t *testing.T) {
	s := Spec{Model: "X", ComputeSlices: 16, MemorySlices: 16}
	var starts []int
	for i := range 16 {
		starts = append(starts, i)
	}
	for i, attr := range []Attr{0, AttrMedia, AttrGraphics, AttrNoMedia} {
		name := Name{Compute: 1, GB: i + 1, Attrs: attr}
		s.Profiles = append(s.Profiles, ProfileSpec{Profile: Profile{1, 1, attr}, Name: name.String(), Starts: starts, Max: 16})
	}
	if _, err := NewTable(s); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("got %v", err)
	}
}
