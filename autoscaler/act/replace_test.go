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

// newSick is newVacant with the first node cordoned for plan.RemoveDelay.
func newSick(t *testing.T, more ...client.Object) *world {
	t.Helper()
	w := newVacant(t, more...)
	edit(w, testNode(), func(n *corev1.Node) {
		drain := v1alpha1.Drain{Started: start.Add(-plan.RemoveDelay), Deadline: start.Add(time.Hour), Reason: string(plan.NodeSick)}
		annotate(n, v1alpha1.DrainAnnotation, drain.String())
		setCordon(n, drainReason)
	})
	return w
}

// TestVacantSickNodeSettles: a sick node without pods is replaced plan.RemoveDelay after its cordon.
func TestVacantSickNodeSettles(t *testing.T) {
	w := newVacant(t)
	before := w.node().UID
	w.want(Waiting, replaceFirst)
	drain, draining, err := v1alpha1.DrainOf(w.node())
	if !draining || err != nil || drain.Reason != string(plan.NodeSick) || !w.node().Spec.Unschedulable || w.node().UID != before {
		t.Fatalf("drain %+v, %v, %v; cordoned %v", drain, draining, err, w.node().Spec.Unschedulable)
	}
	// The planner has counted it when it decided.
	w.snap.State.LastReplace = []plan.Stamp{{Name: "p", At: w.snap.Now}}
	w.must(w.client.Create(t.Context(), replica("late", "p-1")))
	w.snap.Now = w.snap.Now.Add(plan.RemoveDelay)
	w.want(Refused, replaceFirst)
	w.must(w.client.Delete(t.Context(), replica("late", "p-1")))
	w.want(Done, replaceFirst)
	if got := w.nodes(); !slices.Equal(got, []string{"p-1", "p-2"}) || w.node().Spec.Unschedulable {
		t.Errorf("nodes %v, cordoned %v", got, w.node().Spec.Unschedulable)
	}
}

// newVacant is a world with a second node; the first one has a sick GPU.
func newVacant(t *testing.T, more ...client.Object) *world {
	t.Helper()
	second := testNode()
	second.Name = "p-2"
	w := newWorld(t, nil, append(more, second)...)
	w.snap.Pools = []plan.Pool{{Name: "p", Size: 2, Target: 2, Max: 3}}
	w.snap.Nodes = append(w.snap.Nodes, plan.Node{Name: "p-2", Pool: "p", Created: start, Ready: true, GPUs: []plan.GPU{sevenths()}})
	w.snap.Nodes[0].GPUs[0].Health = gpu.Sick
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

// TestReplaceAfterADrain: the new node has no cordon and no drain record.
func TestReplaceAfterADrain(t *testing.T) {
	w := newVacant(t, replica("a", "p-1"))
	w.want(Refused, replaceFirst) // a pod is there
	drain := drainAction()
	drain.Reason = plan.NodeSick
	w.want(Waiting, drain)
	w.want(Done, drain)
	w.settled()
	w.want(Done, replaceFirst)
	if n := w.node(); n.Spec.Unschedulable || n.Annotations[v1alpha1.DrainAnnotation] != "" {
		t.Error("the drained node is still there")
	}
}

// TestReplaceOncePerReconcile: of two sick nodes in a plan one is replaced.
func TestReplaceOncePerReconcile(t *testing.T) {
	w := newSick(t)
	w.actor.o.Policy.MaxSickShare = 1
	w.snap.Nodes[1].GPUs[0].Health = gpu.Sick
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

// TestReplaceBesideARemoval: a node removed in the same reconcile is not requested again.
func TestReplaceBesideARemoval(t *testing.T) {
	w := newSick(t)
	remove := plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: "p-2"}
	w.want(Waiting, remove)
	w.settled()
	if r := w.do(remove, replaceFirst); r.Outcome != Done {
		t.Fatalf("%s: %v", r.Outcome, r.Err)
	}
	if got := w.nodes(); !slices.Equal(got, []string{"p-1"}) {
		t.Errorf("nodes %v", got)
	}
}

// TestReplaceInterrupted: the provider removes the node and fails to add another. The
// action fails.
func TestReplaceInterrupted(t *testing.T) {
	w := newSick(t)
	w.actor.o.Pools = provider{Provider: w.actor.o.Pools, setSize: func(int) error { return errors.New("insufficient capacity") }}
	w.want(Failed, replaceFirst)
	if got := w.nodes(); !slices.Equal(got, []string{"p-2"}) {
		t.Errorf("nodes %v", got)
	}
}

// provider is a fake that delegates where its function is nil.
type provider struct {
	pools.Provider
	list    func() (pools.Listing, error)
	setSize func(size int) error
	delete  func() error
	replace func(*corev1.Node) error
}

func (p provider) List(ctx context.Context, pool *v1alpha1.GPUNodePool) (pools.Listing, error) {
	if p.list != nil {
		return p.list()
	}
	return p.Provider.List(ctx, pool)
}

func (p provider) SetSize(ctx context.Context, pool *v1alpha1.GPUNodePool, size int) error {
	if p.setSize != nil {
		if err := p.setSize(size); err != nil {
			return err
		}
	}
	return p.Provider.SetSize(ctx, pool, size)
}

func (p provider) Delete(ctx context.Context, pool *v1alpha1.GPUNodePool, node *corev1.Node) error {
	if p.delete != nil {
		return p.delete()
	}
	return p.Provider.Delete(ctx, pool, node)
}

func (p provider) Replace(_ context.Context, _ *v1alpha1.GPUNodePool, node *corev1.Node) error {
	if p.replace != nil {
		return p.replace(node)
	}
	return errors.ErrUnsupported
}

// TestTargetStays: the requested size includes upcoming nodes, and does not exceed max.
func TestTargetStays(t *testing.T) {
	w := newSick(t)
	requested := 0
	count := func(size int) error { requested = size; return nil }
	w.actor.o.Pools = provider{Provider: w.actor.o.Pools, setSize: count}
	w.snap.Pools[0].Target = 3
	w.want(Done, replaceFirst)
	if requested != 3 {
		t.Errorf("requested %d nodes, the target was 3", requested)
	}
	small := newSick(t)
	small.actor.o.Pools = provider{Provider: small.actor.o.Pools, setSize: count}
	edit(small, testPool(), func(p *v1alpha1.GPUNodePool) { p.Spec.Max = 1 })
	small.want(Done, replaceFirst)
	if requested != 1 {
		t.Errorf("requested %d nodes of a pool with max 1", requested)
	}
}

// TestPodBetweenLookAndDelete: a pod bound between check and deletion keeps the node. The planner
// continues its drain.
func TestPodBetweenLookAndDelete(t *testing.T) {
	w := newSick(t)
	w.actor.o.Live = &late{Reader: w.client, come: func() {
		p := replica("late", "p-1")
		p.CreationTimestamp = metav1.Time{}
		w.must(w.client.Create(t.Context(), p))
	}}
	before := w.nodes()
	w.want(Refused, replaceFirst)
	if _, draining, _ := v1alpha1.DrainOf(w.node()); !draining || !slices.Equal(w.nodes(), before) {
		t.Errorf("draining %v, nodes %v", draining, w.nodes())
	}
}

// late calls come after pods are first listed.
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
