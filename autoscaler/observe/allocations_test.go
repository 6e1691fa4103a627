package observe

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/sandbox/nodegroups"
)

func amount(name string, n int64) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceName(name): *resource.NewQuantity(n, resource.DecimalSI)}
}

// bare is a node of pool "p" without the labels of NVIDIA's components.
func bare(name string, offered corev1.ResourceList) *corev1.Node {
	n := node(name, offered)
	n.Labels = map[string]string{v1alpha1.NodePoolLabel: "p"}
	return n
}

// poolOf is a pool of nodes with n GPUs of a product, without MIG.
func poolOf(product string, n int32) *v1alpha1.GPUNodePool {
	p := pool("p")
	p.Spec.MIG, p.Spec.Min, p.Spec.Template.Product, p.Spec.Template.GPUs = nil, 0, product, n
	return p
}

// TestWholeGPUsAreKnownByTheirPods: where a device plugin gives whole GPUs and no exporter reports
// them, bound pods are the allocations, for any maker.
func TestWholeGPUsAreKnownByTheirPods(t *testing.T) {
	for name, c := range map[string]struct {
		product  string
		resource string
		offered  int64
		change   func(*corev1.Node)
		pods     []client.Object
		want     string // by GPU: "?" unknown, "-" free, else the pod
	}{
		"AMD, free":           {"AMD-Instinct-MI300X", "amd.com/gpu", 2, nil, nil, "--"},
		"AMD, one in use":     {"AMD-Instinct-MI300X", "amd.com/gpu", 2, nil, []client.Object{pod("a", "n", amount("amd.com/gpu", 1))}, "a-"},
		"Intel, all in use":   {"Intel-Data-Center-GPU-Max-1100", "gpu.intel.com/i915", 2, nil, []client.Object{pod("a", "n", amount("gpu.intel.com/i915", 2))}, "aa"},
		"Ascend, one in use":  {"Ascend910B3", "huawei.com/Ascend910", 2, nil, []client.Object{pod("a", "n", amount("huawei.com/Ascend910", 1))}, "a-"},
		"TPU, free":           {"tpu-v5-lite-podslice", "google.com/tpu", 2, nil, nil, "--"},
		"vGPU, one in use":    {"GRID-T4-8Q", "nvidia.com/gpu", 2, nil, []client.Object{pod("a", "n", amount("nvidia.com/gpu", 1))}, "a-"},
		"NVIDIA without MIG":  {"NVIDIA-L40S", "nvidia.com/gpu", 2, nil, []client.Object{pod("a", "n", amount("nvidia.com/gpu", 1))}, "a-"},
		"a pod without GPUs":  {"NVIDIA-L40S", "nvidia.com/gpu", 2, nil, []client.Object{pod("a", "n", amount("cpu", 1))}, "--"},
		"MIG-capable, free":   {"NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu", 2, nil, nil, "--"},
		"MIG-capable, in use": {"NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu", 2, nil, []client.Object{pod("a", "n", amount("nvidia.com/gpu", 1))}, "??"},
		"time-sliced": {"NVIDIA-L40S", "nvidia.com/gpu", 4, func(n *corev1.Node) {
			n.Labels[partition.ReplicasLabel], n.Labels[partition.CountLabel], n.Labels[partition.ProductLabel] = "4", "1", "NVIDIA-L40S-SHARED"
		}, []client.Object{pod("a", "n", amount("nvidia.com/gpu", 1))}, "a---"},
		"shared": {"NVIDIA-L40S", "nvidia.com/gpu", 2, func(n *corev1.Node) { n.Labels[partition.ProductLabel] = "NVIDIA-L40S-SHARED" }, nil, "??"},
		"one strategy": {"NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu", 2, func(n *corev1.Node) { n.Labels[partition.StrategyLabel] = "single" },
			nil, "??"},
		"with instances": {"NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu", 1, func(n *corev1.Node) {
			n.Status.Allocatable["nvidia.com/mig-1g.10gb"] = resource.MustParse("0")
			n.Labels[partition.CountLabel] = "2"
		}, nil, "??"},
		"a GPU that is not offered": {"NVIDIA-L40S", "nvidia.com/gpu", 1, func(n *corev1.Node) { n.Labels[partition.CountLabel] = "2" }, nil, "??"},
		"a repartition under way": {"NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu", 2, func(n *corev1.Node) {
			n.Annotations = map[string]string{contract.RecordAnnotation: "{}"}
		}, nil, "??"},
		"a pod that cannot be read": {"NVIDIA-L40S", "nvidia.com/gpu", 2, nil,
			[]client.Object{func() client.Object {
				p := pod("a", "n", amount("nvidia.com/gpu", 1))
				p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c"}}
				return p
			}()}, "??"},
	} {
		t.Run(name, func(t *testing.T) {
			n := bare("n", amount(c.resource, c.offered))
			if c.change != nil {
				c.change(n)
			}
			w := newWorld(t, append(c.pods, poolOf(c.product, 2), n)...)
			got := ""
			for _, g := range w.at(0).Nodes[0].GPUs {
				switch {
				case !g.AllocationKnown:
					got += "?"
				case len(g.AllocatedTo) == 0:
					got += "-"
				default:
					got += strings.TrimPrefix(g.AllocatedTo[0], "chat/")
				}
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// makers are products, and the resource by which their device plugins give them.
var makers = map[string]string{
	"AMD-Instinct-MI300X": "amd.com/gpu", "NVIDIA-L40S": "nvidia.com/gpu", "Intel-Data-Center-GPU-Max-1100": "gpu.intel.com/i915",
	"Intel-Data-Center-GPU-Flex-170": "gpu.intel.com/xe", "Ascend910B3": "huawei.com/Ascend910", "Ascend310P3": "huawei.com/Ascend310P",
	"tpu-v6e-slice": "google.com/tpu", "GRID-T4-8Q": "nvidia.com/gpu",
}

// TestMakersScaleUp: whole devices of any maker get nodes of a pool of that maker, from zero and beside
// full ones, and none of another's.
func TestMakersScaleUp(t *testing.T) {
	for product, name := range makers {
		other := poolOf("AMD-Instinct-MI210", 2)
		if name == "amd.com/gpu" {
			other = poolOf("NVIDIA-L4", 2)
		}
		other.Name, other.Spec.Provider, other.Spec.PricePerHour = "other", nodegroups.Of("other"), ptr.To(resource.MustParse("0.1"))
		full := []client.Object{bare("n", amount(name, 2)), pod("a", "n", amount(name, 2))}
		for what, objects := range map[string][]client.Object{"from zero": nil, "beside a full node": full} {
			w := newWorld(t, append(objects, poolOf(product, 2), other, stuckPod("p", amount(name, 2)))...)
			made := plan.Make(w.at(0).Snapshot, plan.DefaultPolicy())
			if len(made.Actions) != 1 || made.Actions[0].Verb != plan.ScaleUp || made.Actions[0].Pool != "p" {
				t.Errorf("%s, %s:\n%s", product, what, made)
			}
		}
		if w := newWorld(t, other, stuckPod("p", amount(name, 1))); w.verdictOn("p", 0, 0) != plan.NoPoolFits {
			t.Errorf("%s: a node of another maker is added", product)
		}
	}
}

// TestNodeOfAnotherMaker: a node of no pool and of unknown product has GPUs of the maker whose resource it
// offers.
func TestNodeOfAnotherMaker(t *testing.T) {
	n := bare("n", amount("amd.com/gpu", 2))
	delete(n.Labels, v1alpha1.NodePoolLabel)
	w := newWorld(t, poolOf("NVIDIA-L40S", 1), n, stuckPod("p", amount("nvidia.com/gpu", 1)), stuckPod("amd", amount("amd.com/gpu", 1)))
	if got := w.verdictOn("p", 0, 1); got != plan.WaitUpcomingNode {
		t.Errorf("NVIDIA's: %s", got)
	}
	if got := w.verdictOn("amd", 0, 1); got != plan.WaitScheduler {
		t.Errorf("AMD's: %s", got)
	}
}

// TestAscendChips: the resource names the chip, so a node with another one is none for the pod.
func TestAscendChips(t *testing.T) {
	small := poolOf("Ascend310P3", 2)
	small.Name, small.Spec.Provider, small.Spec.PricePerHour = "small", nodegroups.Of("small"), ptr.To(resource.MustParse("0.1"))
	for name, want := range map[string]string{"huawei.com/Ascend910": "p", "huawei.com/Ascend910B3": "p", "huawei.com/Ascend310P": "small"} {
		w := newWorld(t, small, poolOf("Ascend910B3", 2), stuckPod("a", amount(name, 1)))
		made := plan.Make(w.at(0).Snapshot, plan.DefaultPolicy())
		if len(made.Actions) != 1 || made.Actions[0].Pool != want {
			t.Errorf("%s: want a node of %s:\n%s", name, want, made)
		}
	}
}

// TestPoolWithoutExporterScalesDown: two empty nodes of any maker go after the pool's idleAfter.
func TestPoolWithoutExporterScalesDown(t *testing.T) {
	for product, resource := range makers {
		w := newWorld(t, poolOf(product, 2), bare("n-1", amount(resource, 2)))
		if got := w.removals(61); len(got) != 21 { // ten minutes of idleAfter
			t.Errorf("%s: removed %q", product, got)
		}
	}
}

// TestTimeSlicedGPUsAreCountedAsOffered: eight pods on GPUs that four share are two nodes.
func TestTimeSlicedGPUsAreCountedAsOffered(t *testing.T) {
	n := bare("n", amount("nvidia.com/gpu", 4))
	n.Labels[partition.PresentLabel], n.Labels[partition.ReplicasLabel], n.Labels[partition.CountLabel], n.Labels[partition.ProductLabel] = "true", "4", "1", "NVIDIA-L40S-SHARED"
	p := poolOf("NVIDIA-L40S", 4)
	p.Spec.Max = 20
	objects := []client.Object{p, n}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		objects = append(objects, stuckPod(name, amount("nvidia.com/gpu", 1)))
	}
	w := newWorld(t, objects...)
	w.readings = NewReadings(start, Answers{Age: twoHalves(1).Age,
		Info: prom.Vector{series(1, "node", "n", "gpu", "0", "gpu_uuid", "GPU-1", "model", "NVIDIA L40S", "mig", "false")}})
	w.verdictOn("a", 0, 1)
}

// TestStartupTaints: a node that is not set up yet is upcoming, so that no other is added for the pod
// that waits for it, and afterwards it is an ordinary node.
func TestStartupTaints(t *testing.T) {
	network := v1alpha1.Taint{Key: "node.example.com/agent-not-ready", Value: "true", Effect: "NoExecute"}
	for name, taint := range map[string]corev1.Taint{
		"the pool's":           {Key: network.Key, Value: network.Value, Effect: corev1.TaintEffectNoExecute},
		"cluster-autoscaler's": {Key: "startup-taint.cluster-autoscaler.kubernetes.io/net", Effect: corev1.TaintEffectNoSchedule},
		"an older one":         {Key: "ignore-taint.cluster-autoscaler.kubernetes.io/net", Effect: corev1.TaintEffectNoSchedule},
		"Node Readiness'":      {Key: "readiness.k8s.io/driver", Value: "pending", Effect: corev1.TaintEffectNoSchedule},
	} {
		p, n := poolOf("NVIDIA-L40S", 1), bare("n", amount("nvidia.com/gpu", 1))
		p.Spec.Template.StartupTaints = []v1alpha1.Taint{network}
		n.CreationTimestamp = metav1.NewTime(start.Add(-time.Minute))
		n.Spec.Taints = []corev1.Taint{taint}
		waiting := stuckPod("a", amount("nvidia.com/gpu", 1))
		waiting.Spec.Tolerations = nil
		w := newWorld(t, p, n, waiting)
		if got := w.verdictOn("a", 0, 0); got != plan.WaitUpcomingNode {
			t.Errorf("%s: %s, want it to wait for the node", name, got)
		}
		n.Spec.Taints = nil
		if err := w.client.Update(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if got := w.verdictOn("a", 0, 0); got != plan.WaitScheduler {
			t.Errorf("%s is gone: %s, want the scheduler to place it", name, got)
		}
	}
}

// TestUnknownAccelerators: a pod that requests a device that gpuscale does not know gets a verdict that
// names it, and one of another kind of resource none; other pods get their nodes.
func TestUnknownAccelerators(t *testing.T) {
	for name, c := range map[string]struct {
		offered bool
		want    string
	}{
		"example.com/tpu": {false, "no node offers it"}, "nvidia.com/GRID_T4-1Q": {false, "no node offers it"}, "example.com/npu": {false, "no node offers it"},
		"aws.amazon.com/neuron": {false, "no node offers it"}, "cambricon.com/mlu": {false, "no node offers it"},
		"example.com/licence": {false, ""}, "hugepages-2Mi": {false, ""}, "example.com/input-slots": {false, ""},
		"aws.amazon.com/neuroncore": {false, "no node offers it"}, "hygon.com/dcunum": {false, "no node offers it"}, "nvidia.com/TU104GL_Tesla_T4": {false, "no node offers it"},
		"acme.com/gpu-lite": {true, "nodes offer it"}, "habana.ai/gaudi": {true, "nodes offer it"},
	} {
		n := bare("n", amount("cpu", 8))
		if c.offered {
			n = bare("n", amount(name, 8))
		}
		w := newWorld(t, poolOf("NVIDIA-L40S", 1), n, stuckPod("a", amount(name, 1)), stuckPod("b", amount("nvidia.com/gpu", 1)))
		made := plan.Make(w.at(0).Snapshot, plan.DefaultPolicy())
		i := slices.IndexFunc(made.Verdicts, func(v plan.Verdict) bool { return v.Subject == "chat/a" })
		switch {
		case i < 0 && c.want == "":
		case i < 0 || c.want == "" || made.Verdicts[i].Reason != plan.DemandUnreadable || !strings.Contains(made.Verdicts[i].Detail, name+": "+c.want):
			t.Errorf("%s: want %q\n%s", name, c.want, made)
		}
		if len(made.Actions) != 1 || fmt.Sprint(made.Actions[0].For) != "[chat/b]" {
			t.Errorf("%s: another pod gets no node:\n%s", name, made)
		}
	}
}

// TestNodesOfPartsAreUp: a ready node that offers GPUs in parts only, or a device that gpuscale does not
// know, is no broken node, and stops neither its pool nor others. An unknown device is no whole GPU.
func TestNodesOfPartsAreUp(t *testing.T) {
	for _, resource := range []string{"aliyun.com/gpu-mem", "tencent.com/vcuda-core", "nvidia.com/gpumem", "volcano.sh/gpu-memory", "nano-gpu/gpu-percent",
		"google.com/tpu", "amd.com/cpx_nps4", "huawei.com/Ascend910-16c", "acme.com/gpu-lite"} {
		other := poolOf("AMD-Instinct-MI210", 1)
		other.Name, other.Spec.Provider = "other", nodegroups.Of("other")
		objects := []client.Object{poolOf("AMD-Instinct-MI300X", 2), other, stuckPod("a", amount("amd.com/gpu", 1))}
		for _, name := range []string{"n-1", "n-2", "n-3", "n-4"} {
			objects = append(objects, bare(name, amount(resource, 96)))
		}
		made := plan.Make(newWorld(t, objects...).at(0).Snapshot, plan.DefaultPolicy())
		for _, v := range made.Verdicts {
			if v.Reason == plan.NodeUnready || v.Reason == plan.TooManyUnready {
				t.Errorf("%s: %s", resource, v)
			}
		}
		if len(made.Actions) == 0 || made.Actions[0].Verb != plan.ScaleUp {
			t.Errorf("%s: the pod of another pool gets no node:\n%s", resource, made)
		}
	}
}

// TestModelDuringARepartition: the exporter's series of a GPU end while it is repartitioned. A node
// without GFD's label keeps its product, else its new instances would fit no pod.
func TestModelDuringARepartition(t *testing.T) {
	record := contract.Record{ID: "op", Model: "H100-80GB", Target: "3g@0:4 3g@4:4", Config: "c", Previous: "b", Started: start, Deadline: start.Add(time.Minute)}
	report := contract.Report{At: start, GPUs: []contract.GPUReport{{UUID: "GPU-1", Model: "NVIDIA H100 80GB HBM3", MIG: true}}}
	for name, c := range map[string]struct {
		annotations map[string]string
		offered     corev1.ResourceList
		pool        bool
	}{
		"the operation's":                 {map[string]string{contract.RecordAnnotation: record.String()}, nil, false},
		"the agent's, after an operation": {map[string]string{contract.LayoutAnnotation: report.String()}, halves(2), false},
		"the pool's":                      {nil, halves(2), true},
	} {
		n := bare("n", c.offered)
		n.Labels[partition.PresentLabel], n.Labels[partition.CountLabel] = "true", "1"
		n.Annotations = c.annotations
		objects := []client.Object{n}
		if c.pool {
			objects = append(objects, pool("p"))
		}
		w := newWorld(t, objects...)
		w.readings = NewReadings(start, Answers{Age: twoHalves(1).Age})
		gpus := w.at(0).Nodes[0].GPUs
		if len(gpus) != 1 || gpus[0].Model.Name != "H100-80GB" {
			t.Errorf("%s: %+v", name, gpus)
		}
	}
}

// TestReportBeforeThePluginIsNoContradiction: on a booting node the agent reports before the device
// plugin has registered.
func TestReportBeforeThePluginIsNoContradiction(t *testing.T) {
	for offered, warns := range map[string]bool{"": false, "nvidia.com/mig-1g.10gb": true} {
		n := bare("n", nil)
		if offered != "" {
			n = bare("n", amount(offered, 7))
		}
		n.Annotations = map[string]string{contract.LayoutAnnotation: contract.Report{At: start, GPUs: []contract.GPUReport{{
			UUID: "GPU-1", Model: "NVIDIA H100 80GB HBM3", MIG: true, Instances: []contract.InstanceReport{{Place: "3g@0:4"}, {Place: "3g@4:4"}},
		}}}.String()}
		w := newWorld(t, pool("p"), n)
		var log bytes.Buffer
		w.o.o.Log = slog.New(slog.NewTextHandler(&log, nil))
		gpus := w.at(0).Nodes[0].GPUs
		if got := strings.Contains(log.String(), "MIG layouts"); got != warns || !warns && len(gpus) > 0 {
			t.Errorf("it offers %q, GPUs %+v, log %s", offered, gpus, &log)
		}
	}
}

// TestSickNeedsASecondSource: a GPU is sick by the exporter's sample and by the node's condition, or
// if that exporter's pod runs on the node.
func TestSickNeedsASecondSource(t *testing.T) {
	exporter := func(on string) *corev1.Pod {
		p := pod("exporter-x", on, nil)
		p.Namespace = "gpuscale-system"
		return p
	}
	condition := func(status corev1.ConditionStatus) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "GPUHealthy", Status: status, LastTransitionTime: metav1.NewTime(start)})
		}
	}
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		pods   []client.Object
		want   gpu.Health
	}{
		"no other source":              {nil, nil, gpu.HealthUnknown},
		"the exporter of another node": {nil, []client.Object{exporter("other")}, gpu.HealthUnknown},
		"the node's exporter":          {nil, []client.Object{exporter("n")}, gpu.Sick},
		"the node's condition":         {condition(corev1.ConditionFalse), nil, gpu.Sick},
		"a condition of another state": {condition(corev1.ConditionTrue), nil, gpu.HealthUnknown},
	} {
		n := node("n", halves(2))
		if c.change != nil {
			c.change(n)
		}
		w := newWorld(t, append(c.pods, pool("p"), n)...)
		a := twoHalves(1)
		a.Healthy = prom.Vector{series(0, "node", "n", "gpu", "0", "namespace", "gpuscale-system", "pod", "exporter-x")}
		w.readings = NewReadings(start, a)
		if got := w.at(0).Nodes[0].GPUs[0].Health; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func sevenths(n int) corev1.ResourceList {
	return corev1.ResourceList{"nvidia.com/mig-1g.10gb": *resource.NewQuantity(int64(n), resource.DecimalSI)}
}

// stuckPod is a pod that the scheduler could not place.
func stuckPod(name string, requests corev1.ResourceList) *corev1.Pod {
	p := pod(name, "", requests)
	p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(start),
	}}
	return p
}

// verdictOn plans on the observation and returns the reason for one pod, after checking the number
// of nodes added.
func (w *world) verdictOn(name string, at time.Duration, scaledUp int) plan.Reason {
	w.t.Helper()
	made := plan.Make(w.at(at).Snapshot, plan.DefaultPolicy())
	n := 0
	for _, a := range made.Actions {
		if a.Verb == plan.ScaleUp {
			n += a.To - a.From
		}
	}
	if n != scaledUp {
		w.t.Errorf("%d nodes are added, want %d:\n%s", n, scaledUp, made)
	}
	for _, v := range made.Verdicts {
		if v.Kind == plan.KindPod && v.Subject == "chat/"+name {
			return v.Reason
		}
	}
	return ""
}

// removals reconciles every 15 seconds and returns the nodes that are removed, in order: one that stays is
// removed again each time.
func (w *world) removals(reconciles int) (removed []string) {
	w.t.Helper()
	var state plan.State
	for i := range reconciles {
		out := w.at(time.Duration(i) * 15 * time.Second)
		out.State = state
		made := plan.Make(out.Snapshot, plan.DefaultPolicy())
		state = made.State
		for _, a := range made.Actions {
			if a.Verb == plan.RemoveNode {
				removed = append(removed, a.Node)
			}
		}
	}
	return removed
}

// TestFreeCapacityWithoutPrometheus: without Prometheus the API alone decides what can be free.
func TestFreeCapacityWithoutPrometheus(t *testing.T) {
	boots := pool("p")
	boots.Spec.MIG.BootLayout = []map[string]int32{{"1g.10gb": 7}}
	fresh := node("n", halves(2))
	fresh.CreationTimestamp = metav1.NewTime(start)
	for name, c := range map[string]struct {
		objects  []client.Object
		want     plan.Reason
		scaledUp int
	}{
		"a free half":                                    {[]client.Object{pool("p"), node("n", halves(2)), pod("b", "n", halves(1))}, plan.WaitScheduler, 0},
		"none free":                                      {[]client.Object{pool("p"), node("n", halves(1)), pod("b", "n", halves(1))}, plan.WaitUpcomingNode, 1},
		"a new node of which nothing is known":           {[]client.Object{pool("p"), fresh}, plan.WaitScheduler, 0},
		"a device plugin that is not up":                 {[]client.Object{pool("p"), booting("n")}, plan.WaitUpcomingNode, 0},
		"sevenths that could be partitioned into halves": {[]client.Object{boots, node("n", sevenths(7))}, plan.AllocationUnknown, 0},
		"sevenths, one of them requested": {[]client.Object{boots, node("n", sevenths(7)),
			pod("b", "n", sevenths(1))}, plan.WaitUpcomingNode, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(c.objects, stuckPod("a", halves(1)))...)
			if got := w.verdictOn("a", 10*time.Second, c.scaledUp); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// TestAbsurdRequests: a pod that requests more than an int64 can count gets no node, and keeps no other pod
// from its own.
func TestAbsurdRequests(t *testing.T) {
	for name, amount := range map[corev1.ResourceName]string{"memory": "8Ei", "cpu": "1e19", "ephemeral.io/disk": "9e18"} {
		absurd := stuckPod("absurd", listOf("nvidia.com/gpu=1"))
		absurd.Spec.Containers[0].Resources.Requests[name] = resource.MustParse(amount)
		w := newWorld(t, poolOf("NVIDIA-L40S", 1), absurd, stuckPod("a", listOf("nvidia.com/gpu=1")))
		if got := w.verdictOn("absurd", 0, 1); got != plan.NoPoolFits {
			t.Errorf("%s of %s: %s", amount, name, got)
		}
	}
	overflows := stuckPod("a", listOf("nvidia.com/gpu=1 cpu=20000000000000000"))
	if got := newWorld(t, poolOf("NVIDIA-L40S", 1), overflows).verdictOn("a", 0, 0); got != plan.NoPoolFits {
		t.Errorf("more thousandths of cores than an int64 has: %s", got)
	}
}

// booting is a node that has just become ready and advertises nothing yet.
func booting(name string) *corev1.Node {
	n := node(name, nil)
	n.CreationTimestamp = metav1.NewTime(start)
	return n
}

// TestOneNodeForOnePod: without an exporter, a pod that requires a repartition gets one node, and
// never a second, over many reconciles.
func TestOneNodeForOnePod(t *testing.T) {
	boots := pool("p")
	boots.Spec.Min = 0
	boots.Spec.MIG.BootLayout = []map[string]int32{{"1g.10gb": 7}}
	w := newWorld(t, boots, stuckPod("a", halves(1)))
	var memory plan.State
	for reconcile := range 120 {
		at := time.Duration(reconcile) * 30 * time.Second
		seen := w.at(at)
		seen.State = memory
		made := plan.Make(seen.Snapshot, plan.DefaultPolicy())
		memory = made.State
		for _, a := range made.Actions {
			if a.Verb != plan.ScaleUp {
				t.Fatalf("reconcile %d: %s", reconcile, a)
			}
			for i := a.From; i < a.To; i++ {
				n := node(fmt.Sprintf("p-%d", i+1), sevenths(7))
				n.CreationTimestamp = metav1.NewTime(start.Add(at))
				if err := w.client.Create(t.Context(), n); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if got := w.at(2 * time.Hour); len(got.Nodes) != 1 {
		t.Errorf("%d nodes for one pod", len(got.Nodes))
	}
}

// TestOfferWithoutConfig: without a config with the layout, a node's advertised instances are
// distributed over its GPUs.
func TestOfferWithoutConfig(t *testing.T) {
	n := node("n", corev1.ResourceList{"nvidia.com/mig-3g.40gb": resource.MustParse("2"), "nvidia.com/mig-1g.10gb": resource.MustParse("6")})
	n.Labels[partition.CountLabel] = "2"
	w := newWorld(t, pool("p"), n)
	got := w.at(0).Nodes[0]
	if got.Allocatable == nil || fmt.Sprint(*got.Allocatable) != "1g.10gb×6, 3g.40gb×2" {
		t.Errorf("allocatable %v", got.Allocatable)
	}
	for _, c := range got.GPUs {
		if len(c.Instances) != 4 || !c.MIG || c.AllocationKnown || c.Instances[0].Placed {
			t.Errorf("GPU %+v", c)
		}
	}
	n.Status.Allocatable["nvidia.com/mig-3g.40gb"] = resource.MustParse("5")
	for _, c := range (&Observer{o: w.o.o, idle: w.o.idle}).node(nodeInput{node: n, now: start}).GPUs {
		if len(c.Instances) != 0 {
			t.Errorf("instances %v, although two GPUs cannot have them", c.Instances)
		}
	}
}
