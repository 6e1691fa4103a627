package mig

import (
	"fmt"
	"sync"

	"github.com/gpuscale/gpuscale/gpu"
)

// ForModel returns the table of a product, by our name ("H100-80GB") or any
// spelling that gpu.ParseProduct knows. It is false for a product without MIG and
// for an unknown one.
func ForModel(name string) (*Table, bool) {
	table, ok := tables()[name]
	if !ok {
		model, _ := gpu.ParseProduct(name)
		table, ok = tables()[model.Name]
	}
	if !ok {
		return nil, false
	}
	return table(), true
}

// Models returns the names of all products that have a table, in a fixed order.
func Models() []string {
	var names []string
	for _, p := range products {
		names = append(names, p.models...)
	}
	return names
}

// tables by model. Each is built when it is first asked for, since a program reads few of
// them, and never changes. Tests check that all can be built.
var tables = sync.OnceValue(func() map[string]func() *Table {
	all := make(map[string]func() *Table)
	for _, p := range products {
		for _, model := range p.models {
			all[model] = sync.OnceValue(func() *Table { t, _ := NewTable(p.spec(model)); return t })
		}
	}
	return all
})

// product is one line of NVIDIA's list: the GPUs that share profile names.
type product struct {
	models   []string
	geometry []shape
	names    map[string]string   // by the shape's base name
	aliases  map[string][]string // other drivers' names
}

// shape is one profile of a geometry, before a product gives it a name.
type shape struct {
	base string // "1g", or "1g.dbl" for one compute and two memory slices
	Profile
	starts []int // first memory slices
	max    int   // instances a GPU can have
	media  int   // decoders an instance takes
}

func (p product) spec(model string) Spec {
	s := Spec{Model: model}
	if m, ok := gpu.ParseProduct(model); ok {
		s.MemoryMiB = m.MemoryMiB
	}
	for _, sh := range p.geometry {
		s.ComputeSlices = max(s.ComputeSlices, sh.Compute)
		s.MemorySlices = max(s.MemorySlices, sh.Memory)
		s.MediaEngines = max(s.MediaEngines, sh.media)
		ps := ProfileSpec{
			Profile: sh.Profile, Name: p.names[sh.base] + sh.Attrs.String(), Starts: sh.starts, Max: sh.max, Media: sh.media,
		}
		for _, alias := range p.aliases[sh.base] {
			ps.Aliases = append(ps.Aliases, alias+sh.Attrs.String())
		}
		s.Profiles = append(s.Profiles, ps)
	}
	return s
}

// seven is the geometry of A100 to B300: seven compute slices, eight of memory.
var seven = []shape{
	{"1g", Profile{1, 1, 0}, []int{0, 1, 2, 3, 4, 5, 6}, 7, 0},
	{"1g", Profile{1, 1, AttrMedia}, []int{0, 1, 2, 3, 4, 5, 6}, 1, 0},
	{"1g.dbl", Profile{1, 2, 0}, []int{0, 2, 4, 6}, 4, 0},
	{"2g", Profile{2, 2, 0}, []int{0, 2, 4}, 3, 0},
	{"3g", Profile{3, 4, 0}, []int{0, 4}, 2, 0},
	{"4g", Profile{4, 4, 0}, []int{0}, 1, 0},
	{"7g", Profile{7, 8, 0}, []int{0}, 1, 0},
}

// four is the geometry of A30. NVML's own instance counts are wrong for it. A GPU has one
// JPEG and one OFA engine, and an instance of a media profile takes both. So it has at
// most one such instance, of either size (NVIDIA's profile table).
var four = []shape{
	{"1g", Profile{1, 1, 0}, []int{0, 1, 2, 3}, 4, 0},
	{"1g", Profile{1, 1, AttrMedia}, []int{0, 1, 2, 3}, 1, 1},
	{"2g", Profile{2, 2, 0}, []int{0, 2}, 2, 0},
	{"2g", Profile{2, 2, AttrMedia}, []int{0, 2}, 1, 1},
	{"4g", Profile{4, 4, 0}, []int{0}, 1, 1},
}

// twelve is the geometry of RTX PRO 6000: four compute slices, twelve units of
// memory, four decoders. A profile with +me.all takes all decoders (NVIDIA's profile table).
var twelve = []shape{
	{"1g", Profile{1, 3, 0}, []int{0, 3, 6, 9}, 4, 1},
	{"1g", Profile{1, 3, AttrMedia}, []int{0, 3, 6, 9}, 1, 1},
	{"1g", Profile{1, 3, AttrGraphics}, []int{0, 3, 6, 9}, 4, 1},
	{"1g", Profile{1, 3, AttrAllMedia}, []int{0, 3, 6, 9}, 1, 4},
	{"1g", Profile{1, 3, AttrNoMedia}, []int{0, 3, 6, 9}, 4, 0},
	{"2g", Profile{2, 6, 0}, []int{0, 6}, 2, 2},
	{"2g", Profile{2, 6, AttrGraphics}, []int{0, 6}, 2, 2},
	{"2g", Profile{2, 6, AttrAllMedia}, []int{0, 6}, 1, 4},
	{"2g", Profile{2, 6, AttrNoMedia}, []int{0, 6}, 2, 0},
	{"4g", Profile{4, 12, 0}, []int{0}, 1, 4},
	{"4g", Profile{4, 12, AttrGraphics}, []int{0}, 1, 4},
}

// products are all GPUs whose placements are known. B300 and GB300 have the
// seven-slice geometry by inference: NVIDIA has published their names only.
// RTX PRO 4500 and 5000 are left to the tables that nodes publish: the MIG user
// guide (v610) has their profiles without placements, and those of RTX PRO 5000
// differ from the guide of v590 (2g.48gb was 4g.48gb).
var products = []product{
	{models: []string{"A30-24GB"}, geometry: four, names: plain(6, 12, 24)},
	{models: []string{"A100-40GB", "A800-40GB"}, geometry: seven, names: sevenNames(5, 10, 20, 40)},
	{
		models: []string{"A100-80GB", "A800-80GB"}, geometry: seven, names: sevenNames(10, 20, 40, 80),
		aliases: map[string][]string{"3g": {"3g.39gb"}, "4g": {"4g.39gb"}, "7g": {"7g.79gb"}},
	},
	{models: []string{"H100-80GB", "H800-80GB"}, geometry: seven, names: sevenNames(10, 20, 40, 80)},
	{models: []string{"H100-NVL-94GB", "H800-NVL"}, geometry: seven, names: sevenNames(12, 24, 47, 94)},
	{models: []string{"H100-96GB", "GH200-96GB", "H20", "PG506"}, geometry: seven, names: sevenNames(12, 24, 48, 96)},
	{models: []string{"GH200-144GB"}, geometry: seven, names: sevenNames(18, 36, 72, 144)},
	{models: []string{"H200-141GB", "H200-NVL"}, geometry: seven, names: sevenNames(18, 35, 71, 141)},
	{models: []string{"B200-180GB"}, geometry: seven, names: sevenNames(23, 45, 90, 180)},
	{
		models: []string{"GB200-186GB"}, geometry: seven, names: sevenNames(23, 47, 93, 186),
		aliases: map[string][]string{"1g": {"1g.24gb"}, "3g": {"3g.95gb"}, "4g": {"4g.95gb"}, "7g": {"7g.189gb"}},
	},
	{models: []string{"B300"}, geometry: seven, names: sevenNames(34, 67, 135, 269)},
	{models: []string{"GB300"}, geometry: seven, names: sevenNames(35, 70, 139, 278)},
	{models: []string{"RTX-PRO-6000-Blackwell-96GB"}, geometry: twelve, names: plain(24, 48, 96)},
}

// plain names the instances of a four-slice GPU by their memory in GB.
func plain(one, two, four int) map[string]string {
	return map[string]string{"1g": gb(1, one), "2g": gb(2, two), "4g": gb(4, four)}
}

// sevenNames names the instances of a seven-slice GPU by the memory in GB of
// one, two, four and eight slices.
func sevenNames(one, two, four, eight int) map[string]string {
	return map[string]string{
		"1g": gb(1, one), "1g.dbl": gb(1, two), "2g": gb(2, two),
		"3g": gb(3, four), "4g": gb(4, four), "7g": gb(7, eight),
	}
}

func gb(compute, memory int) string { return fmt.Sprintf("%dg.%dgb", compute, memory) }
