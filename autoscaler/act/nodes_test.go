package act

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/plan"
)

func (w *world) nodes() []string {
	w.t.Helper()
	var list corev1.NodeList
	if err := w.client.List(w.t.Context(), &list); err != nil {
		w.t.Fatal(err)
	}
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
	w.want(Done, up) // made on a stale count
	if w.writes != writes {
		t.Error("a stale plan made nodes twice")
	}
	w.want(Refused, plan.Action{Verb: plan.ScaleUp, Pool: "p", From: 3, To: 4}) // above max
	w.actor.o.Policy.MaxNodesPerScaleUp = 1
	w.want(Refused, up)
}

func TestBoundOnActions(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Policy.MaxActionsPerRound = 1 })
	up := plan.Action{Verb: plan.ScaleUp, Pool: "p", From: 1, To: 2}
	if r := w.do(up, up); r.Outcome != Refused {
		t.Errorf("second action: %s", r.Outcome)
	}
}

func TestRemoveNode(t *testing.T) {
	remove := plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: "p-1"}
	w := newWorld(t, nil, daemon("agent", "p-1"))
	w.want(Done, remove)
	if got := w.nodes(); len(got) != 0 {
		t.Errorf("nodes %v", got)
	}
	w.want(Refused, remove)

	busy := newWorld(t, nil, gpuPod("busy", "p-1"))
	busy.want(Refused, remove)
	if busy.writes != 0 {
		t.Errorf("%d writes: a busy node must not even be cordoned", busy.writes)
	}

	small := newWorld(t, nil)
	pool := testPool()
	if err := small.client.Get(t.Context(), client.ObjectKey{Name: "p"}, pool); err != nil {
		t.Fatal(err)
	}
	pool.Spec.Min = 1
	if err := small.client.Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	small.want(Refused, remove)

	other := newWorld(t, nil)
	other.snap.Nodes[0].Created = start.AddDate(0, 0, -1)
	other.want(Refused, remove)
	if got := other.nodes(); len(got) != 1 {
		t.Error("another incarnation of the node was removed")
	}
}

// TestCordonLeftBehind: killed between cordon and delete, the planner asks to
// uncordon what the snapshot shows.
func TestCordonLeftBehind(t *testing.T) {
	w := newWorld(t, nil)
	if err := w.actor.cordon(t.Context(), w.node(), removeReason); err != nil {
		t.Fatal(err)
	}
	if n := w.node(); !n.Spec.Unschedulable || n.Annotations[v1alpha1.CordonAnnotation] != removeReason {
		t.Fatalf("not cordoned: %v", n.Annotations)
	}
	w.want(Refused, plan.Action{Verb: plan.Uncordon, Node: "p-1", Operation: "drain"})
	w.want(Done, plan.Action{Verb: plan.Uncordon, Node: "p-1", Operation: removeReason})
	if w.node().Spec.Unschedulable {
		t.Error("still cordoned")
	}
}

func TestDryRunWritesNothing(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.DryRun = true }, gpuPod("a", "p-1"))
	for _, a := range []plan.Action{
		w.cut(), {Verb: plan.ScaleUp, Pool: "p", From: 1, To: 3}, {Verb: plan.RemoveNode, Pool: "p", Node: "p-1"},
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
