package act

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/plan"
)

// newReclaim is a world with pod ns/a on node p-1, and the action that reclaims its GPU.
func newReclaim(t *testing.T, pod *corev1.Pod) (*world, plan.Action) {
	t.Helper()
	w := newWorld(t, nil, pod)
	w.snap.Pods = []plan.Pod{{Namespace: "ns", Name: "a", Node: "p-1", Created: start, Evictable: true}}
	return w, plan.Action{Verb: plan.Reclaim, Pool: "p", Node: "p-1", Pod: "ns/a", Reason: plan.ReclaimBorrowed}
}

func TestReclaim(t *testing.T) {
	w, reclaim := newReclaim(t, replica("a", "p-1", v1alpha1.EvictFromAnnotation, start.Format(time.RFC3339)))
	w.want(Done, reclaim)
	if got := w.pods(); len(got) != 0 {
		t.Errorf("pods %v, want none", got)
	}
	if want := []string{"ns/a uid-a"}; !slices.Equal(w.evicted, want) {
		t.Errorf("evicted %v, want %v: the pod with this UID", w.evicted, want)
	}
	w.want(Done, reclaim) // already gone
	if len(w.evicted) != 1 || w.node().Spec.Unschedulable {
		t.Error("evicted twice, or the node was cordoned")
	}
}

// TestReclaimBound: with two evictions per reconcile the third pod stays.
func TestReclaimBound(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Policy.MaxEvictionsPerReconcile = 2 }, replica("a", "p-1"), replica("b", "p-1"), replica("c", "p-1"))
	var actions []plan.Action
	for _, name := range []string{"a", "b", "c"} {
		w.snap.Pods = append(w.snap.Pods, plan.Pod{Namespace: "ns", Name: name, Node: "p-1", Created: start})
		actions = append(actions, plan.Action{Verb: plan.Reclaim, Node: "p-1", Pod: "ns/" + name})
	}
	if r := w.do(actions...); r.Outcome != Refused {
		t.Errorf("the third: %s", r.Outcome)
	}
	if got := w.pods(); !slices.Equal(got, []string{"c"}) {
		t.Errorf("pods %v", got)
	}
}
