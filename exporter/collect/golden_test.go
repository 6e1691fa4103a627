package collect_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/collect/counters"
	"github.com/gpuscale/gpuscale/exporter/pods"
	"github.com/gpuscale/gpuscale/exporter/replay"
)

var update = flag.Bool("update", false, "rewrite the want sections of testdata/*.txtar")

var epoch = time.Unix(1_800_000_000, 0)

// A case is a txtar of a recording, who claims which device id, the options,
// and the exposition half a second after the reading.
func TestExpositions(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := expose(t, archive)
			i := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == "want" })
			if *update {
				archive.Files[i].Data = got
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want := archive.Files[i].Data; !bytes.Equal(got, want) {
				t.Errorf("run with -update and look at the difference\n--- want\n%s--- got\n%s", want, got)
			}
			lint(t, got)
		})
	}
}

func section(archive *txtar.Archive, name string) string {
	for _, f := range archive.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

func expose(t *testing.T, archive *txtar.Archive) []byte {
	t.Helper()
	reading := read(t, section(archive, "recording"))
	fields, err := counters.Default()
	if err != nil {
		t.Fatal(err)
	}
	options := collect.Options{Node: "node-1", Interval: time.Second, Compat: collect.CompatOptions{
		Mode: collect.CompatExact, Hostname: "node-1", Counters: fields,
	}}
	for _, word := range strings.Fields(section(archive, "options")) {
		switch word {
		case "once", "off":
			options.Compat.Mode = collect.Compat(word)
		case "old-namespace":
			options.Compat.OldNamespace = true
		case "dashed-model":
			options.Compat.DashedModel = true
		case "no-hostname":
			options.Compat.Hostname = ""
		default:
			t.Fatalf("no option %q", word)
		}
	}
	attribution := collect.Attribution{Taken: epoch.Add(-time.Second)}
	var unresolved []string
	attribution.Holders, unresolved = pods.Resolve(reading.Entities, claims(t, section(archive, "claims")))
	if len(unresolved) > 0 {
		t.Fatalf("claims without a device: %q", unresolved)
	}
	page := collect.NewCompiler(options).Compile(reading, attribution)
	text, _ := page.Append(nil, epoch.Add(500*time.Millisecond), false)
	return text
}

// read plays a recording's first frame at the epoch.
func read(t testing.TB, text string) *collect.Reading {
	t.Helper()
	recording, err := replay.Parse("recording", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	source := replay.NewSource(recording, replay.Options{Now: func() time.Time { return epoch }})
	reading, err := source.Read()
	if err != nil {
		t.Fatal(err)
	}
	return reading
}

// claims reads lines of "namespace/pod/container device-id".
func claims(t *testing.T, text string) []pods.Claim {
	t.Helper()
	var out []pods.Claim
	for line := range strings.Lines(text) {
		who, id, ok := strings.Cut(strings.TrimSpace(line), " ")
		parts := strings.Split(who, "/")
		if !ok || len(parts) != 3 {
			t.Fatalf("claim %q", line)
		}
		out = append(out, pods.Claim{DeviceID: id, Holder: collect.Holder{Namespace: parts[0], Pod: parts[1], Container: parts[2]}})
	}
	return out
}

// lint holds an exposition against Prometheus' own parser, our families against
// its naming rules too; the DCGM names are NVIDIA's and break them.
func lint(t *testing.T, text []byte) {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("Prometheus cannot parse it: %v", err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		series, _, _ := strings.Cut(line, "} ")
		if line[0] != '#' && seen[series] {
			t.Errorf("twice: %s", series)
		}
		seen[series] = true
	}
	var ours bytes.Buffer
	encoder := expfmt.NewEncoder(&ours, expfmt.NewFormat(expfmt.TypeTextPlain))
	for name, family := range families {
		if !strings.HasPrefix(name, "DCGM_") {
			if err := encoder.Encode(family); err != nil {
				t.Fatal(err)
			}
		}
	}
	problems, err := promlint.New(&ours).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
