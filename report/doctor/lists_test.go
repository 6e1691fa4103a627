package doctor

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cockroachdb/datadriven"
	"github.com/prometheus/prometheus/promql/parser"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/internal/require"
)

// Names of other programs are repeated here, since programs do not import each other;
// these tests compare them with their owners.

func TestNames(t *testing.T) {
	var theirs []string
	for _, r := range signal.Builtin(time.Minute) {
		theirs = append(theirs, r.Name)
	}
	if ours := slices.Sorted(slices.Values(signals)); !slices.Equal(ours, slices.Sorted(slices.Values(theirs))) {
		t.Errorf("the adapter has %q, this list %q", theirs, ours)
	}
	if reasonForeign != pools.ReasonForeign {
		t.Errorf("%q here, %q there", reasonForeign, pools.ReasonForeign)
	}
	if maxUndo != partition.MaxUndoAttempts {
		t.Errorf("%d attempts here, %d there", maxUndo, partition.MaxUndoAttempts)
	}
}

// Every series of a query is emitted.
func TestSeries(t *testing.T) {
	known := map[string]bool{"up": true}
	for _, d := range metric.All() {
		known[d.Name] = true
	}
	for _, r := range rules.All() {
		known[r.Record] = true
	}
	name := regexp.MustCompile(`\$([a-zA-Z_][a-zA-Z0-9_:]*)`)
	for _, d := range Table {
		for _, m := range name.FindAllStringSubmatch(d.Query, -1) {
			if !known[m[1]] {
				t.Errorf("%s: no program emits %s", d.Name, m[1])
			}
		}
	}
	for _, rule := range []string{gpuRule, poolRule} {
		if !known[rule] {
			t.Errorf("there is no rule %s", rule)
		}
	}
}

// Every check has texts, a unique id, and existing sources.
func TestAll(t *testing.T) {
	sources := map[*Source]bool{}
	for _, s := range Table {
		if sources[s] || s.Name == "" || (len(s.Paths) == 0) == (s.Query == "") || s.Query == "" && s.take == nil {
			t.Errorf("source %s: twice, or without a way to read it", s.Name)
		}
		sources[s] = true
	}
	if last := Table[slices.Index(Table, Clusters)-1]; last != Leases.Source {
		t.Errorf("%s are read after the Leases, which would seem older than they are", last.Name)
	}
	ids := map[string]bool{}
	used := map[*Source]bool{Clusters: true} // it decides about the answers of all others
	for _, c := range All() {
		if ids[c.ID] || c.ID == "" || c.Title == "" || c.Fault == "" || c.Means == "" || c.Run == nil || len(c.Looks)+len(c.Also) == 0 ||
			strings.ContainsAny(c.ID, " _") || c.ID != strings.ToLower(c.ID) {
			t.Errorf("check %q is not whole, or is there twice, or has another kind of id", c.ID)
		}
		ids[c.ID] = true
		for _, s := range c.Reads() {
			if !sources[s] {
				t.Errorf("check %s reads %s, which no source has", c.ID, s.Name)
			}
			used[s] = true
		}
	}
	for s := range sources {
		if !used[s] {
			t.Errorf("%s is read for nothing", s.Name)
		}
	}
}

// A check is not ok if it could not read a source: without a finding it is unknown or skipped.
func TestMissingIsNotOK(t *testing.T) {
	for _, c := range All() {
		f := empty()
		for _, d := range Table {
			f.Missing[d] = "you lack permission to read " + d.Name
		}
		r := Examine(f, []Check{c})
		if got := r.Checks[0]; got.Outcome != Unknown || got.Why == "" {
			t.Errorf("%s is %s where nothing could be read: %q", c.ID, got.Outcome, got.Why)
		}
	}
}

// TestKeepPod: the pods that checks read are kept.
func TestKeepPod(t *testing.T) {
	pod := func(image string, resources ...corev1.ResourceName) *corev1.Pod {
		c := corev1.Container{Image: image}
		for _, r := range resources {
			c.Resources.Limits = corev1.ResourceList{r: resource.MustParse("1")}
		}
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "sidecar"}, c}}}
	}
	ended := pod("server", "nvidia.com/gpu")
	ended.Status.Phase = corev1.PodSucceeded
	ours := pod("x")
	ours.Labels = map[string]string{labelPartOf: partOf}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"a web server":                  {pod("nginx", "cpu"), false},
		"one that requests a GPU":       {pod("server", "nvidia.com/gpu"), true},
		"one that requests an instance": {pod("server", "nvidia.com/mig-1g.10gb"), true},
		"one that has ended":            {ended, false},
		"ours by label":                 {ours, true},
		"ours by image":                 {pod("registry.example:5000/a/gpuscale-exporter:v1@sha256:0"), true},
		"NVIDIA's exporter":             {pod("nvcr.example/nvidia/k8s/dcgm-exporter:4.5"), true},
		"mig-manager":                   {pod("nvcr.example/nvidia/cloud-native/k8s-mig-manager:v1"), true},
		"one whose tag is misleading":   {pod("nginx:dcgm-exporter"), false},
	} {
		if got := keepPod(c.pod); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// TestMeanings evaluates the queries with Prometheus' own engine: testdata/queries.txt.
//
//	series                  of a healthy installation: prints what the queries give
//	with without=(NAME,…)   more series, or without some: prints what is different
//	match                   the same with matchers in every selector
func TestMeanings(t *testing.T) {
	var healthy string
	var usual []string
	datadriven.RunTest(t, "testdata/queries.txt", func(t *testing.T, d *datadriven.TestData) string {
		series, match := healthy, ""
		switch d.Cmd {
		case "series":
			healthy = d.Input + "\n"
			usual = given(t, healthy, "")
			return strings.Join(usual, "\n") + "\n"
		case "match":
			match = d.Input
		case "with":
			for _, a := range d.CmdArgs {
				for _, name := range a.Vals {
					series = strings.Join(slices.DeleteFunc(strings.SplitAfter(series, "\n"), func(line string) bool { return strings.HasPrefix(line, name+"{") }), "")
				}
			}
			series += d.Input + "\n"
		default:
			d.Fatalf(t, "unknown command %s", d.Cmd)
		}
		got := given(t, series, match)
		var out strings.Builder
		for sign, lists := range map[string][2][]string{"-": {usual, got}, "+": {got, usual}} {
			for _, line := range lists[0] {
				if !slices.Contains(lists[1], line) {
					fmt.Fprintf(&out, "%s %s\n", sign, line)
				}
			}
		}
		return strings.Join(slices.Sorted(strings.SplitAfterSeq(out.String(), "\n")), "")
	})
}

// given is what the queries return that read series, a line for each sample.
func given(t *testing.T, series, match string) (lines []string) {
	t.Helper()
	recorded, err := memstore.Read(series, memstore.From(now, time.Minute))
	require.NoError(t, err)
	for _, s := range Table {
		if !strings.Contains(s.Query, "$") {
			continue
		}
		v, err := memstore.Server{Data: recorded, Engine: engine}.Query(t.Context(), Written(s.Query, match), now.Add(20*time.Minute))
		require.NoError(t, err)
		for _, one := range v {
			lines = append(lines, fmt.Sprintf("%s: %s %g", strings.TrimPrefix(s.Name, "prometheus: "), one.Labels, one.Value))
		}
	}
	return lines
}

var engine = memstore.NewEngine(nil)

// Every query parses, with and without matchers, and the matchers are in every selector.
func TestQuestions(t *testing.T) {
	for _, d := range Table {
		if d.Query == "" {
			continue
		}
		for _, match := range []string{"", `cluster="a",env!~"x|y"`} {
			text := Written(d.Query, match)
			e, err := parser.NewParser(parser.Options{}).ParseExpr(text)
			if err != nil {
				t.Errorf("%s: %v in %s", d.Name, err, text)
				continue
			}
			parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
				if v, ok := n.(*parser.VectorSelector); ok && match != "" {
					has := false
					for _, m := range v.LabelMatchers {
						has = has || m.Name == "cluster" && m.Value == "a"
					}
					if !has {
						t.Errorf("%s: %s is not matched", d.Name, v)
					}
				}
				return nil
			})
		}
	}
}

// TestMany: faults of a thousand nodes are counted, and twenty are listed; in colour on request.
func TestMany(t *testing.T) {
	f := empty()
	GPUQuotas.add(f, gpuQuota{})
	for range 1000 {
		Nodes.add(f, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{contract.StateLabel: "failed"}}})
	}
	checks, err := Select(All(), []string{"mig-config-failed"})
	require.NoError(t, err)
	r := Examine(f, checks)
	if r.Faults != 1000 || len(r.Checks[0].Findings) != maxFindings || r.Checks[0].More != 980 {
		t.Errorf("%d faults, %d listed, %d more", r.Faults, len(r.Checks[0].Findings), r.Checks[0].More)
	}
	var b, coloured bytes.Buffer
	require.NoError(t, Write(&b, r, false))
	require.NoError(t, Write(&coloured, r, true))
	if strings.Contains(b.String(), "\x1b") || !strings.Contains(coloured.String(), "\x1b[1;31mFAULT") {
		t.Errorf("plain %q, coloured %q", b.String(), coloured.String())
	}
	if !strings.Contains(b.String(), "980 more findings are not shown") {
		t.Error("it does not say how many are left out")
	}
}

// FuzzClean: a printed text is one line of bounded length, and no command contains what must not be pasted.
func FuzzClean(f *testing.F) {
	for _, text := range []string{hostile, "a\nb", "\x1b[2J", "a\u202eb", "\xff", strings.Repeat("x", maxCommand+1)} {
		f.Add(text, 10)
	}
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = min(max(limit, 0), 1000)
		out := clean(text, limit)
		if len([]rune(out)) > limit+1 || strings.ContainsFunc(out, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q", out)
		}
		if c := command("kubectl", text); len(c) > maxCommand || !utf8.ValidString(c) || strings.ContainsFunc(c, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("command %q", c)
		}
	})
}
