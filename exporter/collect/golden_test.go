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

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/collect/counters"
	"github.com/gpuscale/gpuscale/exporter/pods"
	"github.com/gpuscale/gpuscale/exporter/replay"
	"github.com/gpuscale/gpuscale/internal/require"
)

var update = flag.Bool("update", false, "rewrite the want sections of testdata/*.txtar")

var epoch = time.Unix(1_800_000_000, 0)

// A case is a txtar with a recording, counters and other input where there are any, and the exposition half a second
// after the reading.
func TestExpositions(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			require.NoError(t, err)
			got := expose(t, archive)
			i := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == "want" })
			if *update {
				archive.Files[i].Data = got
				require.NoError(t, os.WriteFile(file, txtar.Format(archive), 0o644))
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

// given is the input of a case beside its recording, in YAML.
type given struct {
	Compat  collect.CompatOptions
	Devices string // of Compat, as of -d
	Claims  []pods.Claim
	// Uses are a pod's busy ratio and bytes: the driver's figures of its processes.
	Uses map[string][2]float64
	Jobs []struct {
		collect.JobPlace
		Jobs []string
	}
	Labels []struct {
		collect.PodName
		UID    string
		Labels map[string]string
	}
	// Only is the prefix of the expected series' names.
	Only string
}

func expose(t *testing.T, archive *txtar.Archive) []byte {
	t.Helper()
	reading := read(t, section(archive, "recording"))
	fields, err := counters.Default()
	if text := section(archive, "counters"); text != "" {
		var file counters.File
		file, err = counters.Parse("counters", strings.NewReader(text))
		fields = file.Fields
	}
	require.NoError(t, err)
	g := given{Compat: collect.CompatOptions{Mode: collect.CompatExact, Hostname: "node-1", Counters: fields}}
	require.NoError(t, yaml.UnmarshalStrict([]byte(section(archive, "given")), &g))
	if g.Devices != "" {
		g.Compat.Devices, err = collect.ParseSelection(g.Devices)
		require.NoError(t, err)
	}
	attribution, unresolved := pods.Resolve(reading.Entities, g.Claims, nil)
	if len(unresolved) > 0 {
		t.Fatalf("claims without a device: %q", unresolved)
	}
	attribution.Taken = epoch.Add(-time.Second)
	for _, allocations := range attribution.Allocations {
		for i := range allocations {
			if use, is := g.Uses[allocations[i].Pod]; is {
				allocations[i].Busy, allocations[i].Memory = collect.Value{Number: use[0], Time: epoch}, collect.Value{Number: use[1], Time: epoch}
			}
		}
	}
	attribution.Jobs, attribution.Pods = map[collect.JobPlace][]string{}, map[collect.PodName]string{}
	for _, j := range g.Jobs {
		attribution.Jobs[j.JobPlace] = j.Jobs
	}
	for _, p := range g.Labels {
		attribution.Pods[p.PodName] = collect.PodLabels(p.UID, p.Labels)
	}
	page := collect.NewCompiler(collect.Options{Node: "node-1", Interval: time.Second, Compat: g.Compat}).Compile(reading, attribution)
	text, _ := page.Append(nil, epoch.Add(500*time.Millisecond), false)
	var wanted []byte
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte(g.Only)) {
			wanted = append(wanted, line...)
		}
	}
	return wanted
}

// read plays a recording's first frame at the epoch.
func read(t testing.TB, text string) *collect.Reading {
	t.Helper()
	frames, err := replay.Parse([]byte(text))
	require.NoError(t, err)
	source, err := replay.NewSource(frames, func() time.Time { return epoch })
	require.NoError(t, err)
	reading, err := source.Read()
	require.NoError(t, err)
	return reading
}

// lint parses an exposition with Prometheus' own parser: each series is there once. The catalogue's test has the rules
// of names.
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
	for name, family := range families {
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if own := slices.Contains(collect.FixedLabels, l.GetName()) || strings.HasPrefix(l.GetName(), "DCGM_"); strings.HasPrefix(name, "DCGM_") && !own && !fromPod(l.GetName()) {
					t.Errorf("%s: a pod label could be called %s too; it belongs into fixedLabels", name, l.GetName())
				}
			}
		}
	}
}

// fromPod reports whether the label is a pod's, in kubernetes.txtar.
func fromPod(label string) bool {
	return strings.HasPrefix(label, "pod_label_") || strings.HasPrefix(label, "app") || label == "_9lives"
}
