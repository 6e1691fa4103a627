package observe

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/plan"
)

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
