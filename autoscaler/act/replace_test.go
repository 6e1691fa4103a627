package act

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/plan"
)

var replaceFirst = plan.Action{Verb: plan.Replace, Pool: "p", Node: "p-1", Reason: plan.NodeSick}

// newSick is a pool of two of which the first node has a sick card.
func newSick(t *testing.T, more ...client.Object) *world {
	t.Helper()
	second := testNode()
	second.Name = "p-2"
	w := newWorld(t, nil, append(more, second)...)
	w.snap.Pools = []plan.Pool{{Name: "p", Size: 2, Target: 2, Max: 3}}
	w.snap.Nodes = append(w.snap.Nodes, plan.Node{Name: "p-2", Pool: "p", Created: start, Ready: true, Cards: []plan.Card{sevenths()}})
	w.snap.Nodes[0].Cards[0].Health = gpu.Sick
	return w
}

func TestReplace(t *testing.T) {
	w := newSick(t, daemon("agent", "p-1"))
	w.want(Done, replaceFirst)
	if got := w.nodes(); !slices.Equal(got, []string{"p-1", "p-2"}) {
		t.Fatalf("nodes %v, want as many as before", got)
	}
	if n := w.node(); n.Labels["nvidia.com/gpu.product"] == "" || n.Spec.Unschedulable {
		t.Error("p-1 is the old node, not a new one from the template")
	}
}

// TestReplaceAfterADrain: the cordon and the record of the drain go with the node.
func TestReplaceAfterADrain(t *testing.T) {
	w := newSick(t, replica("a", "p-1"))
	w.want(Refused, replaceFirst) // a pod is there
	drain := drainAction()
	drain.Reason = plan.NodeSick
	w.want(Waiting, drain)
	w.want(Done, drain)
	w.want(Done, replaceFirst)
	if n := w.node(); n.Spec.Unschedulable || n.Annotations[v1alpha1.DrainAnnotation] != "" {
		t.Error("the drained node is still there")
	}
}

func TestReplaceRefused(t *testing.T) {
	for name, change := range map[string]func(*world){
		"a pod runs there": func(w *world) {
			if err := w.client.Create(w.t.Context(), replica("a", "p-1")); err != nil {
				w.t.Fatal(err)
			}
		},
		"no card is sick":     func(w *world) { w.snap.Nodes[0].Cards[0].Health = gpu.Healthy },
		"health is unknown":   func(w *world) { w.snap.Nodes[0].Cards[0].Health = gpu.HealthUnknown },
		"it is not the nodes": func(w *world) { w.snap.Nodes[1].Cards[0].Health = gpu.Sick },
		"replacing is off":    func(w *world) { w.actor.o.Policy.SickAfter = 0 },
		"one was replaced": func(w *world) {
			w.snap.Memory.LastReplace = []plan.Stamp{{Name: "p", At: start.Add(-59 * time.Minute)}}
		},
		"the pool has shrunk": func(w *world) { w.snap.Pools[0].Size = 3 },
		"the pool is unknown": func(w *world) { w.snap.Pools = nil },
		"it is another node":  func(w *world) { w.snap.Nodes[0].Created = start.Add(-time.Hour) },
		"it is of no pool":    func(w *world) { edit(w, testNode(), func(n *corev1.Node) { delete(n.Labels, v1alpha1.NodePoolLabel) }) },
		"the pool keeps nodes": func(w *world) {
			edit(w, testPool(), func(p *v1alpha1.GPUNodePool) { p.Spec.ScaleDown.Disabled = true })
		},
		"everything is frozen": func(w *world) { w.actor.o.Policy.Freeze = true },
	} {
		t.Run(name, func(t *testing.T) {
			w := newSick(t)
			change(w)
			writes := w.writes
			w.want(Refused, replaceFirst)
			if got := w.nodes(); len(got) != 2 || w.writes != writes {
				t.Errorf("nodes %v, %d writes", got, w.writes-writes)
			}
		})
	}
}

// TestReplaceOnceARound: of two sick nodes in a plan one is replaced.
func TestReplaceOnceARound(t *testing.T) {
	w := newSick(t)
	w.actor.o.Policy.MaxSickShare = 1
	w.snap.Nodes[1].Cards[0].Health = gpu.Sick
	second := replaceFirst
	second.Node = "p-2"
	if r := w.do(replaceFirst, second); r.Outcome != Refused {
		t.Errorf("the second: %s", r.Outcome)
	}
	var n corev1.Node
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: "p-2"}, &n); err != nil || n.Spec.Unschedulable {
		t.Errorf("p-2: %v, cordoned %v", err, n.Spec.Unschedulable)
	}
}

// TestReplaceBesideARemoval: what was given back in the same round does not come back.
func TestReplaceBesideARemoval(t *testing.T) {
	w := newSick(t)
	w.want(Done, replaceFirst)
	again := newSick(t)
	if r := again.do(plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: "p-2"}, replaceFirst); r.Outcome != Done {
		t.Fatalf("%s: %v", r.Outcome, r.Err)
	}
	if got := again.nodes(); !slices.Equal(got, []string{"p-1"}) {
		t.Errorf("nodes %v", got)
	}
}

// TestReplaceCutShort: the provider takes the node and fails to make another. It
// is said, and nothing is cordoned that is left.
func TestReplaceCutShort(t *testing.T) {
	w := newSick(t)
	w.actor.o.Pools = stockOut{w.actor.o.Pools}
	w.want(Failed, replaceFirst)
	if got := w.nodes(); !slices.Equal(got, []string{"p-2"}) {
		t.Errorf("nodes %v", got)
	}
}

// stockOut is a provider that has no more nodes.
type stockOut struct{ pools.Provider }

func (stockOut) SetSize(context.Context, *v1alpha1.GPUNodePool, int) error {
	return errors.New("insufficient capacity")
}

// TestTargetStays: nodes that are on their way are neither forgotten nor asked
// for twice.
func TestTargetStays(t *testing.T) {
	w := newSick(t)
	asked := 0
	w.actor.o.Pools = counting{w.actor.o.Pools, &asked}
	w.snap.Pools[0].Target = 3
	w.want(Done, replaceFirst)
	if asked != 3 {
		t.Errorf("asked for %d nodes, the target was 3", asked)
	}
	small := newSick(t)
	small.actor.o.Pools = counting{small.actor.o.Pools, &asked}
	edit(small, testPool(), func(p *v1alpha1.GPUNodePool) { p.Spec.Max = 1 })
	small.want(Done, replaceFirst)
	if asked != 1 {
		t.Errorf("asked for %d nodes of a pool whose max is 1", asked)
	}
}

type counting struct {
	pools.Provider
	asked *int
}

func (c counting) SetSize(ctx context.Context, pool *v1alpha1.GPUNodePool, size int) error {
	*c.asked = size
	return c.Provider.SetSize(ctx, pool, size)
}

// TestPodBetweenLookAndDelete: a pod that came after the cordon was decided keeps
// the node, and the cordon goes.
func TestPodBetweenLookAndDelete(t *testing.T) {
	w := newSick(t)
	w.actor.o.Live = &late{Reader: w.client, come: func() {
		p := replica("late", "p-1")
		p.CreationTimestamp = metav1.Time{}
		if err := w.client.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}}
	w.want(Refused, replaceFirst)
	if n := w.node(); n.Spec.Unschedulable || len(n.Annotations) != 0 {
		t.Errorf("cordoned %v, annotations %v", n.Spec.Unschedulable, n.Annotations)
	}
}

// late has something happen after pods were first listed.
type late struct {
	client.Reader
	come func()
}

func (l *late) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := l.Reader.List(ctx, list, opts...)
	if _, pods := list.(*corev1.PodList); pods && l.come != nil {
		l.come()
		l.come = nil
	}
	return err
}
