package guardrails

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// down breaks a node: KWOK leaves it alone from now on.
func (w *world) down(name string, status corev1.ConditionStatus) {
	w.t.Helper()
	w.patchNode(name, func(n *corev1.Node) { n.Annotations[cluster.AnnotationDown] = "true" })
	w.await(name+" is down", func() error {
		n := w.node(name)
		for i := range n.Status.Conditions {
			if n.Status.Conditions[i].Type == corev1.NodeReady {
				n.Status.Conditions[i].Status = status
			}
		}
		return w.Admin.Status().Update(w.t.Context(), n)
	})
}

// TestBesideOthers: nodes of no pool, of another autoscaler, and one of ours that was
// cordoned by hand are unchanged after a day of reconciles, while an empty node like
// them is removed.
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
	// Of each new node Kubernetes itself takes away the taint that it is not ready yet,
	// and writes an annotation; of a cordoned one it makes a taint.
	for name, want := range map[string]string{"ca-1": "", "karpenter-1": "", "h100-2": corev1.TaintNodeUnschedulable} {
		w.await(name+" is ready, and Kubernetes has written its taints", func() error {
			n := w.node(name)
			var taints []string
			for _, taint := range n.Spec.Taints {
				taints = append(taints, taint.Key)
			}
			if got := strings.Join(taints, " "); !kube.NodeReady(n) || got != want || n.Annotations[corev1.ObjectTTLAnnotationKey] == "" {
				return fmt.Errorf("ready %v, taints %q, annotations %v", kube.NodeReady(n), got, n.Annotations)
			}
			return nil
		})
	}
	begin := time.Now()
	names := []string{"ca-1", "karpenter-1", "h100-2"}
	before := map[string]*corev1.Node{}
	for _, name := range names {
		before[name] = w.node(name)
	}
	pool := w.get("h100")
	pool.Spec.Min = 0
	w.must(w.Admin.Update(t.Context(), pool))
	w.until("ours goes", w.goesOn("h100", 1))
	w.elapse(15 * time.Minute) // in steps in which it is seen idle all the while
	for range 24 {
		w.pass(time.Hour)
		w.reconcile()
	}
	for _, name := range names {
		var now corev1.Node
		if err := w.Admin.Get(t.Context(), client.ObjectKey{Name: name}, &now); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if was := before[name]; now.UID != was.UID || now.Generation != was.Generation || fmt.Sprint(now.Spec, now.Labels, now.Annotations) != fmt.Sprint(was.Spec, was.Labels, was.Annotations) {
			t.Errorf("%s is not as it was:\n%v %v %v\n%v %v %v", name, was.Spec, was.Labels, was.Annotations, now.Spec, now.Labels, now.Annotations)
		}
	}
	if writes := w.writes(t, autoscalerUser, func(e testenv.Call) bool {
		return e.ObjectRef.Resource == "nodes" && e.ObjectRef.Name != "h100-1" && e.RequestReceivedTimestamp.After(begin)
	}); len(writes) > 0 {
		t.Errorf("writes to others' nodes: %v", writes)
	}
}
