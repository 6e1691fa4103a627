package act

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
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

// TestDrainIsRecorded: start, deadline and reason are on the node, and a repeated action
// does not change them.
func TestDrainIsRecorded(t *testing.T) {
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
		t.Errorf("%d writes for a drain under way", w.writes-writes)
	}
	w.full["b"] = false
	w.want(Waiting, later)
	w.want(Done, later)
	w.want(Done, plan.Action{Verb: plan.Uncordon, Pool: "p", Node: "p-1"}) // the planner gives up a drain like this
	w.inService()
}

// TestDrainWaitsForCheckpoints: the pod is evicted at its checkpoint, not before.
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

// TestNotBetweenCheckpoints: a pod that saves its work each half an hour is evicted right after
// that, and not between.
func TestNotBetweenCheckpoints(t *testing.T) {
	pod := replica("a", "p-1", v1alpha1.CheckpointEveryAnnotation, "30m")
	pod.Status.StartTime = ptr.To(metav1.NewTime(start.Add(-54 * time.Minute)))
	w := newWorld(t, nil, pod)
	for _, minute := range []time.Duration{54, 59} {
		w.snap.Now = start.Add((minute - 54) * time.Minute)
		if w.want(Waiting, drainAction()); len(w.evicted) != 0 {
			t.Fatalf("evicted %v in minute %d", w.evicted, minute)
		}
	}
	w.snap.Now = start.Add(7 * time.Minute)
	if w.want(Waiting, drainAction()); len(w.evicted) != 1 {
		t.Errorf("evicted %v in minute 61", w.evicted)
	}
}

// TestDrainOfLocalStorage: a pod with local storage that came after the drain began is not
// evicted, unless the policy allows it.
func TestDrainOfLocalStorage(t *testing.T) {
	storing := replica("a", "p-1")
	storing.Spec.Volumes = onDisk()
	w := newWorld(t, nil, storing)
	edit(w, testNode(), func(n *corev1.Node) {
		annotate(n, v1alpha1.DrainAnnotation, v1alpha1.Drain{Started: start, Deadline: start.Add(time.Minute)}.String())
	})
	w.want(Waiting, drainAction())
	if len(w.evicted) != 0 {
		t.Errorf("evicted %v", w.evicted)
	}
	w.actor.o.Policy.SkipNodesWithLocalStorage = false
	w.want(Waiting, drainAction())
	if len(w.evicted) != 1 {
		t.Errorf("evicted %v, want the pod", w.evicted)
	}
}

// TestDrainOfAnothersCordon: the drain of a node that others have cordoned since ends, and
// their cordon stays.
func TestDrainOfAnothersCordon(t *testing.T) {
	w := newWorld(t, nil)
	edit(w, testNode(), func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		annotate(n, v1alpha1.DrainAnnotation, v1alpha1.Drain{Started: start, Deadline: start.Add(time.Minute)}.String())
	})
	w.want(Done, plan.Action{Verb: plan.Uncordon, Pool: "p", Node: "p-1"})
	if n := w.node(); !n.Spec.Unschedulable || n.Annotations[v1alpha1.DrainAnnotation] != "" {
		t.Errorf("cordoned %v, annotations %v", n.Spec.Unschedulable, n.Annotations)
	}
}
