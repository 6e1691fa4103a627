package contract

import (
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/require"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// TestStale: a report counts while it is about this Node, boot and driver, and is not too old by either clock.
func TestStale(t *testing.T) {
	node := func(change ...func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: types.UID("u"), Labels: map[string]string{}}}
		n.Status.NodeInfo.BootID = "b"
		for _, c := range change {
			c(n)
		}
		return n
	}
	labels := func(pairs ...string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			for i := 0; i < len(pairs); i += 2 {
				n.Labels[pairs[i]] = pairs[i+1]
			}
		}
	}
	r := Report{At: noon, Node: "u", Boot: "b", Driver: "580.159.03"}
	for name, test := range map[string]struct {
		node *corev1.Node
		now  time.Time
		want string // "" is trusted
	}{
		"fresh":               {node(), noon, ""},
		"one report late":     {node(), noon.Add(2 * ReportEvery), ""},
		"old":                 {node(), noon.Add(ReportMaxAge + time.Second), "is of 2026-11-21T12:00:00Z"},
		"of a clock ahead":    {node(), noon.Add(-time.Hour), "is of"},
		"another Node object": {node(func(n *corev1.Node) { n.UID = "v" }), noon, `node UID "u", not "v"`},
		"before a reboot":     {node(func(n *corev1.Node) { n.Status.NodeInfo.BootID = "c" }), noon, `boot "b", not "c"`},
		"the same driver":     {node(labels(driverLabel, "580.159.03")), noon, ""},
		"another driver":      {node(labels(driverLabel, "595.71.05")), noon, "driver 580.159.03, not 595.71.05"},
	} {
		if err := r.Stale(test.node, test.now); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// TestGPUReportLayout: an unreadable GPU has no known layout, one without instances the empty one;
// an impossible layout is an error.
func TestGPUReportLayout(t *testing.T) {
	repartition := func(places ...string) GPUReport {
		c := GPUReport{Model: "H100-80GB", MIG: true}
		for _, p := range places {
			c.Instances = append(c.Instances, InstanceReport{Place: p})
		}
		return c
	}
	stranger := repartition("5g@0:5")
	stranger.Model = "X900"
	lost := repartition("3g@0:4")
	lost.Problem = "the GPU has fallen off the bus"
	impossible := GPUReport{Instances: repartition("3g@0:4").Instances}
	for name, test := range map[string]struct {
		device GPUReport
		want   string
		known  bool
		err    string
	}{
		"with instances":           {repartition("3g@4:4", "1g@0:1"), "1g@0:1 3g@4:4", true, ""},
		"without instances":        {repartition(), "empty", true, ""},
		"whole":                    {GPUReport{Model: "H100-80GB"}, "empty", true, ""},
		"unreadable":               {lost, "empty", false, ""},
		"an unknown product":       {stranger, "5g@0:5", true, ""},
		"no place of it":           {repartition("3g@2:4"), "", false, "may start at"},
		"two at one place":         {repartition("3g@0:4", "1g@0:1"), "", false, "overlap another instance"},
		"two in one word":          {repartition("3g@0:4 1g@4:1"), "", false, "1 instances at 2 places"},
		"by the driver":            {repartition("3g.40gb@0"), "", false, "in slices"},
		"instances without a mode": {impossible, "", false, "not in MIG mode"},
	} {
		l, known, err := test.device.Layout(nil)
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: %v, want %q", name, err, test.err)
		}
		if known != test.known || err == nil && l.String() != test.want {
			t.Errorf("%s: %s, known %v, want %s, %v", name, l, known, test.want, test.known)
		}
	}
}

// TestRecordBounds: a record that no autoscaler writes is rejected.
func TestRecordBounds(t *testing.T) {
	r := Record{ID: "op", Actuator: ActuatorAgent, Started: noon, Deadline: noon.Add(time.Minute)}
	if _, err := ParseRecord(r.String()); err != nil {
		t.Fatal(err)
	}
	far, below, long := r, r, r
	far.Deadline = r.Started.Add(48 * time.Hour)
	below.GPU = -1
	long.Target = strings.Repeat("x", 1<<20)
	for want, bad := range map[string]Record{"want at most 1440 minutes": far, "GPU index -1": below, "bytes, at most": long} {
		if _, err := ParseRecord(bad.String()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestTargetNeedsNoTable: a record of an unknown product is read; one that is not in slices has no target.
func TestTargetNeedsNoTable(t *testing.T) {
	for target, n := range map[string]int{"5g@0:5": 1, "5g.50gb@0": 0} {
		if l := (Record{Model: "X900", Target: target}).TargetLayout(); len(l) != n {
			t.Errorf("%s: %s", target, l)
		}
	}
}

// TestPublished: a problem of one node's tables is reported for that node, and the others hold.
func TestPublished(t *testing.T) {
	table, _ := mig.ForModel("H100-80GB")
	spec := table.Spec()
	spec.Model = "X900"
	text, err := FormatTables([]mig.Spec{spec})
	require.NoError(t, err)
	nodes := make([]corev1.Node, 4)
	for i, name := range []string{"b", "a", "broken", "stale"} {
		nodes[i].Name = name
		nodes[i].Annotations = map[string]string{TableAnnotation: map[string]string{"b": text, "a": text, "broken": "["}[name]}
	}
	tables, err := TablesOf(Publications(nodes))
	if len(tables) != 1 || err == nil || !strings.HasPrefix(err.Error(), "node broken: ") {
		t.Errorf("%v, %v", tables, err)
	}
	if all := Publications(nodes); len(all) != 2 || all[0].Node != "broken" || all[1].Node != "a" {
		t.Errorf("publications %v", all)
	}
	if m, ok := tables.Model("NVIDIA X900 SXM", 0); ok {
		t.Errorf("another product is %+v", m)
	}
	if m, ok := tables.Model("NVIDIA-X900", 0); !ok || m.Name != "X900" || m.Vendor != "nvidia" || m.MemoryMiB != spec.MemoryMiB {
		t.Errorf("model %+v %v", m, ok)
	}
}

// TestAgentReady: an operation requires an agent that reports and may change GPUs.
func TestAgentReady(t *testing.T) {
	fresh := Report{At: noon, Node: "u", GPUs: []GPUReport{{UUID: "GPU-a"}, {Index: 1, UUID: "GPU-b", Problem: "fallen off"}}}
	frozen, garbled := fresh, "{"
	frozen.Problem = "switched off"
	for name, test := range map[string]struct{ text, uuid, deploy, config, want string }{
		"ready": {fresh.String(), "GPU-a", "", "", ""}, "stale": {"", "GPU-a", "", "", "does gpuscale-agent run there?"}, "garbled": {garbled, "GPU-a", "", "", "annotation"},
		"may not": {frozen.String(), "GPU-a", "", "", "switched off"}, "a sick GPU": {fresh.String(), "GPU-b", "", "", "fallen off"},
		"no such GPU": {fresh.String(), "GPU-c", "", "", "no GPU"}, "no UUID": {fresh.String(), "", "", "", "no GPU"},
		// mig-manager applies its label's config whenever it starts, over the agent's layout.
		"mig-manager": {fresh.String(), "GPU-a", "true", "all-1g.10gb", managerLabel}, "to start": {fresh.String(), "GPU-a", "paused-for-driver-upgrade", "all-1g.10gb", managerLabel},
		"no mig-manager": {fresh.String(), "GPU-a", "false", "all-1g.10gb", ""}, "unlabelled": {fresh.String(), "GPU-a", "", "all-1g.10gb", ""}, "no config": {fresh.String(), "GPU-a", "true", "", ""},
	} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			UID: "u", Annotations: map[string]string{LayoutAnnotation: test.text}, Labels: map[string]string{managerLabel: test.deploy, ConfigLabel: test.config},
		}}
		if err := AgentReady(n, test.uuid, noon); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if err := AgentReady(n, test.uuid, noon.Add(time.Hour)); err == nil {
			t.Errorf("%s: an hour later it is ready", name)
		}
	}
}

func TestBadTables(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1}`:                        "want a JSON list of strings",
		`["H100-80GB 7"]`:                "[0]: MIG table",
		`["X 99 8 0 0"]`:                 "[0]: MIG table of X: 99 compute slices",
		strings.Repeat(" ", 70000) + "[": "70001 bytes",
		`["","","","","","","","",""]`:   "9 products",
	} {
		if _, err := ParseTables(text); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), TableAnnotation) {
			t.Errorf("%.40s: err = %v, want %q", text, err, want)
		}
	}
	if got, err := ParseTables(""); got != nil || err != nil {
		t.Errorf("nothing: %v, %v", got, err)
	}
}

// FuzzTables: tables that are read survive writing and reading.
func FuzzTables(f *testing.F) {
	f.Add(`["H100-80GB 7 8 81559 0 1g.10gb:0,1,2,3,4,5,6:1:7 3g.40gb:0,4:4:2:0:3g.39gb"]`)
	f.Add(`[""]`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, text string) {
		specs, err := ParseTables(text)
		if err != nil || len(specs) == 0 {
			return
		}
		again, err := FormatTables(specs)
		if err != nil {
			t.Fatalf("%q was read and cannot be written: %v", text, err)
		}
		if back, err := ParseTables(again); err != nil || !reflect.DeepEqual(back, specs) {
			t.Fatalf("%q came back as %v: %v", again, back, err)
		}
	})
}

func FuzzParseRecord(f *testing.F) {
	f.Add(`{"id":"a","gpu":0,"model":"H100-80GB","target":"3g.40gb@0","config":"c","previous":"p","deadline":"2026-01-01T00:00:00Z"}`)
	f.Add(`{}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRecord(text)
		if err != nil || len(text) > maxRecordBytes/6 { // an escape has six bytes
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

func FuzzParseAnswer(f *testing.F) {
	f.Add(Answer{ID: "a", State: AgentWorking, Step: "create 3g@0:4", At: noon}.String())
	f.Add(`{"id":"a","state":"lost"}`)
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseAnswer(text)
		if err != nil || len(text) > maxAnswerBytes/6 { // an escape has six bytes
			return
		}
		if again, err := ParseAnswer(a.String()); err != nil || again.String() != a.String() {
			t.Fatalf("%s: %v", a, err)
		}
	})
}

func FuzzParseReport(f *testing.F) {
	f.Add(`{"driver":"580.159.03","gpus":[{"index":0,"uuid":"GPU-0","model":"H100-80GB","mig":true,"instances":[{"place":"3g@0:4","allocatedTo":"a/b"}]}]}`)
	f.Add(`{"gpus":[{"index":1,"model":"H100-80GB","mig":true,"instances":[{"place":"3g@2:4"}]}]}`)
	f.Add(`{"gpus":[{"index":1},{"index":1}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseReport(text)
		if err != nil {
			return
		}
		for _, c := range r.GPUs {
			if _, _, err := c.Layout(nil); err != nil {
				t.Fatalf("accepted %s: %v", text, err)
			}
		}
		if again, err := ParseReport(r.String()); len(text) <= maxReportBytes/6 && (err != nil || again.String() != r.String()) { // an escape has six bytes
			t.Fatalf("%s: %v", r, err)
		}
	})
}
