package partition

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/golden"
	"github.com/gpuscale/gpuscale/plan"
)

// h100 returns GPU index of an H100 with a layout in words, "-" for no MIG.
func h100(t *testing.T, index int, layout string) plan.GPU {
	t.Helper()
	model, ok := gpu.ParseProduct("H100-80GB")
	if !ok {
		t.Fatal("no model")
	}
	c := plan.GPU{Device: gpu.Device{Index: index, Model: model}, AllocationKnown: true}
	if layout == "-" {
		return c
	}
	table, _ := mig.ForModel(model.Name)
	l, err := mig.ParseLayout(table, layout)
	if err != nil {
		t.Fatal(err)
	}
	c.MIG = true
	for _, p := range l {
		c.Instances = append(c.Instances, plan.Instance{Placement: p, Placed: true})
	}
	return c
}

func TestConfigGolden(t *testing.T) {
	gpus := []plan.GPU{
		h100(t, 2, "-"),
		h100(t, 0, "3g.40gb@0 3g.40gb@4"),
		h100(t, 1, "1g.10gb@0 1g.10gb@1 1g.10gb+me@2"),
		h100(t, 3, "3g.40gb@4 3g.40gb@0"),
		h100(t, 4, "empty"),
	}
	layout, err := LayoutOf(nil, gpus)
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Version: ConfigVersion, MIGConfigs: map[string][]Entry{layout.Name(): layout.Entries()}}
	golden.Equal(t, "testdata/node.yaml", c.String())
	back, err := ParseConfig(c.String())
	if err != nil {
		t.Fatal(err)
	}
	if got := back.MIGConfigs[layout.Name()]; !reflect.DeepEqual(got, layout.Entries()) {
		t.Errorf("read back: %+v", got)
	}
	want2 := map[string]int64{"nvidia.com/mig-3g.40gb": 4, "nvidia.com/mig-1g.10gb": 2, "nvidia.com/mig-1g.10gb.me": 1, "nvidia.com/gpu": 1}
	if got := layout.Resources(); !reflect.DeepEqual(got, want2) {
		t.Errorf("resources = %v, want %v", got, want2)
	}
}

// TestOthersEntriesSurvive: foreign entries of mig-parted's file are read and written unchanged.
func TestOthersEntriesSurvive(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "others.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := ParseConfig(string(text))
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseConfig(c.String())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(c, again) {
		t.Errorf("lost something:\n%+v\n%+v", c, again)
	}
	if counts, isMIG, known := c.Counts("all-1g.10gb", 5); !known || !isMIG || counts["1g.10gb"] != 7 {
		t.Errorf("all-1g.10gb, GPU 5: %v %v %v", counts, isMIG, known)
	}
	if _, _, known := c.Counts("all-balanced", 0); known {
		t.Error("a filtered entry says nothing certain about a GPU")
	}
	if _, isMIG, known := c.Counts("all-disabled", 0); !known || isMIG {
		t.Error("all-disabled, GPU 0: want known and without MIG")
	}
}

func TestParseConfigErrors(t *testing.T) {
	for text, want := range map[string]string{
		"version: v2\nmig-configs: {}":                                                                  `version "v2"`,
		"version: v1\nmig-configs: {a: [{devices: [-1], mig-enabled: true}]}":                           "GPU index -1",
		"version: v1\nmig-configs: {a: [{devices: some, mig-enabled: true}]}":                           `want "all"`,
		"version: v1\nmig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: -1}}]}": "mig-configs.a[0].mig-devices.1g.5gb",
		"version: v1\nmig-configs: {a: [{device: all}]}":                                                "device",
		strings.Repeat("#", maxConfigBytes+1):                                                           "at most",
	} {
		if _, err := ParseConfig(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: err = %v, want %q in it", text, err, want)
		}
	}
}

func TestNameDependsOnCountsOnly(t *testing.T) {
	a, _ := LayoutOf(nil, []plan.GPU{h100(t, 0, "1g.10gb@0"), h100(t, 1, "-")})
	b, _ := LayoutOf(nil, []plan.GPU{h100(t, 1, "-"), h100(t, 0, "1g.10gb@6")})
	c, _ := LayoutOf(nil, []plan.GPU{h100(t, 1, "1g.10gb@6"), h100(t, 0, "-")})
	if a.Name() != b.Name() {
		t.Errorf("placements changed the name: %s, %s", a.Name(), b.Name())
	}
	if a.Name() == c.Name() {
		t.Error("another GPU, the same name")
	}
	if len(a.Name()) != len("gpuscale-")+10 {
		t.Errorf("name %q: want gpuscale- and ten digits", a.Name())
	}
	if n := otherName(strings.Repeat("x", 63)); len(n) > 63 {
		t.Errorf("%q is too long for a label", n)
	}
}

func TestLayoutOfRefusesGaps(t *testing.T) {
	if _, err := LayoutOf(nil, []plan.GPU{h100(t, 1, "-")}); err == nil {
		t.Error("GPU 1 of one GPU was accepted")
	}
	if _, err := LayoutOf(nil, []plan.GPU{h100(t, 0, "-"), h100(t, 0, "-")}); err == nil {
		t.Error("GPU 0 twice was accepted")
	}
}

func FuzzParseConfig(f *testing.F) {
	for _, name := range []string{"node.yaml", "others.yaml"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("version: v1")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseConfig(text)
		if err != nil {
			return
		}
		again, err := ParseConfig(c.String())
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, c)
		}
		if c.String() != again.String() {
			t.Fatalf("not stable:\n%s\n%s", c, again)
		}
		for name := range c.MIGConfigs {
			c.Counts(name, 0)
		}
	})
}

func FuzzParseRecord(f *testing.F) {
	f.Add(`{"id":"a","gpu":0,"model":"H100-80GB","target":"3g.40gb@0","config":"c","previous":"p","deadline":"2026-01-01T00:00:00Z"}`)
	f.Add(`{}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRecord(text)
		if err != nil {
			return
		}
		r.TargetLayout()
		again, err := ParseRecord(r.String())
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, r)
		}
		if r.String() != again.String() {
			t.Fatalf("not stable:\n%s\n%s", r, again)
		}
	})
}
