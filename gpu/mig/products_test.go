package mig

import (
	"slices"
	"testing"
)

// geometries are the placements that nvidia-smi lists for each kind of GPU:
// starts, size and maximum. The names are by compute slices; "1g.dbl" has the
// memory of two.
var geometries = map[string]map[string]struct {
	starts    []int
	size, max int
}{
	"seven": {
		"1g":     {[]int{0, 1, 2, 3, 4, 5, 6}, 1, 7},
		"1g+me":  {[]int{0, 1, 2, 3, 4, 5, 6}, 1, 1},
		"1g.dbl": {[]int{0, 2, 4, 6}, 2, 4},
		"2g":     {[]int{0, 2, 4}, 2, 3},
		"3g":     {[]int{0, 4}, 4, 2},
		"4g":     {[]int{0}, 4, 1},
		"7g":     {[]int{0}, 8, 1},
	},
	"a30": {
		"1g":    {[]int{0, 1, 2, 3}, 1, 4},
		"1g+me": {[]int{0, 1, 2, 3}, 1, 1},
		"2g":    {[]int{0, 2}, 2, 2},
		"2g+me": {[]int{0, 2}, 2, 1},
		"4g":    {[]int{0}, 4, 1},
	},
	"rtxpro6000": {
		"1g":        {[]int{0, 3, 6, 9}, 3, 4},
		"1g+me":     {[]int{0, 3, 6, 9}, 3, 1},
		"1g+gfx":    {[]int{0, 3, 6, 9}, 3, 4},
		"1g+me.all": {[]int{0, 3, 6, 9}, 3, 1},
		"1g-me":     {[]int{0, 3, 6, 9}, 3, 4},
		"2g":        {[]int{0, 6}, 6, 2},
		"2g+gfx":    {[]int{0, 6}, 6, 2},
		"2g+me.all": {[]int{0, 6}, 6, 1},
		"2g-me":     {[]int{0, 6}, 6, 2},
		"4g":        {[]int{0}, 12, 1},
		"4g+gfx":    {[]int{0}, 12, 1},
	},
}

// namedMemory is the memory in the names, in GB, as each product's driver
// prints it.
var namedMemory = map[string]struct {
	geometry        string
	compute, memory int
	gb              map[string]int
}{
	"A30-24GB":                    {"a30", 4, 4, four4(6, 12, 24)},
	"A100-40GB":                   {"seven", 7, 8, seven7(5, 10, 10, 20, 20, 40)},
	"A800-40GB":                   {"seven", 7, 8, seven7(5, 10, 10, 20, 20, 40)},
	"A100-80GB":                   {"seven", 7, 8, seven7(10, 20, 20, 40, 40, 80)},
	"A800-80GB":                   {"seven", 7, 8, seven7(10, 20, 20, 40, 40, 80)},
	"H100-80GB":                   {"seven", 7, 8, seven7(10, 20, 20, 40, 40, 80)},
	"H800-80GB":                   {"seven", 7, 8, seven7(10, 20, 20, 40, 40, 80)},
	"H100-NVL-94GB":               {"seven", 7, 8, seven7(12, 24, 24, 47, 47, 94)},
	"H800-NVL":                    {"seven", 7, 8, seven7(12, 24, 24, 47, 47, 94)},
	"H100-96GB":                   {"seven", 7, 8, seven7(12, 24, 24, 48, 48, 96)},
	"GH200-96GB":                  {"seven", 7, 8, seven7(12, 24, 24, 48, 48, 96)},
	"H20":                         {"seven", 7, 8, seven7(12, 24, 24, 48, 48, 96)},
	"PG506":                       {"seven", 7, 8, seven7(12, 24, 24, 48, 48, 96)},
	"GH200-144GB":                 {"seven", 7, 8, seven7(18, 36, 36, 72, 72, 144)},
	"H200-141GB":                  {"seven", 7, 8, seven7(18, 35, 35, 71, 71, 141)},
	"H200-NVL":                    {"seven", 7, 8, seven7(18, 35, 35, 71, 71, 141)},
	"B200-180GB":                  {"seven", 7, 8, seven7(23, 45, 45, 90, 90, 180)},
	"GB200-186GB":                 {"seven", 7, 8, seven7(23, 47, 47, 93, 93, 186)},
	"B300":                        {"seven", 7, 8, seven7(34, 67, 67, 135, 135, 269)},
	"GB300":                       {"seven", 7, 8, seven7(35, 70, 70, 139, 139, 278)},
	"RTX-PRO-6000-Blackwell-96GB": {"rtxpro6000", 4, 12, four4(24, 48, 96)},
}

func four4(g1, g2, g4 int) map[string]int { return map[string]int{"1g": g1, "2g": g2, "4g": g4} }

func seven7(g1, dbl, g2, g3, g4, g7 int) map[string]int {
	return map[string]int{"1g": g1, "1g.dbl": dbl, "2g": g2, "3g": g3, "4g": g4, "7g": g7}
}

func TestEveryProduct(t *testing.T) {
	if got, want := len(Models()), len(namedMemory); got != want {
		t.Errorf("%d products, want %d: %v", got, want, Models())
	}
	for model, want := range namedMemory {
		tab, ok := ForModel(model)
		if !ok {
			t.Errorf("%s: no table", model)
			continue
		}
		if tab.ComputeSlices() != want.compute || tab.MemorySlices() != want.memory {
			t.Errorf("%s: %d compute and %d memory slices", model, tab.ComputeSlices(), tab.MemorySlices())
		}
		if got := len(tab.Profiles()); got != len(geometries[want.geometry]) {
			t.Errorf("%s: %d profiles, want %d", model, got, len(geometries[want.geometry]))
		}
		for key, place := range geometries[want.geometry] {
			base, attrs := key, Attr(0)
			if key != "1g.dbl" {
				n, err := ParseName(key)
				if err != nil {
					t.Fatal(err)
				}
				base, attrs = Name{Compute: n.Compute}.String(), n.Attrs
			}
			name := Name{Compute: int(key[0] - '0'), GB: want.gb[base], Attrs: attrs}.String()
			p, ok := tab.Exact(name)
			if !ok || tab.Name(p) != name || p.Memory != place.size || p.Attrs != attrs ||
				!slices.Equal(tab.Starts(p), place.starts) || most(tab, p) != place.max {
				t.Errorf("%s %s: %v %v, starts %v, at most %d", model, name, p, ok, tab.Starts(p), most(tab, p))
			}
		}
	}
}

// TestLookup: compute slices and attributes must agree, memory is rounded as by
// other drivers. Where the name has no memory it is the profile with the least.
func TestLookup(t *testing.T) {
	for _, c := range []struct{ model, name, want string }{
		{"A100-80GB", "4g.39gb", "4g:4"},
		{"A100-80GB", "7g.79gb", "7g:8"},
		{"H100-80GB", "3g.39gb", "3g:4"},
		{"H100-NVL-94GB", "4g.48gb", "4g:4"},
		{"GH200-96GB", "7g.94gb", "7g:8"},
		{"H200-141GB", "1g.36gb", "1g:2"},
		{"GB200-186GB", "7g.189gb", "7g:8"},
		{"GB200-186GB", "1g.24gb+me", "1g+me:1"},
		{"A100-40GB", "1g.6gb", "1g:1"},
		{"H100-80GB", "1g.10gb.me", "1g+me:1"},
		{"H100-80GB", "1g", "1g:1"},
		{"H100-80GB", "1g+me", "1g+me:1"},
		{"RTX-PRO-6000-Blackwell-96GB", "1g.24gb.me.all", "1g+me.all:3"},
		{"RTX-PRO-6000-Blackwell-96GB", "1g.24gb-me", "1g-me:3"},
		{"RTX-PRO-6000-Blackwell-96GB", "2g.48gb.gfx", "2g+gfx:6"},
	} {
		tab, _ := ForModel(c.model)
		if p, err := tab.Lookup(c.name); err != nil || p.String() != c.want {
			t.Errorf("%s %s: got %s, %v, want %s", c.model, c.name, p, err, c.want)
		}
	}
	for _, c := range [][2]string{{"A100-40GB", "3g.40gb"}, {"A100-80GB", "3g.20gb"}, {"H100-80GB", "6g.80gb"}, {"A30-24GB", "4g.24gb+me"}} {
		tab, _ := ForModel(c[0])
		if p, err := tab.Lookup(c[1]); err == nil {
			t.Errorf("%s %s: is %s, and should be none", c[0], c[1], p)
		}
	}
}

// most is how many instances of p a GPU can have.
func most(t *Table, p Profile) int {
	e, _ := t.find(p)
	return e.max
}
