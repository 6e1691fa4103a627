package act

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/plan"
)

func drainAction() plan.Action {
	return plan.Action{Verb: plan.Drain, Pool: "p", Node: "p-1", Deadline: start.Add(10 * time.Minute), Reason: plan.NodeUnderused}
}

func TestDrainEvictsAllButDaemons(t *testing.T) {
	w := newWorld(t, nil, replica("a", "p-1"), daemon("agent", "p-1"))
	w.want(Waiting, drainAction())
	if got := w.pods(); !slices.Equal(got, []string{"agent"}) {
		t.Errorf("pods %v, want only the daemon", got)
	}
	w.want(Done, drainAction())
	if n := w.node(); !n.Spec.Unschedulable || n.Annotations[v1alpha1.CordonAnnotation] != drainReason {
		t.Errorf("not cordoned for the drain: %v", n.Annotations)
	}
}

// TestDrainStandsOnItsNode: a restart finds since when, until when and why, and
// asking again later moves neither.
func TestDrainStandsOnItsNode(t *testing.T) {
	w := newWorld(t, nil, replica("a", "p-1"), replica("b", "p-1"))
	w.full["b"] = true
	w.want(Waiting, drainAction())
	writes := w.writes
	w.snap.Now = start.Add(time.Minute)
	later := drainAction()
	later.Deadline = w.snap.Now.Add(10 * time.Minute)
	w.want(Waiting, later)
	got, ok, err := v1alpha1.DrainOf(w.node())
	if err != nil || !ok || !got.Started.Equal(start) || !got.Deadline.Equal(start.Add(10*time.Minute)) || got.Reason != string(plan.NodeUnderused) {
		t.Errorf("drain %+v, %v, %v", got, ok, err)
	}
	if w.writes != writes {
		t.Errorf("%d writes for a drain that stands", w.writes-writes)
	}
	w.full["b"] = false
	w.want(Waiting, later)
	w.want(Done, later)
	w.want(Done, plan.Action{Verb: plan.Uncordon, Pool: "p", Node: "p-1"}) // as the planner gives up a drain
	if n := w.node(); n.Spec.Unschedulable || len(n.Annotations) != 0 {
		t.Errorf("cordoned %v, annotations %v", n.Spec.Unschedulable, n.Annotations)
	}
}

// TestDrainWaitsForCheckpoints: the pod is asked once its time has come.
func TestDrainWaitsForCheckpoints(t *testing.T) {
	w := newWorld(t, nil, replica("a", "p-1", v1alpha1.EvictFromAnnotation, start.Add(time.Minute).Format(time.RFC3339)))
	w.want(Waiting, drainAction())
	if len(w.evicted) != 0 {
		t.Fatalf("evicted %v before its checkpoint", w.evicted)
	}
	w.snap.Now = start.Add(time.Minute)
	w.want(Waiting, drainAction())
	if len(w.evicted) != 1 {
		t.Errorf("evicted %v", w.evicted)
	}
}

func TestDrainRefused(t *testing.T) {
	underWay := func(deadline time.Time) func(*world) {
		return func(w *world) {
			edit(w, testNode(), func(n *corev1.Node) {
				annotate(n, v1alpha1.DrainAnnotation, v1alpha1.Drain{Started: start, Deadline: deadline}.String())
			})
		}
	}
	for name, c := range map[string]struct {
		pod    *corev1.Pod
		change func(*world)
	}{
		"a pod must not be moved":      {pod: replica("a", "p-1", v1alpha1.SafeToEvictAnnotation, "false")},
		"nobody would make a pod anew": {pod: gpuPod("a", "p-1")},
		"draining is off":              {change: func(w *world) { w.actor.o.Policy.MaxDrains = 0 }},
		"another node drains": {change: func(w *world) {
			w.snap.Nodes = append(w.snap.Nodes, plan.Node{Name: "p-2", Drain: &plan.Draining{}})
		}},
		"the pool keeps its nodes": {change: func(w *world) {
			edit(w, testPool(), func(p *v1alpha1.GPUNodePool) { p.Spec.ScaleDown.Disabled = true })
		}},
		"the node is of another pool": {change: func(w *world) {
			edit(w, testNode(), func(n *corev1.Node) { n.Labels[v1alpha1.NodePoolLabel] = "q" })
		}},
		"a card is being cut": {change: func(w *world) {
			edit(w, testNode(), func(n *corev1.Node) { annotate(n, partition.RecordAnnotation, "{}") })
		}},
		"it is overdue": {change: underWay(start.Add(-time.Second))},
		"nobody can read the record": {change: func(w *world) {
			edit(w, testNode(), func(n *corev1.Node) { annotate(n, v1alpha1.DrainAnnotation, "{}") })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := c.pod
			if pod == nil {
				pod = replica("a", "p-1")
			}
			w := newWorld(t, nil, pod)
			if c.change != nil {
				c.change(w)
			}
			w.want(Refused, drainAction())
			if w.node().Spec.Unschedulable || len(w.evicted) != 0 {
				t.Errorf("cordoned %v, evicted %v", w.node().Spec.Unschedulable, w.evicted)
			}
		})
	}
}

// TestDrainOfAnothersCordon: what somebody else cordoned is not drained; where they
// did so during a drain, that ends and theirs stays.
func TestDrainOfAnothersCordon(t *testing.T) {
	w := newWorld(t, nil)
	edit(w, testNode(), func(n *corev1.Node) { n.Spec.Unschedulable = true })
	w.want(Refused, drainAction())
	if n := w.node(); len(n.Annotations) != 0 {
		t.Errorf("annotations %v", n.Annotations)
	}
	edit(w, testNode(), func(n *corev1.Node) {
		annotate(n, v1alpha1.DrainAnnotation, v1alpha1.Drain{Started: start, Deadline: start.Add(time.Minute)}.String())
	})
	w.want(Done, plan.Action{Verb: plan.Uncordon, Pool: "p", Node: "p-1"})
	if n := w.node(); !n.Spec.Unschedulable || n.Annotations[v1alpha1.DrainAnnotation] != "" {
		t.Errorf("cordoned %v, annotations %v", n.Spec.Unschedulable, n.Annotations)
	}
}

func TestNoRepartitionOfADrainingNode(t *testing.T) {
	w := newWorld(t, nil)
	w.want(Done, drainAction())
	w.want(Refused, w.cut())
}
