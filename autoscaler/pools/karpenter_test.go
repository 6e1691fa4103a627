package pools

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
)

// newKarpenterWorld is a static NodePool of three, which change changes.
func newKarpenterWorld(t *testing.T, change func(nodePool *unstructured.Unstructured), more ...client.Object) *world {
	t.Helper()
	objects := append(karpenterObjects(), more...)
	if change != nil {
		change(objects[3].(*unstructured.Unstructured))
	}
	return newScaleWorld(t, nodePoolRef, objects...)
}

// claim is a NodeClaim of the world's NodePool, which Karpenter has not launched.
func claim(name string) *unstructured.Unstructured {
	u := object(kinds[4], "", name, map[string]string{labelKarpenterFor: "h100"}, map[string]any{})
	u.SetFinalizers([]string{"karpenter.sh/termination"})
	return u
}

func (w *world) ends(claims ...string) {
	w.t.Helper()
	for _, name := range claims {
		require.NoError(w.t, w.client.Delete(w.t.Context(), w.object(kinds[4], "", name)))
	}
}

func (w *world) ended(claims ...string) {
	w.t.Helper()
	for _, name := range claims {
		w.update(w.object(kinds[4], "", name), func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
	}
}

// requested checks the replicas and the limit of the NodePool, and the size that the provider derives from them.
func (w *world) requested(replicas int, limit string, size int) {
	w.t.Helper()
	got, _, _ := unstructured.NestedString(w.target().Object, "spec", "limits", "nodes")
	if n, listed := replicasOf(w.t, w.target()), w.listed(); n != replicas || got != limit || listed != size {
		w.t.Errorf("%d replicas, limit %s, size %d; want %d, %s, %d", n, got, listed, replicas, limit, size)
	}
}

// TestKilledBeforeTheClaimGoes: a removal down to the pool's min may end between the lower limit and the NodeClaim's
// deletion. The node that it leaves is counted: otherwise min+1 nodes would stay for ever. The removal of another node
// takes only that node.
func TestKilledBeforeTheClaimGoes(t *testing.T) {
	w := interrupted(t, "NodeClaim", false, 1)
	w.requested(3, "2", 3)
	w.pool.Spec.Min = 0
	require.NoError(t, w.scale.Delete(t.Context(), w.pool, w.node("w-2"), false))
	if got := w.marked(); !slices.Equal(got, []string{"c-2"}) {
		t.Errorf("to go: %v", got)
	}
	w.requested(3, "2", 2)
	require.NoError(t, w.scale.Delete(t.Context(), w.pool, w.node("w-1"), false))
	if got := w.marked(); !slices.Equal(got, []string{"c-1", "c-2"}) {
		t.Errorf("to go: %v", got)
	}
	w.requested(3, "1", 1)
}

// TestLimitBesideTermination: Karpenter counts nodes that it terminates towards the limit, for as long as their pods take.
func TestLimitBesideTermination(t *testing.T) {
	w := newKarpenterWorld(t, nil)
	w.ends("c-0", "c-1") // they have expired
	for _, name := range []string{"c-0", "c-1"} {
		w.update(w.object(kinds[4], "", name), func(u *unstructured.Unstructured) {
			require.NoError(t, unstructured.SetNestedSlice(u.Object, []any{map[string]any{"type": "Drained", "status": "Unknown"}}, "status", "conditions"))
		})
	}
	require.NoError(t, w.scale.SetSize(t.Context(), w.pool, 3, 4))
	w.requested(4, "7", 4)
}

// TestReplicasBesideUnnoticedEnds: Karpenter may not have seen two removals yet.
func TestReplicasBesideUnnoticedEnds(t *testing.T) {
	w := newKarpenterWorld(t, nil)
	for _, node := range []string{"w-0", "w-1"} {
		require.NoError(t, w.scale.Delete(t.Context(), w.pool, w.node(node), false))
	}
	require.NoError(t, w.scale.SetSize(t.Context(), w.pool, 1, 2))
	w.requested(3, "2", 2)
}

// TestReplicasBesideUnlaunchedClaims: a NodeClaim that was withdrawn before its launch is a replica for Karpenter until
// it is gone. With fewer replicas Karpenter would remove a node with pods.
func TestReplicasBesideUnlaunchedClaims(t *testing.T) {
	w := newKarpenterWorld(t, func(u *unstructured.Unstructured) {
		set(u, int64(5), "spec", "replicas")
	}, claim("new-0"), claim("new-1"))
	require.NoError(t, w.scale.Withdraw(t.Context(), w.pool, 5))
	w.requested(5, "3", 3)
	require.NoError(t, w.scale.SetSize(t.Context(), w.pool, 3, 4))
	w.requested(5, "4", 4)
	w.ended("new-0", "new-1")
	require.NoError(t, w.scale.SetSize(t.Context(), w.pool, 4, 5))
	w.requested(5, "6", 5)
}

// TestRaisedLimitIsNoticed: Karpenter reads a changed limit within half a minute, changed replicas at once.
func TestRaisedLimitIsNoticed(t *testing.T) {
	w := newKarpenterWorld(t, nil)
	require.NoError(t, w.scale.Delete(t.Context(), w.pool, w.node("w-1"), false))
	w.ended("c-1")
	w.requested(3, "2", 2)
	w.dieAt = w.writes + 1
	if err := w.scale.SetSize(t.Context(), w.pool, 2, 3); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	w.restart()
	w.requested(2, "2", 2)
	require.NoError(t, w.scale.SetSize(t.Context(), w.pool, 2, 3))
	w.requested(3, "4", 3)
}

// TestWithdrawBesideAReplacement: Karpenter makes the NodeClaim that replaces a drifted node in addition to the size.
// That NodeClaim may have no node yet either.
func TestWithdrawBesideAReplacement(t *testing.T) {
	w := newKarpenterWorld(t, func(u *unstructured.Unstructured) {
		set(u, int64(4), "spec", "replicas")
	}, claim("new-0"), claim("new-1"))
	require.NoError(t, w.scale.Withdraw(t.Context(), w.pool, 4))
	w.requested(4, "3", 3)
	if got := w.marked(); len(got) != 1 {
		t.Errorf("to go: %v", got)
	}
}

// TestNodePoolIsNotReady: Karpenter makes no node of a NodePool that is not Ready. The request is refused, so that
// other pools serve the pods.
func TestNodePoolIsNotReady(t *testing.T) {
	w := newKarpenterWorld(t, func(u *unstructured.Unstructured) {
		u.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "False"}}}
	})
	h := NewHistory(func() time.Time { return testNow })
	p, problem := Providers{Scale: w.scale, History: h}, (*Problem)(nil)
	if err := p.SetSize(t.Context(), w.pool, 3, 4); !errors.As(err, &problem) || !strings.Contains(problem.What, "not ready") {
		t.Errorf("%v", err)
	}
	if w.writes != 0 || h.Seen(w.pool, 3, nil).Failures != 1 {
		t.Errorf("%d writes, %+v", w.writes, h.Seen(w.pool, 3, nil))
	}
	require.NoError(t, w.scale.Delete(t.Context(), w.pool, w.node("w-1"), false))
}

// TestNodePoolDescribesItsNodes: what a NodePool states for all of its nodes is expected of the first one, too.
func TestNodePoolDescribesItsNodes(t *testing.T) {
	w := newKarpenterWorld(t, func(u *unstructured.Unstructured) {
		set(u, map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"team": "a", v1alpha1.NodePoolLabel: "other"}},
			"spec": map[string]any{
				"taints":        []any{map[string]any{"key": "nvidia.com/gpu", "effect": "NoSchedule"}},
				"startupTaints": []any{map[string]any{"key": "cilium", "value": "x", "effect": "NoExecute"}},
				"requirements": []any{
					map[string]any{"key": "karpenter.sh/capacity-type", "operator": "In", "values": []any{"spot"}},
					map[string]any{"key": corev1.LabelTopologyZone, "operator": "In", "values": []any{"a", "b"}, "minValues": int64(2)},
					map[string]any{"key": "cpus", "operator": "Gt", "values": []any{"7"}},
				},
			},
		}, "spec", "template")
	})
	l := w.listing()
	if want := []v1alpha1.Taint{{Key: "cilium", Value: "x", Effect: "NoExecute"}}; !slices.Equal(l.StartupTaints, want) {
		t.Errorf("startup taints %v", l.StartupTaints)
	}
	w.pool.Spec.Template, w.pool.Spec.MIG = v1alpha1.NodeTemplate{Product: "NVIDIA-L4", GPUs: 1}, nil
	got, err := Template(w.pool, nil, l)
	require.NoError(t, err)
	if !slices.Equal(got.Taints, []plan.Taint{{Key: "nvidia.com/gpu", Effect: "NoSchedule"}}) {
		t.Errorf("taints %v", got.Taints)
	}
	for key, want := range map[string]string{"team": "a", "karpenter.sh/nodepool": "h100", "karpenter.sh/capacity-type": "spot", corev1.LabelTopologyZone: "", "cpus": "", v1alpha1.NodePoolLabel: "p"} {
		if got.Labels[key] != want {
			t.Errorf("label %s is %q, want %q", key, got.Labels[key], want)
		}
	}
}
