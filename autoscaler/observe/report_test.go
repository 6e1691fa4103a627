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
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// reportingNode has two halves whose placements its agent reports.
func reportingNode(change ...func(*corev1.Node, *contract.Report)) *corev1.Node {
	n := node("n", halves(2))
	n.UID, n.Status.NodeInfo.BootID = types.UID("uid-n"), "boot-1"
	r := contract.Report{At: start, Node: "uid-n", Boot: "boot-1", Driver: "580.159.03", GPUs: []contract.GPUReport{{
		UUID: "GPU-1", Model: "H100-80GB", MIG: true,
		Instances: []contract.InstanceReport{{Place: "3g@0:4", UUID: "MIG-1"}, {Place: "3g@4:4", UUID: "MIG-2"}},
	}}}
	n.Annotations = map[string]string{}
	for _, c := range change {
		c(n, &r)
	}
	n.Annotations[contract.LayoutAnnotation] = r.String()
	return n
}

// layoutOf sets the instances in the report, and what the device plugin advertises.
func layoutOf(offered string, places ...string) func(*corev1.Node, *contract.Report) {
	return func(n *corev1.Node, r *contract.Report) {
		delete(n.Status.Allocatable, "nvidia.com/mig-3g.40gb")
		if offered != "" {
			n.Status.Allocatable[corev1.ResourceName("nvidia.com/mig-"+offered)] = resource.MustParse("1")
		}
		r.GPUs[0].Instances = nil
		for i, p := range places {
			r.GPUs[0].Instances = append(r.GPUs[0].Instances, contract.InstanceReport{Place: p, UUID: fmt.Sprintf("MIG-%d", i+1)})
		}
	}
}

// TestReports: which source decides the placements. "?" after a placement marks an unknown one, "!"
// before a GPU known allocations.
func TestReports(t *testing.T) {
	reboot := func(n *corev1.Node, _ *contract.Report) { n.Status.NodeInfo.BootID = "boot-2" }
	placeless := func(a *Answers) {
		for i := range a.InstanceInfo {
			m := a.InstanceInfo[i].Labels.Map()
			delete(m, "start")
			a.InstanceInfo[i].Labels = prom.FromMap(m)
		}
	}
	for name, test := range map[string]struct {
		change   []func(*corev1.Node, *contract.Report)
		exporter func(*Answers) // nil: Prometheus is unavailable
		want     string
		says     string // why the report is not trusted
	}{
		"the agent alone": {nil, nil, "GPU-1 3g@0:4 3g@4:4", ""},
		"an unusual placement, which cannot be guessed": {[]func(*corev1.Node, *contract.Report){layoutOf("1g.10gb", "1g@5:1")}, nil,
			"GPU-1 1g@5:1", ""},
		"both agree":                     {nil, func(*Answers) {}, "!GPU-1 3g@0:4 3g@4:4", ""},
		"the exporter has no placements": {nil, placeless, "!GPU-1 3g@0:4 3g@4:4", ""},
		"one is identified, so the other is too": {[]func(*corev1.Node, *contract.Report){func(_ *corev1.Node, r *contract.Report) { r.GPUs[0].Instances[0].UUID = "" }}, placeless,
			"!GPU-1 3g@0:4 3g@4:4", ""},
		"no UUIDs, so the placements are unknown": {[]func(*corev1.Node, *contract.Report){func(_ *corev1.Node, r *contract.Report) {
			r.GPUs[0].Instances[0].UUID, r.GPUs[0].Instances[1].UUID = "", ""
		}}, placeless, "!GPU-1 3g@0:4? 3g@0:4?", ""},
		"the exporter is stale after a repartition": {[]func(*corev1.Node, *contract.Report){layoutOf("7g.80gb", "7g@0:8")}, func(*Answers) {}, "GPU-1 7g@0:8", ""},
		"placements differ, profiles do not":        {[]func(*corev1.Node, *contract.Report){layoutOf("1g.10gb", "1g@6:1")}, oneSeventh, "GPU-1 1g@0:1?", ""},
		"before a reboot":                           {[]func(*corev1.Node, *contract.Report){reboot}, nil, "3g@0:4? 3g@4:4?", "boot"},
		"old": {[]func(*corev1.Node, *contract.Report){func(_ *corev1.Node, r *contract.Report) { r.At = start.Add(-time.Hour) }}, nil,
			"3g@0:4? 3g@4:4?", "is of"},
		"another GPU than the exporter's": {[]func(*corev1.Node, *contract.Report){func(_ *corev1.Node, r *contract.Report) { r.GPUs[0].UUID = "GPU-9" }}, func(*Answers) {},
			"!GPU-1 3g@0:4 3g@4:4", "the exporter says GPU-1"},
		"not what the device plugin offers": {[]func(*corev1.Node, *contract.Report){layoutOf("1g.10gb", "3g@0:4")}, nil, "1g@6:1?", "the device plugin offers"},
		"a GPU too many": {[]func(*corev1.Node, *contract.Report){func(_ *corev1.Node, r *contract.Report) { r.GPUs = append(r.GPUs, contract.GPUReport{Index: 1}) }}, nil,
			"3g@0:4? 3g@4:4?", "2 GPUs, label nvidia.com/gpu.count says 1"},
		"the driver does not answer": {[]func(*corev1.Node, *contract.Report){func(_ *corev1.Node, r *contract.Report) {
			r.GPUs, r.Problem = nil, "the driver does not answer"
		}}, nil, "3g@0:4? 3g@4:4?", "no GPUs: the driver does not answer"},
		"the GPU cannot be read": {[]func(*corev1.Node, *contract.Report){layoutOf("", "3g@0:4"), func(n *corev1.Node, r *contract.Report) {
			r.GPUs[0].Problem = "fallen off"
			n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("1")
		}}, nil, "GPU-1 whole", ""},
		"in MIG mode without instances": {[]func(*corev1.Node, *contract.Report){layoutOf("")}, nil, "GPU-1 empty", ""},
		"while a GPU is repartitioned":  {[]func(*corev1.Node, *contract.Report){layoutOf("", "3g@4:4"), beingRepartitionedNow}, nil, "GPU-1 3g@4:4", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pool("p"), reportingNode(test.change...))
			if test.exporter != nil {
				a := twoHalves(1)
				test.exporter(&a)
				w.readings = NewReadings(start, a)
			}
			gpus := w.at(0).Nodes[0].GPUs
			if len(gpus) == 0 {
				t.Fatal("no GPUs")
			}
			c, got := gpus[0], ""
			if c.AllocationKnown {
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
				t.Errorf("the GPU is %q, want %q", got, test.want)
			}
			if warned := w.o.warned["MIG layouts"]; (warned == "") != (test.says == "") || !strings.Contains(warned, test.says) {
				t.Errorf("warned %q, want %q", warned, test.says)
			}
		})
	}
}

// beingRepartitionedNow marks a node for an operation under way.
func beingRepartitionedNow(n *corev1.Node, _ *contract.Report) {
	n.Annotations[contract.RecordAnnotation] = contract.Record{ID: "op", Actuator: contract.ActuatorAgent, Selected: true, Target: "3g@0:4 3g@4:4",
		Deadline: start.Add(time.Minute)}.String()
}

// oneSeventh is the sample of a GPU with one 1g at its beginning.
func oneSeventh(a *Answers) {
	a.InstanceInfo = append(a.InstanceInfo[:0], series(1, "node", "n", "gpu", "0", "gpu_uuid", "GPU-1",
		"gpu_instance_id", "9", "profile", "1g.10gb", "start", "0", "size", "1", "instance_uuid", "MIG-1"))
}

// TestUnknownProduct: with the table that its agent publishes, a node has GPUs of the product with
// their layout, and a pool of it has a template with a boot layout.
func TestUnknownProduct(t *testing.T) {
	const line = "X900 4 8 131072 0 2g.64gb:0,4:4:2 4g.128gb:0:8:1"
	spec, err := mig.ParseSpec(line)
	if err != nil {
		t.Fatal(err)
	}
	text, err := contract.FormatTables([]mig.Spec{spec})
	if err != nil {
		t.Fatal(err)
	}
	n := reportingNode(layoutOf("2g.64gb", "2g@4:4"), func(n *corev1.Node, r *contract.Report) {
		n.Labels[partition.ProductLabel], r.GPUs[0].Model = "NVIDIA-X900", "X900"
	})
	n.Annotations[contract.TableAnnotation] = text
	p := pool("p")
	p.Spec.Template.Product = "NVIDIA-X900"
	p.Spec.MIG.BootLayout, p.Spec.MIG.AllowedProfiles = []map[string]int32{{"2g.64gb": 2}}, []string{"2g.64gb", "4g.128gb"}
	broken := node("z-broken", halves(2))
	broken.Annotations = map[string]string{contract.TableAnnotation: strings.Repeat("x", 1<<20)}
	w := newWorld(t, p, n, broken)
	w.at(0)
	out := w.at(0) // from the cache
	if warned := w.o.warned["MIG tables"]; len(out.Tables) != 1 || !strings.Contains(warned, "node z-broken: annotation gpuscale.io/mig-table: 1048576 bytes") {
		t.Errorf("tables %v, warned %q", out.Tables, warned)
	}
	if err := out.Invalid["p"]; err != nil {
		t.Fatalf("the pool: %v", err)
	}
	if gpus := out.Pools[0].Template.GPUs; len(gpus) != 1 || gpus[0].Model.Name != "X900" || len(gpus[0].Instances) != 2 || len(out.Pools[0].MIG.Allowed) != 2 {
		t.Errorf("template %+v, allowed %v", gpus, out.Pools[0].MIG.Allowed)
	}
	c := out.Nodes[0].GPUs[0]
	if c.Model.Name != "X900" || len(c.Instances) != 1 || c.Instances[0].String() != "2g@4:4" || !c.Instances[0].Placed {
		t.Errorf("GPU %+v", c)
	}
	// Without the table the pool has a problem, and the GPU's layout is not guessed.
	delete(n.Annotations, contract.TableAnnotation)
	n.ResourceVersion = ""
	if err := w.client.Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	out = w.at(time.Second)
	if err := out.Invalid["p"]; err == nil || !strings.Contains(err.Error(), "no node has published") {
		t.Errorf("the pool: %v", err)
	}
	if c := out.Nodes[0].GPUs; len(c) > 0 && len(c[0].Instances) > 0 {
		t.Errorf("GPUs %+v", c)
	}
}
