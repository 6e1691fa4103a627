package act

import (
	"context"
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

// TestBoundsAreCheckedAgain: a plan beyond the policy's bounds is not carried out,
// whoever made it.
func TestBoundsAreCheckedAgain(t *testing.T) {
	up := plan.Action{Verb: plan.ScaleUp, Pool: "p", From: 1, To: 3}
	remove := plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: "p-1"}
	for name, c := range map[string]struct {
		change func(*world)
		do     plan.Action
	}{
		"nodes an hour": {func(w *world) {
			w.actor.o.Policy.MaxNodesPerHour = 5
			w.snap.Memory.Grown = []plan.Growth{{Pool: "p", At: start.Add(-59 * time.Minute), Nodes: 4}, {Pool: "q", At: start, Nodes: 9}}
		}, up},
		"nodes given back in ten minutes": {func(w *world) {
			w.actor.o.Policy.MaxRemovalsPerTenMinutes = 5
			w.snap.Memory.Removed = []plan.Growth{{Pool: "q", At: start.Add(-9 * time.Minute), Nodes: 5}}
		}, remove},
		"nodes given back in a round": {func(w *world) { w.actor.o.Policy.MaxRemovalsPerRound = 0 }, remove},
		"it was told to stay": {func(w *world) {
			edit(w, testNode(), func(n *corev1.Node) { annotate(n, v1alpha1.ScaleDownDisabledAnnotation, "true") })
		}, remove},
		"somebody's cordon": {func(w *world) {
			edit(w, testNode(), func(n *corev1.Node) { n.Spec.Unschedulable = true })
		}, remove},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			c.change(w)
			writes := w.writes
			w.want(Refused, c.do)
			if got := w.nodes(); !slices.Equal(got, []string{"p-1"}) || w.writes != writes {
				t.Errorf("nodes %v, %d writes", got, w.writes-writes)
			}
		})
	}
	past := newWorld(t, nil)
	past.actor.o.Policy.MaxNodesPerHour, past.actor.o.Policy.MaxRemovalsPerTenMinutes = 5, 5
	past.snap.Memory.Grown = []plan.Growth{{Pool: "p", At: start.Add(-time.Hour), Nodes: 4}}
	past.snap.Memory.Removed = []plan.Growth{{Pool: "p", At: start.Add(-10 * time.Minute), Nodes: 5}}
	past.want(Done, up)
	past.want(Done, remove)
}

// TestShareOfAPoolInARound: of ten nodes two go at a time.
func TestShareOfAPoolInARound(t *testing.T) {
	w := newWorld(t, nil)
	w.snap.Pools = []plan.Pool{{Name: "p", Size: 10, Target: 10}}
	r := newRound(w.snap, w.actor.o.Policy)
	for i := range 3 {
		err := r.admit(plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: fmt.Sprint(i)})
		if (err != nil) != (i == 2) {
			t.Errorf("removal %d: %v", i+1, err)
		}
	}
}

// TestFreezeLetsEnd: under a freeze, of everything or of the pool, nothing begins
// and what was begun can be ended.
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
				drainAction(), w.cut(), {Verb: plan.ScaleUp, Pool: "p", From: 1, To: 2}, {Verb: plan.RemoveNode, Pool: "p", Node: "p-1"},
				{Verb: plan.Replace, Pool: "p", Node: "p-1"}, {Verb: plan.Reclaim, Pool: "p", Node: "p-1", Pod: "ns/a"},
			} {
				w.want(Refused, a)
			}
			if got := w.pods(); !slices.Equal(got, []string{"a"}) {
				t.Errorf("pods %v: a frozen drain goes on", got)
			}
			w.want(Done, plan.Action{Verb: plan.Uncordon, Pool: "p", Node: "p-1"})
			if n := w.node(); n.Spec.Unschedulable || len(n.Annotations) != 0 {
				t.Errorf("cordoned %v, annotations %v", n.Spec.Unschedulable, n.Annotations)
			}
		})
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// TestResumeUnderFreeze: a repartition that waits for its config to arrive has not
// begun on the card. It is taken back, with its cordon.
func TestResumeUnderFreeze(t *testing.T) {
	for name, freeze := range map[string]func(*world){
		"all":    func(w *world) { w.actor.o.Policy.Freeze = true },
		"a pool": func(w *world) { edit(w, testPool(), func(p *v1alpha1.GPUNodePool) { p.Spec.Freeze = true }) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.ConfigDelay = time.Minute })
			w.want(Done, w.cut())
			if _, underWay, _ := partition.RecordOf(w.node()); !underWay || !w.node().Spec.Unschedulable {
				t.Fatal("nothing waits for its label")
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

// TestAnotherOfTheSameSecond: times are whole seconds in the API, UIDs tell apart
// what was made again at once.
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

// TestDrainsGoOn: the bound is on drains that begin.
func TestDrainsGoOn(t *testing.T) {
	w := newWorld(t, nil, replica("a", "p-1"))
	w.full["a"] = true
	w.want(Waiting, drainAction())
	w.snap.Nodes[0].Drain = &plan.Draining{}
	w.snap.Nodes = append(w.snap.Nodes, plan.Node{Name: "p-2", Drain: &plan.Draining{}})
	w.full["a"] = false
	w.want(Waiting, drainAction())
	if len(w.evicted) != 1 {
		t.Errorf("evicted %v: a drain under way is held up by another", w.evicted)
	}
}

// TestDrainAsksTheLeastUrgentFirst: where a budget has room for one, the planner's
// order decides who it is.
func TestDrainAsksTheLeastUrgentFirst(t *testing.T) {
	urgent, old, young := replica("a-urgent", "p-1"), replica("b-old", "p-1"), replica("c-young", "p-1")
	urgent.Spec.Priority = ptr.To[int32](10)
	old.CreationTimestamp.Time = start.Add(-time.Hour)
	w := newWorld(t, nil, urgent, old, young)
	w.want(Waiting, drainAction())
	if want := []string{"ns/c-young uid-c-young", "ns/b-old uid-b-old", "ns/a-urgent uid-a-urgent"}; !slices.Equal(w.evicted, want) {
		t.Errorf("evicted %v, want %v", w.evicted, want)
	}
}

// TestInterrupted: what the provider takes is emptied whatever else drains, whoever
// keeps nodes, with the grace that is left; nobody drains so without a notice.
func TestInterrupted(t *testing.T) {
	long := replica("long", "p-1")
	long.Spec.TerminationGracePeriodSeconds = ptr.To[int64](600)
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
		t.Errorf("pods left %v: the last call is for who waits for a checkpoint", got)
	}
}

// slow is a provider that takes its time: nodes whose removal it was told of are
// still there.
type slow struct {
	pools.Provider
	listing pools.Listing
}

func (s slow) List(context.Context, *v1alpha1.GPUNodePool) (pools.Listing, error) {
	return s.listing, nil
}

// TestGoingNodesAreNotCounted: of three Node objects one is on its way out, so a
// pool of at least two has none to give.
func TestGoingNodesAreNotCounted(t *testing.T) {
	second, third := testNode(), testNode()
	second.Name, third.Name = "p-2", "p-3"
	third.Spec.ProviderID = "cloud:///zone/i-3"
	w := newWorld(t, nil, second, third)
	edit(w, testPool(), func(p *v1alpha1.GPUNodePool) { p.Spec.Min = 2 })
	w.actor.o.Pools = slow{w.actor.o.Pools, pools.Listing{Target: 2, Going: []string{"i-3"}}}
	w.want(Refused, plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: "p-1"})
	if w.node().Spec.Unschedulable {
		t.Error("cordoned in vain")
	}
	// And a plan made on three asks for a size that nobody wants any more.
	w.snap.Pools = []plan.Pool{{Name: "p", Size: 3, Target: 3, Max: 5}}
	edit(w, testPool(), func(p *v1alpha1.GPUNodePool) { p.Spec.Max = 5 })
	w.want(Refused, plan.Action{Verb: plan.ScaleUp, Pool: "p", From: 3, To: 4})
}

// replacer is a provider that replaces a node in one step.
type replacer struct {
	pools.Provider
	replaced *[]types.UID
}

func (r replacer) Replace(_ context.Context, _ *v1alpha1.GPUNodePool, node *corev1.Node) error {
	*r.replaced = append(*r.replaced, node.UID)
	return nil
}

func (replacer) Delete(context.Context, *v1alpha1.GPUNodePool, []*corev1.Node) error {
	return fmt.Errorf("want one step")
}

func (replacer) SetSize(context.Context, *v1alpha1.GPUNodePool, int) error {
	return fmt.Errorf("want one step")
}

// TestReplaceInOneStep: where the provider can, nothing has to be asked for anew.
func TestReplaceInOneStep(t *testing.T) {
	w := newSick(t)
	edit(w, testNode(), func(n *corev1.Node) { n.UID = "sick" })
	var replaced []types.UID
	w.actor.o.Pools = replacer{w.actor.o.Pools, &replaced}
	w.want(Done, replaceFirst)
	if !slices.Equal(replaced, []types.UID{"sick"}) {
		t.Errorf("replaced %v", replaced)
	}
}
