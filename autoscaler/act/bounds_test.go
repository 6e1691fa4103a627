package act

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/plan"
)

// TestBoundsPass: actions older than a limit's period are not counted.
func TestBoundsPass(t *testing.T) {
	past := newWorld(t, nil)
	past.actor.o.Policy.MaxNodesPerHour, past.actor.o.Policy.MaxRemovalsPerTenMinutes = 5, 5
	past.snap.State.Grown = []plan.Growth{{Pool: "p", At: start.Add(-time.Hour), Nodes: 4}}
	past.snap.State.Removed = []plan.Growth{{Pool: "p", At: start.Add(-10 * time.Minute), Nodes: 5}}
	past.want(Done, plan.Action{Verb: plan.ScaleUp, Pool: "p", From: 1, To: 3})
	past.want(Waiting, plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: "p-1"})
}

// TestMaxRemovalShare: of ten nodes two are removed in one reconcile.
func TestMaxRemovalShare(t *testing.T) {
	w := newWorld(t, nil)
	w.snap.Pools = []plan.Pool{{Name: "p", Size: 10, Target: 10}}
	r := newReconcile(w.snap, w.actor.o.Policy)
	for i := range 3 {
		err := r.admit(plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: fmt.Sprint(i)})
		if (err != nil) != (i == 2) {
			t.Errorf("removal %d: %v", i+1, err)
		}
	}
}

// TestFreezeLetsEnd: under a freeze of the policy or of the pool no operation begins, and
// those under way can be ended.
func TestFreezeLetsEnd(t *testing.T) {
	for name, freeze := range map[string]func(*world){
		"all":     func(w *world) { w.actor.o.Policy.Freeze = true },
		"a pool":  func(w *world) { edit(w, testPool(), func(p *v1alpha1.GPUNodePool) { p.Spec.Freeze = true }) },
		"no pool": func(w *world) { w.must(w.client.Delete(w.t.Context(), testPool())) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil, replica("a", "p-1"))
			w.full["a"] = true
			w.want(Waiting, drainAction())
			freeze(w)
			w.full["a"] = false
			for _, a := range []plan.Action{
				drainAction(), w.repartition(), {Verb: plan.ScaleUp, Pool: "p", From: 1, To: 2}, {Verb: plan.RemoveNode, Pool: "p", Node: "p-1"},
				{Verb: plan.Replace, Pool: "p", Node: "p-1"}, {Verb: plan.Reclaim, Pool: "p", Node: "p-1", Pod: "ns/a"},
			} {
				w.want(Refused, a)
			}
			if got := w.pods(); !slices.Equal(got, []string{"a"}) {
				t.Errorf("pods %v: a frozen drain continues", got)
			}
			w.want(Done, plan.Action{Verb: plan.Uncordon, Pool: "p", Node: "p-1"})
			w.inService()
		})
	}
}

// TestResumeUnderFreeze: a repartition whose config is not selected yet has not changed
// the GPU. Its record and its cordon are removed.
func TestResumeUnderFreeze(t *testing.T) {
	for name, freeze := range map[string]func(*world){
		"all":    func(w *world) { w.actor.o.Policy.Freeze = true },
		"a pool": func(w *world) { edit(w, testPool(), func(p *v1alpha1.GPUNodePool) { p.Spec.Freeze = true }) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.ConfigDelay = time.Minute })
			w.want(Done, w.repartition())
			if _, underWay, _ := partition.RecordOf(w.node()); !underWay || !w.node().Spec.Unschedulable {
				t.Fatal("no operation is pending")
			}
			freeze(w)
			w.must(w.actor.Resume(t.Context(), start.Add(time.Minute)))
			n := w.node()
			if _, underWay, _ := partition.RecordOf(n); underWay || n.Spec.Unschedulable || n.Labels[partition.ConfigLabel] != "" {
				t.Errorf("under way %v, cordoned %v, labels %v", underWay, n.Spec.Unschedulable, n.Labels)
			}
		})
	}
}

// TestAnotherOfTheSameSecond: creation times are whole seconds in the API; UIDs
// distinguish objects recreated within one.
func TestAnotherOfTheSameSecond(t *testing.T) {
	w := newWorld(t, nil, replica("a", "p-1"))
	w.snap.Nodes[0].UID = "the first"
	edit(w, testNode(), func(n *corev1.Node) { n.UID = "the second" })
	w.want(Refused, plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: "p-1"})
	w.want(Refused, drainAction())
	w.snap.Pods = []plan.Pod{{Namespace: "ns", Name: "a", Node: "p-1", Created: start, UID: "another"}}
	w.want(Refused, plan.Action{Verb: plan.Reclaim, Pool: "p", Node: "p-1", Pod: "ns/a"})
	if len(w.evicted) != 0 || w.node().Spec.Unschedulable {
		t.Errorf("evicted %v, cordoned %v", w.evicted, w.node().Spec.Unschedulable)
	}
	w.snap.Nodes[0].UID = "the second"
	w.want(Waiting, drainAction())
}

// TestDrainsGoOn: policy.maxDrains limits new drains only.
func TestDrainsGoOn(t *testing.T) {
	w := newWorld(t, nil, replica("a", "p-1"))
	w.full["a"] = true
	w.want(Waiting, drainAction())
	w.snap.Nodes[0].Drain = &plan.Draining{}
	w.snap.Nodes = append(w.snap.Nodes, plan.Node{Name: "p-2", Drain: &plan.Draining{}})
	w.full["a"] = false
	w.want(Waiting, drainAction())
	if len(w.evicted) != 1 {
		t.Errorf("evicted %v: a drain under way is stopped by another", w.evicted)
	}
}

// TestDrainEvictsTheLeastUrgentFirst: where a PodDisruptionBudget allows one eviction,
// the planner's order decides which pod it is.
func TestDrainEvictsTheLeastUrgentFirst(t *testing.T) {
	urgent, old, young := replica("a-urgent", "p-1"), replica("b-old", "p-1"), replica("c-young", "p-1")
	urgent.Spec.Priority = ptr.To[int32](10)
	old.CreationTimestamp.Time = start.Add(-time.Hour)
	w := newWorld(t, nil, urgent, old, young)
	w.want(Waiting, drainAction())
	if want := []string{"ns/c-young uid-c-young", "ns/b-old uid-b-old", "ns/a-urgent uid-a-urgent"}; !slices.Equal(w.evicted, want) {
		t.Errorf("evicted %v, want %v", w.evicted, want)
	}
}

// TestInterrupted: a node that the provider terminates is drained despite maxDrains and
// scaleDown.disabled, with the grace period that is left; without an interruption it is
// not.
func TestInterrupted(t *testing.T) {
	long := replica("long", "p-1")
	long.Spec.TerminationGracePeriodSeconds = ptr.To[int64](600)
	long.Spec.Volumes = onDisk() // lost in any case
	w := newWorld(t, nil, long, replica("short", "p-1"),
		replica("saves", "p-1", v1alpha1.EvictFromAnnotation, start.Add(time.Hour).Format(time.RFC3339)),
		replica("stays", "p-1", v1alpha1.SafeToEvictAnnotation, "false"))
	edit(w, testPool(), func(p *v1alpha1.GPUNodePool) { p.Spec.ScaleDown.Disabled = true })
	w.snap.Nodes = append(w.snap.Nodes, plan.Node{Name: "p-2", Drain: &plan.Draining{}})
	taken := start.Add(2 * time.Minute)
	do := plan.Action{Verb: plan.Drain, Pool: "p", Node: "p-1", Deadline: taken, Reason: plan.NodeInterrupted}
	w.want(Refused, do)
	w.snap.Nodes[0].LeavesAt = taken
	w.want(Waiting, do)
	if got := w.pods(); !slices.Equal(got, []string{"saves", "stays"}) {
		t.Errorf("pods left %v", got)
	}
	if want := []string{"long 115", "short"}; !slices.Equal(w.graces, want) {
		t.Errorf("graces %v, want %v", w.graces, want)
	}
	w.snap.Now = taken.Add(-plan.LastCall)
	w.want(Waiting, do)
	if got := w.pods(); !slices.Equal(got, []string{"stays"}) {
		t.Errorf("pods left %v: at the last call checkpoints are no longer waited for", got)
	}
}

// TestGoingNodesAreNotCounted: of three Node objects the machine of one terminates, so a
// pool with min 2 removes none.
func TestGoingNodesAreNotCounted(t *testing.T) {
	second, third := testNode(), testNode()
	second.Name, third.Name = "p-2", "p-3"
	third.Spec.ProviderID = "cloud:///zone/i-3"
	w := newWorld(t, nil, second, third)
	edit(w, testPool(), func(p *v1alpha1.GPUNodePool) { p.Spec.Min = 2 })
	w.actor.o.Pools = provider{Provider: w.actor.o.Pools, list: func() (pools.Listing, error) {
		return pools.Listing{Target: 2, Going: []string{"i-3"}}, nil // terminating
	}}
	w.want(Refused, plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: "p-1"})
	if w.node().Spec.Unschedulable {
		t.Error("cordoned without being removed")
	}
	// A snapshot with three nodes would request one node too many.
	w.snap.Pools = []plan.Pool{{Name: "p", Size: 3, Target: 3, Max: 5}}
	edit(w, testPool(), func(p *v1alpha1.GPUNodePool) { p.Spec.Max = 5 })
	w.want(Refused, plan.Action{Verb: plan.ScaleUp, Pool: "p", From: 3, To: 4})
}

// TestReplaceInOneStep: a pools.Replacer is not asked to delete and to resize.
func TestReplaceInOneStep(t *testing.T) {
	w := newSick(t)
	edit(w, testNode(), func(n *corev1.Node) { n.UID = "sick" })
	var replaced []types.UID
	two := errors.New("want one step")
	w.actor.o.Pools = provider{
		Provider: w.actor.o.Pools, setSize: func(int) error { return two }, delete: func() error { return two },
		replace: func(n *corev1.Node) error { replaced = append(replaced, n.UID); return nil },
	}
	w.want(Done, replaceFirst)
	if !slices.Equal(replaced, []types.UID{"sick"}) {
		t.Errorf("replaced %v", replaced)
	}
}
