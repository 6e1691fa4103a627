package mig

import (
	"reflect"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
)

// z900 is an unknown product, as its node publishes it.
const z900 = "Z900-128GB 3 4 131072 0 1g.32gb:0,1,2:1:3 3g.128gb:0:4:1"

func spec(t testing.TB, line string) Spec {
	t.Helper()
	s, err := ParseSpec(line)
	require.NoError(t, err)
	return s
}

func published(t testing.TB, lines ...string) Tables {
	t.Helper()
	var specs []Spec
	for _, line := range lines {
		specs = append(specs, spec(t, line))
	}
	ts, err := NewTables(specs...)
	require.NoError(t, err)
	return ts
}

func TestPublishedTableComesFirst(t *testing.T) {
	// A GPU that, unlike those of the tables, can be partitioned into halves only.
	halves := published(t, "H100-80GB 7 8 81559 0 3g.40gb:0,4:4:2 7g.80gb:0:8:1", z900)
	for _, name := range []string{"H100-80GB", "NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-80GB-HBM3-MIG-3g.40gb"} {
		tab, ok := halves.ForModel(name)
		if !ok || len(tab.Profiles()) != 2 {
			t.Errorf("%s: not the published table", name)
		}
	}
	if ours, _ := Tables(nil).ForModel("H100-80GB"); len(ours.Profiles()) != 7 {
		t.Error("nothing is published, and yet the table is not ours")
	}
	if ours, ok := halves.ForModel("A30-24GB"); !ok || len(ours.Profiles()) != 5 {
		t.Error("A30 is not published: want our table")
	}
	if tab, _ := ForModel("H100-80GB"); len(tab.Profiles()) != 7 {
		t.Error("publishing changed the package's own table")
	}
}

func TestUnknownProductHasItsPublishedTableAlone(t *testing.T) {
	if _, ok := Tables(nil).ForModel("NVIDIA-Z900-128GB"); ok {
		t.Fatal("a table from nowhere")
	}
	ts := published(t, strings.Replace(z900, "Z900-128GB", "NVIDIA-Z900-128GB", 1))
	for _, name := range []string{"Z900-128GB", "NVIDIA-Z900-128GB", "NVIDIA Z900 128GB", "NVIDIA-Z900-128GB-MIG-1g.32gb"} {
		tab, ok := ts.ForModel(name)
		if !ok {
			t.Errorf("%s: no table", name)
			continue
		}
		want, _ := tab.Exact("1g.32gb")
		layout, ok := tab.Arrange(nil, []Count{{want, 3}})
		if !ok || tab.Format(layout) != "1g.32gb@0 1g.32gb@1 1g.32gb@2" || tab.MemoryMiB(want) != 32768 {
			t.Errorf("%s: %s, %d MiB", name, tab.Format(layout), tab.MemoryMiB(want))
		}
	}
}

// TestNodesWithDifferentDrivers: two drivers round the same memory differently:
// one product, one table, both names.
func TestNodesWithDifferentDrivers(t *testing.T) {
	a := "GB200-186GB 7 8 189471 0 1g.23gb:0,1,2,3,4,5,6:1:7 3g.93gb:0,4:4:2 7g.186gb:0:8:1"
	b := "GB200-186GB 7 8 189471 0 1g.24gb:0,1,2,3,4,5,6:1:7 3g.95gb:0,4:4:2 7g.189gb:0:8:1"
	for _, order := range [][]string{{a, b}, {b, a}, {b, a, b}} {
		ts := published(t, order...)
		if len(ts) != 1 {
			t.Fatalf("%d tables", len(ts))
		}
		tab := ts[0]
		for _, names := range [][2]string{{"1g.23gb", "1g.24gb"}, {"3g.93gb", "3g.95gb"}, {"7g.186gb", "7g.189gb"}} {
			p, ok := tab.Exact(names[0])
			q, okToo := tab.Exact(names[1])
			if !ok || !okToo || p != q || tab.Name(p) != names[0] {
				t.Errorf("%v: %v %v, printed %s", names, p, q, tab.Name(p))
			}
		}
	}
}

func TestNewTablesLeavesOutWhatIsWrong(t *testing.T) {
	ts, err := NewTables(
		spec(t, "A30-24GB 4 4 24576 0 1g.6gb:0,1,2,3:1:4"),
		spec(t, "A30-24GB 4 4 24576 0 1g.6gb:0,1,2:1:3"), // another node publishes other starts
		spec(t, "B300 7 8 275456 0 1g.34gb:9:1:1"),
		spec(t, z900),
	)
	if len(ts) != 1 || ts[0].Model() != "Z900-128GB" {
		t.Errorf("got %d tables", len(ts))
	}
	for _, want := range []string{"A30-24GB: nodes publish different placements", "B300: profile \"1g.34gb\": start 9"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if tab, ok := ts.ForModel("A30-24GB"); !ok || len(tab.Profiles()) != 5 {
		t.Error("the contradiction is left out: want our table")
	}
}

// seenOn is NVML's report on a GPU with the table's profiles: its notation, placements in any order, and unreliable
// instance counts.
func seenOn(tab *Table, plainCount int) []Seen {
	var out []Seen
	for _, p := range tab.Profiles() {
		e, _ := tab.find(p)
		s := Seen{Name: "MIG " + tab.Name(p), Compute: p.Compute, Count: plainCount, Media: e.media}
		if p.Attrs&(AttrMedia|AttrAllMedia) != 0 {
			s.Count = e.max
		}
		for i := len(e.starts) - 1; i >= 0; i-- {
			s.Places = append(s.Places, Span{e.starts[i], p.Memory})
		}
		out = append(out, s)
	}
	return out
}

// TestSpecFromNVML: NVML's report on a GPU of a product gives the product's own table, whatever the counts in the
// report.
func TestSpecFromNVML(t *testing.T) {
	for _, model := range Models() {
		ours, _ := ForModel(model)
		for _, count := range []int{0, 99} {
			s, err := SpecFromNVML(model, ours.memoryMiB, seenOn(ours, count))
			require.NoError(t, err)
			ts, err := NewTables(s)
			require.NoError(t, err)
			seen, _ := ts.ForModel(model)
			if !seen.sameGeometry(ours) || seen.memoryMiB != ours.memoryMiB || len(seen.Maximal()) != len(ours.Maximal()) {
				t.Errorf("%s: NVML gives another table than ours", model)
			}
		}
	}
}

// TestSpecFromNVMLOfOneDecoder: NVIDIA's MIG user guide (v580) lists one decoder in each profile of B200, and one in
// that of the whole GPU.
func TestSpecFromNVMLOfOneDecoder(t *testing.T) {
	ours, _ := ForModel("B200-180GB")
	seen := seenOn(ours, 7)
	for i := range seen {
		seen[i].Media = 1
	}
	s, err := SpecFromNVML(ours.model, ours.memoryMiB, seen)
	require.NoError(t, err)
	table, err := NewTable(s)
	require.NoError(t, err)
	if n := len(table.Maximal()); n != len(ours.Maximal()) {
		t.Errorf("%d layouts, want %d", n, len(ours.Maximal()))
	}
}

func TestSpecFromNVMLRefuses(t *testing.T) {
	for want, seen := range map[string]Seen{
		`profile "MIG 3g": no placements`: {Name: "MIG 3g", Compute: 3},
		`MIG profile "x"`:                 {Name: "x"},
		`placement {4}:3 beside {0}:4`:    {Name: "3g.40gb", Compute: 3, Places: []Span{{0, 4}, {4, 3}}},
		`placement {-1}:4`:                {Name: "3g.40gb", Compute: 3, Places: []Span{{-1, 4}}},
	} {
		if _, err := SpecFromNVML("NVIDIA X", 0, []Seen{seen}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestParseSpecRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"":                               "want a product",
		"X 1 2 3":                        "want a product",
		"X 1 2 3 a":                      `MIG table of X: "a" is not a number`,
		"X 1 -2 3 4":                     `"-2" is not a number`,
		"X 1 2 99999999 4":               `"99999999" is not a number`,
		"X 1 1 0 0 1g.5gb":               `"1g.5gb": want name:starts:size:max`,
		"X 1 1 0 0 1g.5gb:0:1:1:0:1:1":   "want name:starts:size:max",
		"X 1 1 0 0 y:0:1:1":              `MIG profile "y"`,
		"X 1 1 0 0 1g.5gb:0,:1:1":        `start "" is not a memory slice`,
		"X 1 1 0 0 1g.5gb:0:1:z":         `"z" is not a number`,
		"X 1 1 0 0 1g.5gb:0:1:1:0:1g.4g": `MIG profile "1g.4g"`,
	} {
		if _, err := ParseSpec(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", line, err, want)
		}
	}
}

func FuzzParseSpec(f *testing.F) {
	f.Add(z900)
	f.Add("H100-80GB 7 8 81559 1 1g.10gb+me,gfx:0,1:1:7:1 3g.40gb:0,4:4:2:0:3g.39gb|3g.38gb")
	f.Add("X 0 0 0 0 1g:::")
	f.Fuzz(func(t *testing.T, line string) {
		s, err := ParseSpec(line)
		if err != nil {
			return
		}
		if again, err := ParseSpec(s.String()); err != nil || !reflect.DeepEqual(again, s) {
			t.Fatalf("%q is %q, which is %+v, %v", line, s, again, err)
		}
		if len(s.Profiles) > 2 { // more take long to enumerate
			return
		}
		ts, err := NewTables(s)
		if err != nil {
			return
		}
		tab, ok := ts.ForModel(s.Model)
		if !ok {
			t.Fatalf("%q is published, and not found", line)
		}
		for _, l := range tab.Maximal() {
			require.NoError(t, tab.Legal(l))
		}
	})
}
