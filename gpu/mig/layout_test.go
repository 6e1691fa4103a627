package mig

import (
	"pgregory.net/rapid"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
)

func TestMain(m *testing.M) { testall.Main(m) }

func parse(t testing.TB, tab *Table, s string) Layout {
	t.Helper()
	l, err := ParseLayout(tab, s)
	require.NoError(t, err)
	return l
}

func TestParseLayout(t *testing.T) {
	tab, _ := ForModel("H100-80GB")
	for in, want := range map[string]string{
		"":                         "empty",
		"empty":                    "empty",
		"3g.40gb@4 3g.40gb@0":      "3g.40gb@0 3g.40gb@4",
		"3g@0 1g@4":                "3g.40gb@0 1g.10gb@4",
		"3g@0:4 1g@4:2":            "3g.40gb@0 1g.20gb@4",
		" 1g.20gb@6\t1g.10gb+me@0": "1g.10gb+me@0 1g.20gb@6",
		"1g.10gb.me@3":             "1g.10gb+me@3",
	} {
		if got := tab.Format(parse(t, tab, in)); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
	if got := parse(t, tab, "1g.20gb@6 3g.40gb@0").String(); got != "3g@0:4 1g@6:2" {
		t.Errorf("String: %s", got)
	}
}

func TestParseLayoutRefuses(t *testing.T) {
	tab, _ := ForModel("H100-80GB")
	for in, want := range map[string]string{
		"3g.40gb":             "want profile@start",
		"3g.40gb@x":           "the start is not a memory slice",
		"3g.40gb@300":         "the start is not a memory slice",
		"3g.40gb@2":           "may start at [0 4]",
		"3g.40gb@0 4g.40gb@0": "overlaps",
		"7g@0:7":              "has no such profile",
		"1g@0:3":              "has no such profile",
		"1g@0:x":              "not a number of memory slices",
		"1g+me@0 1g+me@1":     "at most 1 of 1g.10gb+me",
		"9g@0":                "has none with these compute slices",
	} {
		if _, err := ParseLayout(tab, in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", in, err, want)
		}
	}
}

// TestMediaEngines: on RTX PRO 6000, +me.all takes every decoder, so that only
// instances without media engines fit beside it.
func TestMediaEngines(t *testing.T) {
	tab, _ := ForModel("RTX-PRO-6000-Blackwell-96GB")
	if _, err := ParseLayout(tab, "1g.24gb+me.all@0 1g.24gb@3"); err == nil || !strings.Contains(err.Error(), "media engine 5 of 4") {
		t.Errorf("got %v", err)
	}
	parse(t, tab, "1g.24gb+me.all@0 1g.24gb-me@3 2g.48gb-me@6")
	parse(t, tab, "1g.24gb+me@0 1g.24gb+gfx@3 2g.48gb@6")
}

func TestFreeAndStrandedSlices(t *testing.T) {
	tab, _ := ForModel("H100-80GB")
	for in, want := range map[string][3]int{ // compute, memory, free placements
		"":                                   {7, 8, 25},
		"3g@0 3g@4":                          {1, 0, 0},
		"1g@0 1g@1 1g@2 1g@3 1g@4 1g@5 1g@6": {0, 1, 0},
		"4g@0 3g@4":                          {0, 0, 0},
		"2g@0 2g@2":                          {3, 4, 3 + 3 + 2 + 1 + 1}, // 1g, 1g+me, 1g double, 2g, 3g
	} {
		l := parse(t, tab, in)
		compute, memory := tab.FreeSlices(l)
		if got := [3]int{compute, memory, len(tab.Free(l))}; got != want {
			t.Errorf("%q: got %v, want %v", in, got, want)
		}
	}
}

func TestArrange(t *testing.T) {
	tab, _ := ForModel("H100-80GB")
	for _, c := range []struct{ keep, want, got string }{
		{"", "3g×2", "3g.40gb@0 3g.40gb@4"},
		{"", "1g×1", "1g.10gb@6"},                // leaves 4g and 2g placeable
		{"", "3g×1 1g×3", "1g@0 1g@1 1g@2 3g@4"}, // strands no slice, unlike 3g@0 1g@4 …
		{"1g@5", "3g×1", "3g.40gb@0 1g.10gb@5"},
		{"1g@1", "3g×1", "1g.10gb@1 3g.40gb@4"},
		{"1g@1 1g@5", "3g×1", "no"},
		{"1g@0", "4g×1", "no"},
		{"3g@0 3g@4", "1g×1", "no"}, // a compute slice is left, but no memory
		{"", "1g×8", "no"},
		{"", "1g+me×2", "no"},
		{"1g+me@0", "1g+me×1", "no"},
		{"", "1g×1000000", "no"},
		{"4g@0", "", "4g.40gb@0"},
		{"", "2g×3 1g×1", "2g.20gb@0 2g.20gb@2 2g.20gb@4 1g.10gb@6"},
	} {
		var want []Count
		for _, w := range strings.Fields(c.want) {
			name, n, _ := strings.Cut(w, "×")
			p, err := tab.Lookup(name)
			require.NoError(t, err)
			count, err := strconv.Atoi(n)
			require.NoError(t, err)
			want = append(want, Count{p, count})
		}
		expected := c.got
		if expected != "no" {
			expected = tab.Format(parse(t, tab, c.got))
		}
		for range 2 { // in either order
			got := "no"
			if l, ok := tab.Arrange(parse(t, tab, c.keep), want); ok {
				got = tab.Format(l)
			}
			if got != expected {
				t.Errorf("%q and %q: got %s, want %s", c.keep, c.want, got, expected)
			}
			slices.Reverse(want)
		}
	}
	if _, ok := tab.Arrange(nil, []Count{{Profile{6, 6, 0}, 1}}); ok {
		t.Error("arranged a profile the product does not have")
	}
	if _, ok := tab.Arrange(Layout{{Profile{3, 4, 0}, 1}}, nil); ok {
		t.Error("arranged beside an illegal layout")
	}
}

// TestArrangeFindsWhatThereIs: any part of a legal layout can be kept while the rest is placed again. The result is
// legal and contains both, and Diff leads to it.
func TestArrangeFindsWhatThereIs(t *testing.T) {
	for _, model := range []string{"H100-80GB", "A30-24GB", "RTX-PRO-6000-Blackwell-96GB"} {
		tab, _ := ForModel(model)
		rapid.Check(t, func(r *rapid.T) {
			whole := rapid.SampledFrom(tab.Maximal()).Draw(r, "layout")
			var keep, rest Layout
			for _, p := range whole {
				if rapid.Bool().Draw(r, "keep") {
					keep = append(keep, p)
				} else {
					rest = append(rest, p)
				}
			}
			got, ok := tab.Arrange(keep, Counts(rest))
			if !ok {
				r.Fatalf("nothing found, though there is %s", tab.Format(whole))
			}
			require.NoError(r, tab.Legal(got))
			if !slices.Equal(Counts(got), Counts(whole)) {
				r.Fatalf("got %s for %s", tab.Format(got), tab.Format(whole))
			}
			busy := func(p Placement) bool { return slices.Contains(keep, p) }
			steps, err := Diff(whole, got, busy)
			require.NoError(r, err)
			apply(r, tab, whole, steps, got)
		})
	}
}

// TestDiffFromAnyToAny: between any layouts no step touches a busy instance,
// every intermediate layout is legal, and the last one is the target. It fails
// only where a busy instance is not in the target.
func TestDiffFromAnyToAny(t *testing.T) {
	for _, model := range []string{"H100-80GB", "A30-24GB", "RTX-PRO-6000-Blackwell-96GB"} {
		tab, _ := ForModel(model)
		some := rapid.Custom(func(r *rapid.T) Layout {
			var l Layout
			for _, p := range rapid.SampledFrom(tab.Maximal()).Draw(r, "layout") {
				if rapid.IntRange(0, 3).Draw(r, "there") > 0 {
					l = append(l, p)
				}
			}
			return l
		})
		rapid.Check(t, func(r *rapid.T) {
			from, to := some.Draw(r, "from"), some.Draw(r, "to")
			var busy, homeless Layout
			for _, p := range from {
				if rapid.IntRange(0, 3).Draw(r, "busy") == 0 {
					busy = append(busy, p)
					if !slices.Contains(to, p) {
						homeless = append(homeless, p)
					}
				}
			}
			steps, err := Diff(from, to, func(p Placement) bool { return slices.Contains(busy, p) })
			if (err != nil) != (len(homeless) > 0) {
				r.Fatalf("busy %v, of them %v not in %v: %v", busy, homeless, to, err)
			}
			if err != nil {
				if !strings.Contains(err.Error(), homeless[0].String()) {
					r.Fatalf("%v does not name %v", err, homeless[0])
				}
				return
			}
			created := false
			for _, s := range steps {
				if !s.Create && slices.Contains(busy, s.Placement) {
					r.Fatalf("%s: it is busy", s)
				}
				if !s.Create && created {
					r.Fatalf("%v: a destroy after a create", steps)
				}
				if slices.Contains(from, s.Placement) && slices.Contains(to, s.Placement) {
					r.Fatalf("%s: it may stay", s)
				}
				created = s.Create
			}
			apply(r, tab, from, steps, to)
		})
	}
}

// apply executes steps, each of which must be legal.
func apply(r *rapid.T, tab *Table, from Layout, steps []Step, to Layout) {
	now := slices.Clone(from)
	for _, s := range steps {
		if s.Create {
			now = NewLayout(append(slices.Clone(now), s.Placement)...)
		} else {
			i := slices.Index(now, s.Placement)
			if i < 0 {
				r.Fatalf("%s: is not there", s)
			}
			now = slices.Delete(now, i, i+1)
		}
		if err := tab.Legal(now); err != nil {
			r.Fatalf("after %s: %v", s, err)
		}
	}
	if !now.Equal(to) {
		r.Fatalf("steps lead to %s, not %s", tab.Format(now), tab.Format(to))
	}
}

func FuzzParseLayout(f *testing.F) {
	for _, s := range []string{"", "empty", "3g.40gb@0 1g.10gb@4", "3g@0:4", "1g+me@3", "1g@0 1g@1 1g@2", "@", "3g@", "1g@0:1:2"} {
		f.Add(s)
	}
	tab := table(f, "H100-80GB")
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ParseLayout(tab, s)
		if err != nil {
			return
		}
		for _, text := range []string{l.String(), tab.Format(l)} {
			if again, err := ParseLayout(tab, text); err != nil || !again.Equal(l) {
				t.Fatalf("%q is %q, which is %v, %v", s, text, again, err)
			}
		}
	})
}

func TestParseSlicesRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"3g.40gb@0": "want profile@start:size", "3g.40gb@0:4": "no memory in gb", "3g@0:4 1g@3:1": "another instance",
		"3g@14:4": "beyond the GPU", "3g@0:0": "beyond the GPU", "3g@-1:1": "start", "3g@0:x": "size", "g@0:1": "compute slices", "17g@0:1": "1 … 16",
	} {
		if _, err := ParseSlices(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if l, err := ParseSlices("empty"); err != nil || len(l) != 0 {
		t.Errorf("empty: %v %v", l, err)
	}
}

// TestSameProfile: all names of a profile match, and no two profiles of a
// product do.
func TestSameProfile(t *testing.T) {
	for _, model := range Models() {
		table, _ := ForModel(model)
		for i, e := range table.entries {
			for _, alias := range e.aliases {
				if !SameProfile(e.name, alias) {
					t.Errorf("%s: %s and %s are one profile", model, e.name, alias)
				}
			}
			for _, other := range table.entries[:i] {
				if SameProfile(e.name, other.name) {
					t.Errorf("%s: %s and %s are two profiles", model, e.name, other.name)
				}
			}
		}
	}
	if SameProfile("1g.10gb", "1g.10gb+me") || SameProfile("x", "y") || !SameProfile("x", "x") {
		t.Error("attributes or what is no name")
	}
}
