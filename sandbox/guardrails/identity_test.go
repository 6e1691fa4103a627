package guardrails

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// decided returns the snapshot that a plan is made on: the cluster as it is now.
func (w *world) decided() plan.Snapshot {
	w.t.Helper()
	w.exporters.scrape()
	seen, err := w.seen.Observe(w.t.Context(), w.now())
	w.must(err)
	return seen.Snapshot
}

// do carries out one action that was decided earlier.
func (w *world) do(s plan.Snapshot, a plan.Action) act.Result {
	w.t.Helper()
	return w.actor.Apply(w.t.Context(), s, plan.Plan{Actions: []plan.Action{a}})[0]
}

// TestAnotherOfTheSameName: between decision and action, a node and a pod are replaced by new ones of the
// same name, within a second. Neither new object is changed.
func TestAnotherOfTheSameName(t *testing.T) {
	w := newWorld(t, setup{})
	w.pool("h100", 1, 3)
	w.until("the fleet", w.has("h100", 1))
	pod := w.lonely("h100-1")
	s := w.decided()

	again := pod.DeepCopy()
	again.UID, again.ResourceVersion, again.Status = "", "", corev1.PodStatus{}
	w.must(w.Admin.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	w.must(w.Admin.Create(t.Context(), again))
	if r := w.do(s, plan.Action{Verb: plan.Reclaim, Pool: "h100", Node: "h100-1", Pod: w.namespace() + "/lonely"}); r.Outcome != act.Refused {
		t.Errorf("reclaim: %s, %v", r.Outcome, r.Err)
	}
	var now corev1.Pod
	w.must(w.Admin.Get(t.Context(), client.ObjectKeyFromObject(pod), &now))
	if now.UID == pod.UID || now.DeletionTimestamp != nil {
		t.Errorf("the new pod was asked to leave: %v", now.DeletionTimestamp)
	}
	w.must(w.Admin.Delete(t.Context(), &now, client.GracePeriodSeconds(0)))
	// The test must delete the old pod itself: KWOK deletes by name, and could delete the new pod.
	if also := w.writes(t, "system:kwok", func(e testenv.Call) bool {
		return e.Verb == "delete" && e.ObjectRef.Namespace == w.namespace() && e.ObjectRef.Name == "lonely"
	}); len(also) > 0 {
		t.Errorf("KWOK deleted pods that the API server had removed: %v", also)
	}

	w.edit("h100", func(p *v1alpha1.GPUNodePoolSpec) { p.Min = 0 })
	s = w.decided()
	uid := w.remake("h100-1")
	if r := w.do(s, plan.Action{Verb: plan.RemoveNode, Pool: "h100", Node: "h100-1"}); r.Outcome != act.Refused {
		t.Errorf("removal: %s, %v", r.Outcome, r.Err)
	}
	if n := w.node("h100-1"); n.UID != uid {
		t.Error("the new node was removed")
	}
	require.NoError(t, w.untouched("h100-1"))
}

// lonely creates a pod that is bound by hand to a node. It names a controller that does not exist, so it is
// not created again.
func (w *world) lonely(node string) *corev1.Pod {
	w.t.Helper()
	pod := &corev1.Pod{}
	w.must(yaml.Unmarshal(fmt.Appendf(nil, `
metadata: {namespace: %s, name: lonely, ownerReferences: [{apiVersion: example.org/v1, kind: Job, name: j, uid: j, controller: true}]}
spec: {nodeName: %s, containers: [{name: c, image: example/c}]}
`, w.namespace(), node), pod))
	w.must(w.Admin.Create(w.t.Context(), pod))
	return pod
}

// remake replaces a node by a new one of the same name, and returns the new UID.
func (w *world) remake(name string) types.UID {
	w.t.Helper()
	n := w.node(name)
	w.must(w.Admin.Delete(w.t.Context(), n))
	n.UID, n.ResourceVersion, n.ManagedFields = "", "", nil
	w.must(w.Admin.Create(w.t.Context(), n))
	return n.UID
}

// meddling is a provider that lets the test change a node right before it is deleted.
type meddling struct {
	pools.Provider
	meddle func(name string)
}

func (m meddling) Delete(ctx context.Context, pool *v1alpha1.GPUNodePool, node *corev1.Node, replace bool) error {
	m.meddle(node.Name)
	return m.Provider.Delete(ctx, pool, node, replace)
}

// remove carries out one removal, decided on the current state.
func (w *world) remove(pool, node string) act.Result {
	w.t.Helper()
	return w.do(w.decided(), plan.Action{Verb: plan.RemoveNode, Pool: pool, Node: node, Reason: plan.NodeUnderused})
}

// removeSettled removes a node. If the first attempt only cordons it, it tries again after plan.RemoveDelay.
func (w *world) removeSettled(pool, node string) act.Result {
	w.t.Helper()
	r := w.remove(pool, node)
	if r.Outcome == act.Waiting {
		w.pass(plan.RemoveDelay)
		r = w.remove(pool, node)
	}
	return r
}

// TestChangedAtTheLastMoment: a deletion names the UID and resourceVersion that were checked. So a node that
// was replaced at the last moment stays. If it was changed, the autoscaler checks again whether it may be
// removed.
func TestChangedAtTheLastMoment(t *testing.T) {
	var w *world
	kinds := map[string]func(string){
		"made again": func(name string) { w.remake(name) },
		"annotated to stay": func(name string) {
			w.patchNode(name, func(n *corev1.Node) { n.Annotations[v1alpha1.ScaleDownDisabledAnnotation] = "true" })
		},
	}
	var meddle func(string)
	w = newWorld(t, setup{provider: func(p pools.Provider) pools.Provider { return meddling{p, func(n string) { meddle(n) }} }})
	w.pool("h100", 1, 3)
	w.until("the fleet", w.has("h100", 1))
	w.edit("h100", func(p *v1alpha1.GPUNodePoolSpec) { p.Min = 0 })
	for name, change := range kinds {
		meddle = change
		if r := w.removeSettled("h100", "h100-1"); r.Outcome != act.Refused {
			t.Errorf("%s: %s, %v", name, r.Outcome, r.Err)
		}
		if n := len(w.nodes("h100")); n != 1 {
			t.Fatalf("%s: %d nodes are left", name, n)
		}
		w.patchNode("h100-1", func(n *corev1.Node) { delete(n.Annotations, v1alpha1.ScaleDownDisabledAnnotation) })
	}
	// The cordon for that removal is also removed.
	w.edit("h100", func(p *v1alpha1.GPUNodePoolSpec) { p.Min = 1 })
	w.until("nothing of ours is left on it", func() error { return w.untouched("h100-1") })
	meddle = func(string) {}
	w.edit("h100", func(p *v1alpha1.GPUNodePoolSpec) { p.Min = 0 })
	if r := w.removeSettled("h100", "h100-1"); r.Outcome != act.Done {
		t.Error(fmt.Errorf("unchanged: %s, %w", r.Outcome, r.Err))
	}
}
