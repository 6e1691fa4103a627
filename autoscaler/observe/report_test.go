package observe

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// reporting is a node with two halves whose agent says where they are.
func reporting(change ...func(*corev1.Node, *partition.Report)) *corev1.Node {
	n := node("n", halves(2))
	n.UID, n.Status.NodeInfo.BootID = types.UID("uid-n"), "boot-1"
	r := partition.Report{At: start, Node: "uid-n", Boot: "boot-1", Driver: "580.159.03", Cards: []partition.CardReport{{
		UUID: "GPU-1", Model: "H100-80GB", MIG: true,
		Instances: []partition.InstanceReport{{Place: "3g@0:4", UUID: "MIG-1"}, {Place: "3g@4:4", UUID: "MIG-2"}},
	}}}
	for _, c := range change {
		c(n, &r)
	}
	n.Annotations = map[string]string{partition.LayoutAnnotation: r.String()}
	return n
}

// cutTo says what is on the card, and what the device plugin offers.
func cutTo(offered string, places ...string) func(*corev1.Node, *partition.Report) {
	return func(n *corev1.Node, r *partition.Report) {
		delete(n.Status.Allocatable, "nvidia.com/mig-3g.40gb")
		if offered != "" {
			n.Status.Allocatable[corev1.ResourceName("nvidia.com/mig-"+offered)] = resource.MustParse("1")
		}
		r.Cards[0].Instances = nil
		for i, p := range places {
			r.Cards[0].Instances = append(r.Cards[0].Instances, partition.InstanceReport{Place: p, UUID: fmt.Sprintf("MIG-%d", i+1)})
		}
	}
}

// TestReports: who is believed about where instances lie. "?" behind a place is one
// that is not known, "!" in front of a card one whose holders are known.
func TestReports(t *testing.T) {
	reboot := func(n *corev1.Node, _ *partition.Report) { n.Status.NodeInfo.BootID = "boot-2" }
	placeless := func(a *Answers) {
		for i := range a.InstanceInfo {
			m := map[string]string{}
			for _, l := range []string{"node", "gpu", "gpu_uuid", "gpu_instance_id", "profile", "size", "instance_uuid"} {
				m[l] = a.InstanceInfo[i].Labels.Get(l)
			}
			pairs := []string{}
			for k, v := range m {
				pairs = append(pairs, k, v)
			}
			a.InstanceInfo[i] = series(1, pairs...)
		}
	}
	for name, test := range map[string]struct {
		change   []func(*corev1.Node, *partition.Report)
		exporter func(*Answers) // nil: Prometheus is away
		want     string
		says     string // why the report is not believed
	}{
		"the agent alone": {nil, nil, "GPU-1 3g@0:4 3g@4:4", ""},
		"an odd place, which nobody would guess": {[]func(*corev1.Node, *partition.Report){cutTo("1g.10gb", "1g@5:1")}, nil,
			"GPU-1 1g@5:1", ""},
		"both agree":                      {nil, func(*Answers) {}, "!GPU-1 3g@0:4 3g@4:4", ""},
		"the exporter does not say where": {nil, placeless, "!GPU-1 3g@0:4 3g@4:4", ""},
		"one can be told, so the other is left": {[]func(*corev1.Node, *partition.Report){func(_ *corev1.Node, r *partition.Report) { r.Cards[0].Instances[0].UUID = "" }}, placeless,
			"!GPU-1 3g@0:4 3g@4:4", ""},
		"nor can the agent tell which": {[]func(*corev1.Node, *partition.Report){func(_ *corev1.Node, r *partition.Report) {
			r.Cards[0].Instances[0].UUID, r.Cards[0].Instances[1].UUID = "", ""
		}}, placeless, "!GPU-1 3g@0:4? 3g@0:4?", ""},
		"the exporter is behind a cut":      {[]func(*corev1.Node, *partition.Report){cutTo("7g.80gb", "7g@0:8")}, func(*Answers) {}, "GPU-1 7g@0:8", ""},
		"both differ in where, not in what": {[]func(*corev1.Node, *partition.Report){cutTo("1g.10gb", "1g@6:1")}, oneSeventh, "GPU-1 1g@0:1?", ""},
		"before a reboot":                   {[]func(*corev1.Node, *partition.Report){reboot}, nil, "3g@0:4? 3g@4:4?", "boot"},
		"old": {[]func(*corev1.Node, *partition.Report){func(_ *corev1.Node, r *partition.Report) { r.At = start.Add(-time.Hour) }}, nil,
			"3g@0:4? 3g@4:4?", "is of"},
		"another card than the exporter's": {[]func(*corev1.Node, *partition.Report){func(_ *corev1.Node, r *partition.Report) { r.Cards[0].UUID = "GPU-9" }}, func(*Answers) {},
			"!GPU-1 3g@0:4 3g@4:4", "the exporter says GPU-1"},
		"not what the device plugin offers": {[]func(*corev1.Node, *partition.Report){cutTo("1g.10gb", "3g@0:4")}, nil, "1g@6:1?", "the device plugin offers"},
		"a card too many": {[]func(*corev1.Node, *partition.Report){func(_ *corev1.Node, r *partition.Report) { r.Cards = append(r.Cards, partition.CardReport{Index: 1}) }}, nil,
			"3g@0:4? 3g@4:4?", "2 cards, label nvidia.com/gpu.count says 1"},
		"the driver does not answer": {[]func(*corev1.Node, *partition.Report){func(_ *corev1.Node, r *partition.Report) {
			r.Cards, r.Problem = nil, "the driver does not answer"
		}}, nil, "3g@0:4? 3g@4:4?", "no cards: the driver does not answer"},
		"the card cannot be read": {[]func(*corev1.Node, *partition.Report){cutTo("", "3g@0:4"), func(n *corev1.Node, r *partition.Report) {
			r.Cards[0].Problem = "fallen off"
			n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("1")
		}}, nil, "GPU-1 whole", ""},
		"in MIG mode and not cut": {[]func(*corev1.Node, *partition.Report){cutTo("")}, nil, "GPU-1 empty", ""},
		"while a card is cut":     {[]func(*corev1.Node, *partition.Report){cutTo("", "3g@4:4"), beingCutNow}, nil, "GPU-1 3g@4:4", ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := reporting(test.change...)
			if _, ok := n.Labels["cut"]; ok {
				n.Annotations[partition.RecordAnnotation] = partition.Record{ID: "op", Actuator: partition.ActuatorAgent, Selected: true, Target: "3g@0:4 3g@4:4",
					Deadline: start.Add(time.Minute)}.String()
			}
			w := newWorld(t, pool("p"), n)
			if test.exporter != nil {
				a := twoHalves(1)
				test.exporter(&a)
				w.readings = NewReadings(start, a)
			}
			cards := w.at(0).Nodes[0].Cards
			if len(cards) == 0 {
				t.Fatal("no cards")
			}
			c, got := cards[0], ""
			if c.HoldersKnown {
				got = "!"
			}
			got += c.UUID
			for _, i := range c.Instances {
				got += " " + i.Placement.String()
				if !i.Placed {
					got += "?"
				}
			}
			switch {
			case !c.MIG:
				got += " whole"
			case len(c.Instances) == 0:
				got += " empty"
			}
			if got = strings.TrimSpace(got); got != test.want {
				t.Errorf("the card is %q, want %q", got, test.want)
			}
			if said := w.o.warned["MIG layouts"]; (said == "") != (test.says == "") || !strings.Contains(said, test.says) {
				t.Errorf("said %q, want %q", said, test.says)
			}
		})
	}
}

// beingCutNow marks a node for an operation under way.
func beingCutNow(n *corev1.Node, _ *partition.Report) { n.Labels["cut"] = "yes" }

// oneSeventh is what an exporter says of a card with one 1g at its beginning.
func oneSeventh(a *Answers) {
	a.InstanceInfo = append(a.InstanceInfo[:0], series(1, "node", "n", "gpu", "0", "gpu_uuid", "GPU-1",
		"gpu_instance_id", "9", "profile", "1g.10gb", "start", "0", "size", "1", "instance_uuid", "MIG-1"))
}

// TestReportsAreForgotten: with the nodes they were on.
func TestReportsAreForgotten(t *testing.T) {
	n := reporting()
	w := newWorld(t, pool("p"), n)
	w.at(0)
	if len(w.o.reports.parsed) != 1 {
		t.Fatalf("%d reports", len(w.o.reports.parsed))
	}
	if err := w.client.Delete(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	w.at(time.Second)
	if len(w.o.reports.parsed) != 0 {
		t.Errorf("%d reports of nodes that are gone", len(w.o.reports.parsed))
	}
}

// TestAProductNobodyKnows: with the table that its agent publishes, a node has cards
// of the product, cut as they are; and a pool of it has a template with a boot layout.
func TestAProductNobodyKnows(t *testing.T) {
	const line = "X900 4 8 131072 0 2g.64gb:0,4:4:2 4g.128gb:0:8:1"
	spec, err := mig.ParseSpec(line)
	if err != nil {
		t.Fatal(err)
	}
	text, err := partition.FormatTables([]mig.Spec{spec})
	if err != nil {
		t.Fatal(err)
	}
	n := reporting(cutTo("2g.64gb", "2g@4:4"), func(n *corev1.Node, r *partition.Report) {
		n.Labels[productLabel], r.Cards[0].Model = "NVIDIA-X900", "X900"
	})
	n.Annotations[partition.TableAnnotation] = text
	p := pool("p")
	p.Spec.Template.Product = "NVIDIA-X900"
	p.Spec.MIG.BootLayout, p.Spec.MIG.AllowedProfiles = []map[string]int32{{"2g.64gb": 2}}, []string{"2g.64gb", "4g.128gb"}
	w := newWorld(t, p, n)
	out := w.at(0)
	if err := out.Invalid["p"]; err != nil {
		t.Fatalf("the pool: %v", err)
	}
	if cards := out.Pools[0].Template.Cards; len(cards) != 1 || cards[0].Model.Name != "X900" || len(cards[0].Instances) != 2 || len(out.Pools[0].MIG.Allowed) != 2 {
		t.Errorf("template %+v, allowed %v", cards, out.Pools[0].MIG.Allowed)
	}
	c := out.Nodes[0].Cards[0]
	if c.Model.Name != "X900" || len(c.Instances) != 1 || c.Instances[0].String() != "2g@4:4" || !c.Instances[0].Placed {
		t.Errorf("card %+v", c)
	}
	// Without the table the pool says what it lacks, and the card is not guessed at.
	delete(n.Annotations, partition.TableAnnotation)
	n.ResourceVersion = ""
	if err := w.client.Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	out = w.at(time.Second)
	if err := out.Invalid["p"]; err == nil || !strings.Contains(err.Error(), "no node has published") {
		t.Errorf("the pool: %v", err)
	}
	if c := out.Nodes[0].Cards; len(c) > 0 && len(c[0].Instances) > 0 {
		t.Errorf("cards %+v", c)
	}
}
