package collect_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/collect/counters"
	"github.com/gpuscale/gpuscale/exporter/pods"
	"github.com/gpuscale/gpuscale/exporter/replay"
	"github.com/gpuscale/gpuscale/internal/require"
)

var update = flag.Bool("update", false, "rewrite the want sections of testdata/*.txtar")

var epoch = time.Unix(1_800_000_000, 0)

// A case is a txtar of a recording, who claims which device id, the options,
// perhaps counters, labels of pods and batch jobs, and the exposition half a
// second after the reading.
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
	options := collect.Options{Node: "node-1", Interval: time.Second, Compat: collect.CompatOptions{
		Mode: collect.CompatExact, Hostname: "node-1", Counters: fields,
	}}
	only := "" // the beginning of the names of the series that are wanted
	for _, word := range strings.Fields(section(archive, "options")) {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "devices":
			selection, err := collect.ParseSelection(value)
			require.NoError(t, err)
			options.Compat.Devices = selection
		case "xid-window", "clock-window":
			window, err := time.ParseDuration(value)
			require.NoError(t, err)
			if name == "xid-window" {
				options.Compat.XIDWindow = window
			} else {
				options.Compat.ClockEventsWindow = window
			}
		case "only":
			only = value
		case "virtual":
			options.Compat.VirtualGPUs = true
		case "once", "false":
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
	attribution, unresolved := pods.Resolve(reading.Entities, claims(t, section(archive, "claims")), nil)
	if len(unresolved) > 0 {
		t.Fatalf("claims without a device: %q", unresolved)
	}
	attribution.Taken = epoch.Add(-time.Second)
	uses(t, section(archive, "uses"), attribution)
	attribution.Jobs = jobs(t, section(archive, "jobs"))
	attribution.Pods = podLabels(t, section(archive, "labels"))
	page := collect.NewCompiler(options).Compile(reading, attribution)
	text, _ := page.Append(nil, epoch.Add(500*time.Millisecond), false)
	if only == "" {
		return text
	}
	var wanted []byte
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte(only)) {
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
		out = append(out, pods.Claim{DeviceID: id, Allocation: collect.Allocation{Namespace: parts[0], Pod: parts[1], Container: parts[2]}})
	}
	return out
}

// uses reads lines of "pod busy bytes": what the driver says of its processes.
func uses(t *testing.T, text string, a collect.Attribution) {
	t.Helper()
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		busy, err := strconv.ParseFloat(words[1], 64)
		require.NoError(t, err)
		memory, err := strconv.ParseFloat(words[2], 64)
		require.NoError(t, err)
		for i := range a.Allocations {
			for j, h := range a.Allocations[i] {
				if h.Pod == words[0] {
					a.Allocations[i][j].Busy, a.Allocations[i][j].Memory = collect.Measured{Number: busy, Time: epoch}, collect.Measured{Number: memory, Time: epoch}
				}
			}
		}
	}
}

// jobs reads lines of "0 job job" and "0/1 job".
func jobs(t *testing.T, text string) map[collect.JobPlace][]string {
	t.Helper()
	out := map[collect.JobPlace][]string{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		place := collect.JobPlace{Instance: -1}
		device, instance, found := strings.Cut(words[0], "/")
		var err error
		place.GPU, err = strconv.Atoi(device)
		require.NoError(t, err)
		if found {
			place.Instance, err = strconv.Atoi(instance)
			require.NoError(t, err)
		}
		out[place] = words[1:]
	}
	return out
}

// podLabels reads lines of "namespace/pod uid name=value …".
func podLabels(t *testing.T, text string) map[collect.PodName]string {
	t.Helper()
	out := map[collect.PodName]string{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		namespace, pod, ok := strings.Cut(words[0], "/")
		if !ok || len(words) < 2 {
			t.Fatalf("labels %q", line)
		}
		labels := map[string]string{}
		for _, word := range words[2:] {
			name, value, _ := strings.Cut(word, "=")
			labels[name] = value
		}
		out[collect.PodName{Namespace: namespace, Name: pod}] = collect.PodLabels(words[1], labels)
	}
	return out
}

// lint holds an exposition against Prometheus' own parser: each series once. The rules of
// names are the catalogue's test's.
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
