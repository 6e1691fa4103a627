package partition

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// TestStale: a report counts while it is about this Node, boot and driver, and not old by either
// clock.
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
		want string // "" is believed
	}{
		"fresh":                {node(), noon, ""},
		"one report late":      {node(), noon.Add(2 * ReportEvery), ""},
		"old":                  {node(), noon.Add(ReportMaxAge + time.Second), "is of 2026-11-21T12:00:00Z"},
		"of a clock ahead":     {node(), noon.Add(-time.Hour), "is of"},
		"another Node object":  {node(func(n *corev1.Node) { n.UID = "v" }), noon, `node UID "u", not "v"`},
		"before a reboot":      {node(func(n *corev1.Node) { n.Status.NodeInfo.BootID = "c" }), noon, `boot "b", not "c"`},
		"the same driver":      {node(labels(driverLabel, "580.159.03")), noon, ""},
		"another driver":       {node(labels(driverLabel, "595.71.05")), noon, "driver 580.159.03, not 595.71.05"},
		"by three labels":      {node(labels(driverLabels[0], "580", driverLabels[1], "159", driverLabels[2], "03")), noon, ""},
		"another of the three": {node(labels(driverLabels[0], "580", driverLabels[1], "65")), noon, "not 580.65"},
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
		"instances without a mode": {impossible, "", false, "without MIG"},
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
	_, r := agentNode()
	if _, err := ParseRecord(r.String()); err != nil {
		t.Fatal(err)
	}
	far, below, long := r, r, r
	far.Deadline = r.Started.Add(48 * time.Hour)
	below.GPU = -1
	long.Target = strings.Repeat("x", 1<<20)
	for want, bad := range map[string]Record{"want at most 1440 minutes": far, "GPU -1": below, "bytes, at most": long} {
		if _, err := ParseRecord(bad.String()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{RecordAnnotation: bad.String()}}}
		if op := OperationOf(n); op == nil || op.ID != Unreadable {
			t.Errorf("%s: operation %+v", want, op)
		}
	}
}

// TestTargetNeedsNoTable: a record of an unknown product is read, and so is a record with the
// driver's names instead of slices.
func TestTargetNeedsNoTable(t *testing.T) {
	for _, r := range []Record{{Model: "X900", Target: "5g@0:5"}, {Model: "H100-80GB", Target: "3g.40gb@4"}} {
		if l := r.TargetLayout(); len(l) != 1 {
			t.Errorf("%+v: %s", r, l)
		}
	}
	if l := (Record{Model: "X900", Target: "5g.50gb@0"}).TargetLayout(); l != nil {
		t.Errorf("names without a table: %s", l)
	}
}

// TestOffers: the driver's rounding of a profile's name does not matter; the number of instances
// does.
func TestOffers(t *testing.T) {
	for name, test := range map[string]struct {
		a, b map[string]int64
		same bool
	}{
		"equal":           {map[string]int64{"nvidia.com/mig-3g.40gb": 2}, map[string]int64{"nvidia.com/mig-3g.40gb": 2}, true},
		"rounded":         {map[string]int64{"nvidia.com/mig-3g.39gb": 2}, map[string]int64{"nvidia.com/mig-3g.40gb": 2}, true},
		"fewer":           {map[string]int64{"nvidia.com/mig-3g.39gb": 1}, map[string]int64{"nvidia.com/mig-3g.40gb": 2}, false},
		"another size":    {map[string]int64{"nvidia.com/mig-1g.20gb": 2}, map[string]int64{"nvidia.com/mig-1g.10gb": 2}, false},
		"with attributes": {map[string]int64{"nvidia.com/mig-1g.10gb.me": 1}, map[string]int64{"nvidia.com/mig-1g.10gb": 1}, false},
		"one more kind":   {map[string]int64{"nvidia.com/gpu": 1}, map[string]int64{"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 1}, false},
		"nothing":         {nil, map[string]int64{}, true},
	} {
		if SameOffer(test.a, test.b) != test.same || SameOffer(test.b, test.a) != test.same {
			t.Errorf("%s: want %v both ways", name, test.same)
		}
	}
	n, r := agentNode()
	n.Annotations[AgentAnnotation] = Answer{ID: r.ID, State: AgentDone}.String()
	offer(n, "nvidia.com/mig-3g.39gb")
	if op := OperationOf(n); op.Phase != "succeeded" {
		t.Errorf("an older driver's name: %+v", op)
	}
}

// TestPublished: a problem of one node's tables is reported for that node, and the others hold.
func TestPublished(t *testing.T) {
	table, _ := mig.ForModel("H100-80GB")
	spec := table.Spec()
	spec.Model = "X900"
	text, err := FormatTables([]mig.Spec{spec})
	if err != nil {
		t.Fatal(err)
	}
	nodes := make([]corev1.Node, 4)
	for i, name := range []string{"b", "a", "broken", "stale"} {
		nodes[i].Name = name
		nodes[i].Annotations = map[string]string{TableAnnotation: map[string]string{"b": text, "a": text, "broken": "["}[name]}
	}
	tables, err := Published(nodes)
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
	for name, test := range map[string]struct{ text, uuid, want string }{
		"ready": {fresh.String(), "GPU-a", ""}, "stale": {"", "GPU-a", "does gpuscale-agent run there?"}, "garbled": {garbled, "GPU-a", "annotation"},
		"may not": {frozen.String(), "GPU-a", "switched off"}, "a sick GPU": {fresh.String(), "GPU-b", "fallen off"},
		"no such GPU": {fresh.String(), "GPU-c", "no GPU"}, "no UUID": {fresh.String(), "", "no GPU"},
	} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: "u", Annotations: map[string]string{LayoutAnnotation: test.text}}}
		if err := AgentReady(n, test.uuid, noon); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if err := AgentReady(n, test.uuid, noon.Add(time.Hour)); err == nil {
			t.Errorf("%s: an hour later it is ready", name)
		}
	}
}

// TestAgentIsNotReadyBesideManager: mig-manager applies its label's config whenever it starts, over
// what the agent has made.
func TestAgentIsNotReadyBesideManager(t *testing.T) {
	fresh := Report{At: noon, Node: "u", GPUs: []GPUReport{{UUID: "GPU-a"}}}
	for _, test := range []struct {
		deploy, config string
		ready          bool
	}{
		{"true", "all-1g.10gb", false}, {"paused-for-driver-upgrade", "all-1g.10gb", false},
		{"false", "all-1g.10gb", true}, {"", "all-1g.10gb", true}, {"true", "", true},
	} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			UID: "u", Annotations: map[string]string{LayoutAnnotation: fresh.String()},
			Labels: map[string]string{managerLabel: test.deploy, ConfigLabel: test.config},
		}}
		if err := AgentReady(n, "GPU-a", noon); (err == nil) != test.ready || err != nil && !strings.Contains(err.Error(), managerLabel) {
			t.Errorf("%+v: %v", test, err)
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

// offering is a node with GPUs of some memory ("" for no label) that advertises these profiles.
func offering(memory string, profiles map[string]string) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{}, Annotations: map[string]string{}},
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{}},
	}
	if memory != "" {
		node.Labels[MemoryLabel] = memory
	}
	for name, n := range profiles {
		node.Status.Allocatable[corev1.ResourceName(mig.ResourceName(name))] = resource.MustParse(n)
	}
	return node
}

// TestNamesAreTheNodes: the layouts of all GPUs have the names that the node advertises, and a
// profile that it does not offer has a name only if that is certain.
func TestNamesAreTheNodes(t *testing.T) {
	for name, test := range map[string]struct {
		model, memory string
		offered       map[string]string
		own           string // the node's mig-table
		busy, target  string // layouts of GPU 0, and for GPU 1
		want          map[string]int
		why           string // of a refusal
	}{
		"the other GPU keeps an advertised alias": {
			model: "GB200-186GB", offered: map[string]string{"3g.95gb": "2", "1g.24gb": "7"}, busy: "3g@0 3g@4", target: "3g@0",
			want: map[string]int{"3g.95gb": 1},
		},
		"attributes": {
			model: "H100-80GB", offered: map[string]string{"1g.10gb+me": "1", "1g.10gb": "6"}, busy: "1g.10gb+me@0", target: "1g.10gb+me@0 1g@1",
			want: map[string]int{"1g.10gb+me": 1, "1g.10gb": 1},
		},
		"two names of one profile": {
			model: "GB200-186GB", offered: map[string]string{"3g.95gb": "1", "3g.93gb": "1"}, busy: "3g@0", target: "empty",
			why: "3g.93gb and 3g.95gb",
		},
		"a vanished name is none": {
			model: "GB200-186GB", offered: map[string]string{"3g.95gb": "1", "3g.93gb": "0"}, busy: "3g@0", target: "3g@0 3g@4",
			want: map[string]int{"3g.95gb": 2},
		},
		"one of two names, not offered": {
			model: "GB200-186GB", offered: map[string]string{"1g.24gb": "1"}, busy: "1g@0", target: "3g@0",
			why: "no label " + MemoryLabel,
		},
		"the memory decides": {
			model: "GB200-186GB", memory: "193536", offered: map[string]string{"1g.24gb": "1"}, busy: "1g@0", target: "3g@0",
			want: map[string]int{"3g.95gb": 1},
		},
		"the memory contradicts the offer": {
			model: "GB200-186GB", memory: "189471", offered: map[string]string{"1g.24gb": "1"}, busy: "1g@0", target: "3g@0",
			why: "its memory gives 1g.23gb",
		},
		"the memory gives a name that the product has not": {
			model: "H100-80GB", memory: "90112", offered: nil, busy: "empty", target: "3g@0",
			why: "its memory gives 3g.44gb",
		},
		"the only name": {
			model: "H100-80GB", offered: map[string]string{"1g.10gb": "1"}, busy: "1g@0", target: "3g@0",
			want: map[string]int{"3g.40gb": 1},
		},
		"the only name beside an unknown one": {
			model: "H100-80GB", offered: map[string]string{"1g.11gb": "1"}, busy: "1g@0", target: "3g@0",
			why: "no label " + MemoryLabel,
		},
		"the node's agent": {
			model: "GB200-186GB", offered: map[string]string{"1g.24gb": "1"}, busy: "1g@0", target: "3g@0",
			own:  `["GB200-186GB 7 8 189471 0 1g.24gb:0,1,2,3,4,5,6:1:7 3g.95gb:0,4:4:2 7g.189gb:0:8:1"]`,
			want: map[string]int{"3g.95gb": 1},
		},
		"an agent of an earlier driver": {
			model: "GB200-186GB", offered: map[string]string{"1g.23gb": "1"}, busy: "1g@0", target: "3g@0",
			own: `["GB200-186GB 7 8 189471 0 1g.24gb:0,1,2,3,4,5,6:1:7 3g.95gb:0,4:4:2 7g.189gb:0:8:1"]`,
			why: "no label " + MemoryLabel,
		},
	} {
		t.Run(name, func(t *testing.T) {
			node := offering(test.memory, test.offered)
			if test.own != "" {
				node.Annotations[TableAnnotation] = test.own
			}
			names := NamesOn(node)
			product, _ := gpu.ParseProduct(test.model)
			table, _ := mig.ForModel(test.model)
			parse := func(text string) mig.Layout {
				l, err := mig.ParseLayout(table, text)
				if err != nil {
					t.Fatal(err)
				}
				return l
			}
			var after NodeLayout
			before, err := names.LayoutOf(nil, []plan.GPU{ofLayout(0, product, parse(test.busy)), ofLayout(1, product, nil)})
			if err == nil {
				for profile := range before[0].Counts {
					if test.offered[profile] == "" {
						t.Errorf("the busy GPU has %s, the node offers %v", profile, test.offered)
					}
				}
				after, err = before.With(nil, names, 1, test.model, parse(test.target))
			}
			if test.why != "" {
				if err == nil || !strings.Contains(err.Error(), test.why) {
					t.Errorf("%v, %v: want %q", after, err, test.why)
				}
				return
			}
			if err != nil || !maps.Equal(after[1].Counts, test.want) {
				t.Errorf("%v, %v: want %v", after, err, test.want)
			}
		})
	}
}

// TestMemoryGivesTheNames: for each product the derived names are the table's.
func TestMemoryGivesTheNames(t *testing.T) {
	for _, model := range mig.Models() {
		table, _ := mig.ForModel(model)
		memory := table.Spec().MemoryMiB
		if memory == 0 {
			t.Errorf("%s: no memory", model)
		}
		names := NamesOn(offering(strconv.Itoa(memory), nil))
		for _, p := range table.Profiles() {
			if name, err := names.of(table, p); err != nil || name != table.Name(p) {
				t.Errorf("%s: %s, %v: want %s", model, name, err, table.Name(p))
			}
		}
	}
}

func ofLayout(index int, model gpu.Model, l mig.Layout) plan.GPU {
	c := plan.GPU{Device: gpu.Device{Index: index, Model: model}, AllocationKnown: true, MIG: true}
	for _, p := range slices.Backward(l) {
		c.Instances = append(c.Instances, plan.Instance{Placement: p, Placed: true})
	}
	return c
}
