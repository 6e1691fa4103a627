package observe

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/sandbox/nodegroups"
)

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

// makers maps products to the resource that their device plugins offer.
var makers = map[string]string{
	"AMD-Instinct-MI300X": "amd.com/gpu", "NVIDIA-L40S": "nvidia.com/gpu", "Intel-Data-Center-GPU-Max-1100": "gpu.intel.com/i915",
	"Intel-Data-Center-GPU-Flex-170": "gpu.intel.com/xe", "Ascend910B3": "huawei.com/Ascend910", "Ascend310P3": "huawei.com/Ascend310P",
	"tpu-v6e-slice": "google.com/tpu", "GRID-T4-8Q": "nvidia.com/gpu",
}

// TestMakers: pods that request whole devices of a maker get nodes of a pool of that maker, from zero and beside full
// nodes, and never of another maker's. An empty node is removed after the pool's idleAfter.
func TestMakers(t *testing.T) {
	for product, name := range makers {
		other := poolOf("AMD-Instinct-MI210", 2)
		if name == "amd.com/gpu" {
			other = poolOf("NVIDIA-L4", 2)
		}
		other.Name, other.Spec.Provider, other.Spec.PricePerHour = "other", nodegroups.Of("other"), ptr.To(resource.MustParse("0.1"))
		two := listOf(name + "=2")
		full := []client.Object{bare("n", two), pod("a", "n", two)}
		for what, objects := range map[string][]client.Object{"from zero": nil, "beside a full node": full} {
			w := newWorld(t, append(objects, poolOf(product, 2), other, stuckPod("p", two))...)
			made := plan.Make(w.at(0).Snapshot, plan.DefaultPolicy())
			if len(made.Actions) != 1 || made.Actions[0].Verb != plan.ScaleUp || made.Actions[0].Pool != "p" {
				t.Errorf("%s, %s:\n%s", product, what, made)
			}
		}
		if w := newWorld(t, other, stuckPod("p", listOf(name+"=1"))); w.verdictOn("p", 0, 0) != plan.NoPoolFits {
			t.Errorf("%s: a node of another maker is added", product)
		}
		if got := newWorld(t, poolOf(product, 2), bare("n-1", two)).removals(61); len(got) != 21 { // ten minutes of idleAfter
			t.Errorf("%s: removed %q", product, got)
		}
	}
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

// removals reconciles every 15 seconds and returns the removed nodes in order; a node that does not go appears once for
// each reconcile.
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
				n := node(fmt.Sprintf("p-%d", i+1), listOf("nvidia.com/mig-1g.10gb=7"))
				n.CreationTimestamp = metav1.NewTime(start.Add(at))
				require.NoError(t, w.client.Create(t.Context(), n))
			}
		}
	}
	if got := w.at(2 * time.Hour); len(got.Nodes) != 1 {
		t.Errorf("%d nodes for one pod", len(got.Nodes))
	}
}
