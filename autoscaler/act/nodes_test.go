package act

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/plan"
)

func (w *world) nodes() []string {
	w.t.Helper()
	var list corev1.NodeList
	w.must(w.client.List(w.t.Context(), &list))
	var names []string
	for _, n := range list.Items {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return names
}

func TestScaleUpIsAbsolute(t *testing.T) {
	w := newWorld(t, nil)
	up := plan.Action{Verb: plan.ScaleUp, Pool: "p", From: 1, To: 3}
	w.want(Done, up)
	if got := w.nodes(); !slices.Equal(got, []string{"p-1", "p-2", "p-3"}) {
		t.Fatalf("nodes %v", got)
	}
	writes := w.writes
	w.want(Done, up) // from a stale snapshot
	if w.writes != writes {
		t.Error("a stale plan added nodes twice")
	}
}

func TestBoundOnActions(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Policy.MaxActionsPerReconcile = 1 })
	up := plan.Action{Verb: plan.ScaleUp, Pool: "p", From: 1, To: 2}
	if r := w.do(up, up); r.Outcome != Refused {
		t.Errorf("second action: %s", r.Outcome)
	}
}

func TestRemoveNode(t *testing.T) {
	remove := plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: "p-1"}
	w := newWorld(t, nil, daemon("agent", "p-1"))
	w.want(Waiting, remove)
	w.settled()
	w.want(Done, remove)
	if got := w.nodes(); len(got) != 0 {
		t.Errorf("nodes %v", got)
	}
	w.want(Refused, remove)
}

// settled lets the delay from a cordon to a removal pass.
func (w *world) settled() { w.snap.Now = w.snap.Now.Add(plan.RemoveDelay) }

// TestRemovalSettles: bindings under way ignore a cordon, so a node is removed only some time
// after it, also by the next leader; a pod that was bound in between keeps it.
func TestRemovalSettles(t *testing.T) {
	remove := plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: "p-1"}
	w := newWorld(t, nil)
	w.want(Waiting, remove)
	drain, ok, err := v1alpha1.DrainOf(w.node())
	if n := w.node(); !n.Spec.Unschedulable || !ok || err != nil || !drain.Started.Equal(start) || drain.Reason != string(plan.NodeEmpty) {
		t.Fatalf("cordoned %v, drain %+v, %v, %v", n.Spec.Unschedulable, drain, ok, err)
	}
	w.snap.Now = start.Add(plan.RemoveDelay - 1)
	w.actor = New(w.actor.o) // a restart
	w.want(Waiting, remove)
	w.must(w.client.Create(t.Context(), replica("late", "p-1")))
	w.settled()
	w.want(Refused, remove)
	if got := w.nodes(); !slices.Equal(got, []string{"p-1"}) {
		t.Fatalf("nodes %v: a pod is on it", got)
	}
	w.want(Done, plan.Action{Verb: plan.Uncordon, Pool: "p", Node: "p-1"}) // what the planner has next
	w.inService()
}

// TestCordonLeftBehind: after a crash between cordon and deletion the planner has the
// node uncordoned.
func TestCordonLeftBehind(t *testing.T) {
	w := newWorld(t, nil)
	edit(w, testNode(), func(n *corev1.Node) { setCordon(n, "replace") })
	w.want(Refused, plan.Action{Verb: plan.Uncordon, Node: "p-1", Operation: "drain"})
	w.want(Done, plan.Action{Verb: plan.Uncordon, Node: "p-1", Operation: "replace"})
	if w.node().Spec.Unschedulable {
		t.Error("still cordoned")
	}
}

func TestDryRunWritesNothing(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.DryRun = true }, gpuPod("a", "p-1"))
	for _, a := range []plan.Action{
		w.repartition(), {Verb: plan.ScaleUp, Pool: "p", From: 1, To: 3}, {Verb: plan.RemoveNode, Pool: "p", Node: "p-1"},
		{Verb: plan.Drain, Pool: "p", Node: "p-1"}, {Verb: plan.Rollback, Node: "p-1"}, {Verb: plan.Uncordon, Node: "p-1"},
		{Verb: plan.Replace, Pool: "p", Node: "p-1"}, {Verb: plan.Reclaim, Pool: "p", Node: "p-1", Pod: "ns/a"},
	} {
		w.want(DryRun, a)
	}
	if err := w.actor.Resume(t.Context(), start); err != nil || w.writes != 0 || len(w.evicted) != 0 {
		t.Errorf("%d writes, evicted %v, %v", w.writes, w.evicted, err)
	}
}

func TestUnknownVerbFails(t *testing.T) {
	w := newWorld(t, nil)
	w.want(Failed, plan.Action{Verb: "explode", Pool: "p"})
}

func daemon(name, node string) *corev1.Pod {
	p := gpuPod(name, node)
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: ptr.To(true)}}
	return p
}
