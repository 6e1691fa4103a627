package guardrails

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// TestBesideOthers: nodes in no pool, nodes of another autoscaler, and a node of ours that a user has
// cordoned are unchanged after a day of reconciles. Meanwhile a similar empty node of ours is removed.
func TestBesideOthers(t *testing.T) {
	w := newWorld(t, setup{})
	w.pool("h100", 2, 5)
	w.until("the fleet", w.has("h100", 2))
	for name, labels := range map[string]map[string]string{
		"ca-1":        {"cloud.example.com/nodegroup": "gpu", "nvidia.com/gpu.present": "true"},
		"karpenter-1": {"karpenter.sh/nodepool": "gpu", "nvidia.com/gpu.present": "true"},
	} {
		n := w.node("h100-1")
		n.ObjectMeta.Name, n.UID, n.ResourceVersion, n.Labels = name, "", "", labels
		n.Labels["nvidia.com/gpu.product"] = product
		n.ManagedFields = nil
		w.must(w.Admin.Create(t.Context(), n))
	}
	w.patchNode("h100-2", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	begin := time.Now()
	before := map[string]*corev1.Node{}
	for _, name := range []string{"ca-1", "karpenter-1", "h100-2"} {
		before[name] = w.node(name)
	}
	pool := w.get("h100")
	pool.Spec.Min = 0
	w.must(w.Admin.Update(t.Context(), pool))
	w.until("ours goes", w.goesOn("h100", 1))
	w.elapse(15 * time.Minute) // in steps, so that it is seen idle all the time
	for range 24 {
		w.pass(time.Hour)
		w.reconcile()
	}
	for name, was := range before { // Kubernetes itself writes taints and annotations
		if now := w.node(name); now.UID != was.UID || now.Spec.Unschedulable != was.Spec.Unschedulable {
			t.Errorf("%s is not as it was:\n%v\n%v", name, was.Spec, now.Spec)
		}
	}
	if writes := w.writes(t, autoscalerUser, func(e testenv.Call) bool {
		return e.ObjectRef.Resource == "nodes" && e.ObjectRef.Name != "h100-1" && e.RequestReceivedTimestamp.After(begin)
	}); len(writes) > 0 {
		t.Errorf("writes to others' nodes: %v", writes)
	}
}
