package act

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/plan"
)

// newReclaim is a world with pod ns/a on node p-1, and the action that takes it back.
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
		t.Errorf("evicted %v, want %v: the very pod that was looked at", w.evicted, want)
	}
	w.want(Done, reclaim) // it has gone
	if len(w.evicted) != 1 || w.node().Spec.Unschedulable {
		t.Error("evicted twice, or the node was cordoned")
	}
}

// TestReclaimRefused: what the plan was made on is no longer true, and the pod stays.
func TestReclaimRefused(t *testing.T) {
	older := replica("a", "p-1")
	older.CreationTimestamp = metav1.NewTime(start.Add(-time.Hour))
	bare := replica("a", "p-1")
	bare.OwnerReferences = nil
	waiting := replica("a", "")
	for name, c := range map[string]struct {
		pod    *corev1.Pod
		change func(*world, *plan.Action)
	}{
		"it must not be moved":             {pod: replica("a", "p-1", v1alpha1.SafeToEvictAnnotation, "false")},
		"cluster-autoscaler's word for it": {pod: replica("a", "p-1", v1alpha1.OtherSafeToEvictAnnotation, "false")},
		"its checkpoint comes later":       {pod: replica("a", "p-1", v1alpha1.EvictFromAnnotation, start.Add(time.Second).Format(time.RFC3339))},
		"nobody can read when":             {pod: replica("a", "p-1", v1alpha1.EvictFromAnnotation, "soon")},
		"nobody would make it again":       {pod: bare},
		"it belongs to its node":           {pod: daemon("a", "p-1")},
		"it moved":                         {pod: replica("a", "p-2")},
		"it is not bound":                  {pod: waiting, change: func(_ *world, a *plan.Action) { a.Node = "" }},
		"it is another of that name":       {pod: older},
		"its budget has no room":           {pod: replica("a", "p-1"), change: func(w *world, _ *plan.Action) { w.full["a"] = true }},
		"it was not in the snapshot":       {pod: replica("a", "p-1"), change: func(w *world, _ *plan.Action) { w.snap.Pods = nil }},
		"reclaiming is off":                {pod: replica("a", "p-1"), change: func(w *world, _ *plan.Action) { w.actor.o.Policy.MaxEvictionsPerRound = 0 }},
		"everything is frozen":             {pod: replica("a", "p-1"), change: func(w *world, _ *plan.Action) { w.actor.o.Policy.Freeze = true }},
		"the pool is frozen": {pod: replica("a", "p-1"), change: func(w *world, _ *plan.Action) {
			edit(w, testPool(), func(p *v1alpha1.GPUNodePool) { p.Spec.Freeze = true })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.pod.CreationTimestamp.IsZero() {
				c.pod.CreationTimestamp = metav1.NewTime(start)
			}
			w, reclaim := newReclaim(t, c.pod)
			if c.change != nil {
				c.change(w, &reclaim)
			}
			w.want(Refused, reclaim)
			if got := w.pods(); !slices.Equal(got, []string{"a"}) || len(w.evicted) != 0 {
				t.Errorf("pods %v, evicted %v", got, w.evicted)
			}
		})
	}
}

// TestReclaimBound: the third pod of a round that may ask two stays.
func TestReclaimBound(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Policy.MaxEvictionsPerRound = 2 }, replica("a", "p-1"), replica("b", "p-1"), replica("c", "p-1"))
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
