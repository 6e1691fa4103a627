package sbom

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

var update = flag.Bool("update", false, "write the golden file again")

func info() *debug.BuildInfo {
	return &debug.BuildInfo{
		GoVersion: "go1.26.8 X:nodwarf5", Path: "example.test/m/x", Main: debug.Module{Path: "example.test/m", Version: "(devel)"},
		Settings: []debug.BuildSetting{{Key: "GOARCH", Value: "arm64"}, {Key: "GOOS", Value: "linux"}, {Key: "CGO_ENABLED", Value: "0"}, {Key: "CC", Value: "/home/me/cc"}},
		Deps: []*debug.Module{
			{Path: "github.com/Some/Lib", Version: "v29.7.2+incompatible", Sum: "h1:aaaa="},
			{Path: "example.test/forked", Version: "v1.0.0", Replace: &debug.Module{Path: "example.test/fork", Version: "v1.0.1", Sum: "h1:bbbb="}},
		},
	}
}

func subject() Subject {
	return Subject{Name: "gpuscale-x", Version: "0.1.0", Commit: "1a2b", SHA256: strings.Repeat("0a", 32), At: time.Unix(1_790_000_000, 0)}
}

func TestCycloneDX(t *testing.T) {
	got, err := CycloneDX(info(), subject())
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "x.cdx.json")
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	in := info()
	slices.Reverse(in.Deps)
	if again, _ := CycloneDX(in, subject()); string(again) != string(got) {
		t.Error("another order of modules, another document")
	}
}

func TestModuleWithoutVersion(t *testing.T) {
	in := info()
	in.Deps[1].Replace = &debug.Module{Path: "../fork"}
	if _, err := CycloneDX(in, subject()); err == nil || !strings.Contains(err.Error(), "../fork has no version") {
		t.Errorf("got %v", err)
	}
}

// What this very test is made of, modules and all, is a document of the official schema.
// The schema is the specification's own; GPUSCALE_CYCLONEDX_SCHEMA is the folder
// it lies in, which `make release-check` fetches.
func TestSchema(t *testing.T) {
	dir := os.Getenv("GPUSCALE_CYCLONEDX_SCHEMA")
	if dir == "" {
		t.Skip("GPUSCALE_CYCLONEDX_SCHEMA is not set: make release-check sets it")
	}
	own, ok := debug.ReadBuildInfo()
	if !ok {
		t.Fatal("this test has no build information")
	}
	c := jsonschema.NewCompiler()
	// The name that a schema refers to, and that of the file.
	for name, file := range map[string]string{
		"bom-1.6.schema.json": "bom-1.6.schema.json", "spdx.schema.json": "spdx.schema.json", "jsf-0.82.schema.json": "jsf-0.82.schemax.json",
	} {
		f, err := os.Open(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource("http://cyclonedx.org/schema/"+name, doc); err != nil {
			t.Fatal(err)
		}
	}
	schema, err := c.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	check := func(data []byte) error {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
		if err != nil {
			return err
		}
		return schema.Validate(v)
	}
	for name, in := range map[string]*debug.BuildInfo{"made up": info(), "this test": own} {
		data, err := CycloneDX(in, subject())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := check(data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The schema must be able to say no.
	s := subject()
	s.SHA256 = "not a hash"
	data, err := CycloneDX(info(), s)
	if err != nil {
		t.Fatal(err)
	}
	if check(data) == nil {
		t.Error("a hash that is none passes")
	}
	if !json.Valid(data) {
		t.Error("not JSON")
	}
}
