package pools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/internal/kube/kubefake"
	"github.com/gpuscale/gpuscale/internal/require"
)

func replicasOf(t *testing.T, u *unstructured.Unstructured) int {
	t.Helper()
	n, err := target{object: u}.replicas()
	require.NoError(t, err)
	return n
}

// byName are the targets that identify their nodes: by the machine of node w-1. left are the replicas, out of three,
// after its removal: Karpenter's stay, since with fewer it would choose a node itself.
var byName = map[string]struct {
	ref      v1alpha1.ScaleProvider
	objects  func() []client.Object
	machine  *unstructured.Unstructured
	replicas int
}{
	"Machine":   {deploymentRef, capiObjects, object(kinds[2], "fleet", "m-1", nil, nil), 2},
	"NodeClaim": {nodePoolRef, karpenterObjects, object(kinds[4], "", "c-1", nil, nil), 3},
}

// interrupted is a world in which the removal of w-1, or its replacement, ended after the write dieAt; 0 is after the
// last one. The pool's min is its size without w-1.
func interrupted(t *testing.T, kind string, replace bool, dieAt int) *world {
	t.Helper()
	w := newScaleWorld(t, byName[kind].ref, byName[kind].objects()...)
	w.pool.Spec.Min = 2
	w.made(3)
	w.dieAt = dieAt
	if err := w.scale.Delete(t.Context(), w.pool, w.node("w-1"), replace); (dieAt > 0) != errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	w.restart()
	return w
}

// TestNodeIsRemovedByName kills the program after each write of a removal and restarts it. In the end exactly this
// node's machine is removed. The size is one less, or unchanged after a replacement.
func TestNodeIsRemovedByName(t *testing.T) {
	for kind, c := range byName {
		for _, want := range []struct {
			replace        bool
			size, replicas int
		}{{false, 2, c.replicas}, {true, 3, 3}} {
			writes, going := 2, []string{"w-1"}
			if want.replace && kind == "NodeClaim" { // Karpenter deletes the Node at once
				writes, going = 1, nil
			}
			for dieAt := range writes + 1 {
				t.Run(fmt.Sprintf("%s, %+v, dying after write %d", kind, want, dieAt), func(t *testing.T) {
					w := interrupted(t, kind, want.replace, dieAt)
					for range 3 { // as every reconcile does until the node is gone
						require.NoError(t, w.scale.Delete(t.Context(), w.pool, w.node("w-1"), want.replace))
						w.restart()
					}
					if got := w.going(); !slices.Equal(got, going) {
						t.Errorf("going %v, want %v", got, going)
					}
					if got := w.marked(); !slices.Equal(got, []string{c.machine.GetName()}) {
						t.Errorf("asked to go: %v, want %s", got, c.machine.GetName())
					}
					if size, replicas := w.listed(), replicasOf(t, w.target()); size != want.size || replicas != want.replicas {
						t.Errorf("size %d, %d replicas", size, replicas)
					}
				})
			}
		}
	}
}

// TestSizeChangedMeanwhile: a size that is lowered by hand after it was listed is raised by no more than was decided,
// and no node is removed below the pool's min. Only the request that was not met is withdrawn.
func TestSizeChangedMeanwhile(t *testing.T) {
	type lowered struct {
		world    *world
		provider Provider
		lower    func()
	}
	scale := func(ref v1alpha1.ScaleProvider, objects []client.Object) lowered {
		w := newScaleWorld(t, ref, objects...)
		return lowered{w, w.scale, func() {
			w.update(w.target(), func(u *unstructured.Unstructured) {
				set(u, int64(2), "spec", "replicas")
			})
		}}
	}
	asg, grpc := newASGWorld(t), newGRPCWorld(t)
	for name, c := range map[string]lowered{
		"Machine": scale(deploymentRef, capiObjects()), "NodeClaim": scale(nodePoolRef, karpenterObjects()),
		"ASG": {asg.world, asg.asg, func() { asg.fake.desired = 2 }}, "externalGRPC": {grpc.world, grpc.grpc, func() { grpc.fake.target = 2 }},
	} {
		pool, node := c.world.pool, c.world.node("w-1")
		pool.Spec.Min = 2
		if l, err := c.provider.List(t.Context(), pool); err != nil || l.Target != 3 {
			t.Fatalf("%s: %+v, %v", name, l, err)
		}
		c.lower()
		for what, err := range map[string]error{
			"raised": c.provider.SetSize(t.Context(), pool, 3, 4), "removed": c.provider.Delete(t.Context(), pool, node, false), "withdrawn": c.provider.Withdraw(t.Context(), pool, 3),
		} {
			if !errors.Is(err, ErrStale) {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
		if l, err := c.provider.List(t.Context(), pool); err != nil || l.Target != 2 {
			t.Errorf("%s: %+v, %v", name, l, err)
		}
	}
}

// TestAbandonedRemoval: a removal or a replacement is interrupted after its first write, and pods come. Later ones take
// their own machines alone, each is counted once, and the node that stayed does not count as leaving.
func TestAbandonedRemoval(t *testing.T) {
	for kind, c := range byName {
		for _, replace := range []bool{false, true} {
			if replace && kind == "NodeClaim" {
				continue // it is one write
			}
			w := interrupted(t, kind, replace, 1)
			require.NoError(t, w.scale.SetSize(t.Context(), w.pool, 0, 4))
			if got := w.going(); len(got) != 0 || w.listed() != 4 {
				t.Errorf("%s, replaced %v: going %v of %d", kind, replace, got, w.listed())
			}
			w.made(4)
			var machines []string
			for i, node := range []string{"w-2", "w-1"} {
				require.NoError(t, w.scale.Delete(t.Context(), w.pool, w.node(node), false))
				machines = append([]string{c.machine.GetName()[:2] + node[2:]}, machines...)
				if got := w.marked(); !slices.Equal(got, machines) || w.listed() != 3-i {
					t.Errorf("%s, replaced %v: to go %v, want %v; size %d, want %d", kind, replace, got, machines, w.listed(), 3-i)
				}
			}
		}
	}
}

func TestGrowthWaitsForRemoval(t *testing.T) {
	w := newScaleWorld(t, deploymentRef, capiObjects()...)
	require.NoError(t, w.scale.Delete(t.Context(), w.pool, w.node("w-1"), false))
	if err, got := w.scale.SetSize(t.Context(), w.pool, 0, 3), replicasOf(t, w.target()); !errors.Is(err, ErrBusy) || got != 2 {
		t.Errorf("growing before the Machine is taken: %v, %d replicas", err, got)
	}
	w.update(w.object(kinds[2], "fleet", "m-1"), func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
	require.NoError(t, w.client.Delete(t.Context(), w.object(kinds[2], "fleet", "m-1")))
	require.NoError(t, w.scale.SetSize(t.Context(), w.pool, 0, 5))
	if err := w.scale.SetSize(t.Context(), w.pool, 0, 4); err != nil || w.listed() != 5 {
		t.Errorf("a smaller size took nodes away by count: %v, %d", err, w.listed())
	}
	require.NoError(t, w.scale.Delete(t.Context(), w.pool, w.node("w-2"), false))
	if got := w.target().GetAnnotations()[removingAnnotation]; got != "uid-of-m-2" {
		t.Errorf("removing %q: a Machine that is gone should be off the list", got)
	}
}

// TestMachinePassedOver: the controller removed another Machine, as it may not; the marked one is requested again
// instead of waited for.
func TestMachinePassedOver(t *testing.T) {
	w := newScaleWorld(t, deploymentRef, capiObjects()...)
	require.NoError(t, w.scale.Delete(t.Context(), w.pool, w.node("w-1"), false))
	w.made(2)
	if got := w.going(); len(got) != 0 {
		t.Errorf("going %v: it was passed over", got)
	}
	require.NoError(t, w.scale.Delete(t.Context(), w.pool, w.node("w-1"), false))
	if got := replicasOf(t, w.target()); got != 1 || w.target().GetAnnotations()[removingAnnotation] != "uid-of-m-1" {
		t.Errorf("%d replicas, want 1; removing %s", got, w.target().GetAnnotations()[removingAnnotation])
	}
}

// TestReplicasFollowTheLimit: a limit above the replicas is what Karpenter needs to replace a drifted node.
func TestReplicasFollowTheLimit(t *testing.T) {
	w := newScaleWorld(t, nodePoolRef, karpenterObjects()...)
	remove := func(node string) {
		t.Helper()
		require.NoError(t, w.scale.Delete(t.Context(), w.pool, w.node(node), false))
	}
	remove("w-0")
	remove("w-1") // while c-0 is still going
	if got := replicasOf(t, w.target()); got != 3 {
		t.Errorf("%d replicas while three claims exist", got)
	}
	for _, name := range []string{"c-0", "c-1"} {
		w.update(w.object(kinds[4], "", name), func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
	}
	require.NoError(t, w.scale.SetSize(t.Context(), w.pool, 0, 4))
	limit, _, _ := unstructured.NestedString(w.target().Object, "spec", "limits", "nodes")
	if got, want := replicasOf(t, w.target()), w.listed(); got != 4 || want != 4 || limit != "5" {
		t.Errorf("%d replicas, size %d, limit %s; want 4, 4, 5", got, want, limit)
	}
}

// TestRefusedRemovals: the chosen node is another one by now, or it is uncertain which Machine would go.
func TestRefusedRemovals(t *testing.T) {
	machine := func(name string, change func(u *unstructured.Unstructured)) func(*world, *corev1.Node) {
		return func(w *world, _ *corev1.Node) { w.update(w.object(kinds[2], "fleet", name), change) }
	}
	is := func(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }
	for what, c := range map[string]struct {
		change func(w *world, n *corev1.Node)
		want   func(error) bool
	}{
		"another UID":        {func(_ *world, n *corev1.Node) { n.UID = "older" }, apierrors.IsConflict},
		"another providerID": {func(_ *world, n *corev1.Node) { n.Spec.ProviderID = "fake://older" }, apierrors.IsConflict},
		"changed since": {func(w *world, n *corev1.Node) {
			now := n.DeepCopy()
			now.Labels["x"] = "y"
			require.NoError(w.t, w.client.Update(w.t.Context(), now))
		}, apierrors.IsConflict},
		"a Machine with another providerID": {machine("m-1", func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(u.Object, "fake://other", "spec", "providerID")
		}), is(ErrUnnamed)},
		"a rollout": {machine("m-2", func(u *unstructured.Unstructured) {
			u.SetLabels(map[string]string{machineLabels["MachineDeployment"]: "h100", labelSet: "h100-new"})
		}), is(ErrBusy)},
		"a Machine that is being replaced": {func(w *world, _ *corev1.Node) {
			require.NoError(w.t, w.client.Delete(w.t.Context(), w.object(kinds[2], "fleet", "m-2")))
		}, is(ErrBusy)},
	} {
		w := newScaleWorld(t, deploymentRef, capiObjects()...)
		n := w.node("w-1")
		c.change(w, n)
		if err := w.scale.Delete(t.Context(), w.pool, n, false); !c.want(err) {
			t.Errorf("%s: %v", what, err)
		}
		w.update(w.object(kinds[2], "fleet", "m-2"), func(u *unstructured.Unstructured) { u.SetFinalizers(nil) }) // it goes, if it is being deleted
		if replicasOf(t, w.target()) != 3 || len(w.marked()) != 0 {
			t.Errorf("%s: something was taken away", what)
		}
	}
}

// TestRemovalBesideADeletedMachine: Cluster API counts a Machine that another client deletes, such as a
// MachineHealthCheck, in place of a marked one. While it drains neither goes, and the pool could not grow. A Machine
// that is no replica any more is not counted.
func TestRemovalBesideADeletedMachine(t *testing.T) {
	w := newScaleWorld(t, deploymentRef, capiObjects()...)
	require.NoError(t, w.scale.Delete(t.Context(), w.pool, w.node("w-2"), false))
	require.NoError(t, w.client.Delete(t.Context(), w.object(kinds[2], "fleet", "m-2")))
	w.made(3)
	require.NoError(t, w.scale.Delete(t.Context(), w.pool, w.node("w-1"), false))
	if got := w.going(); !slices.Equal(got, []string{"w-1", "w-2"}) || w.listed() != 1 {
		t.Errorf("going %v of %d, want both", got, w.listed())
	}
}

// TestMarkOfAnother: of two marked Machines Cluster API removes the first by name. Where another client, such as a user or
// cluster-autoscaler before us, has marked one that would go in place of the chosen one, nothing is removed.
func TestMarkOfAnother(t *testing.T) {
	for node, want := range map[string]error{"w-0": nil, "w-1": nil, "w-2": ErrUnnamed} {
		w := newScaleWorld(t, deploymentRef, capiObjects()...)
		w.update(w.object(kinds[2], "fleet", "m-1"), func(u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{deleteMachine: "2026-11-21 09:00:00 +0000 UTC"})
		})
		err := w.scale.Delete(t.Context(), w.pool, w.node(node), false)
		if left := replicasOf(t, w.target()); !errors.Is(err, want) || (err != nil) != (left == 3) {
			t.Errorf("%s: %v, %d replicas; want %v", node, err, left, want)
		}
	}
}

// TestOnDeleteShrinksTheOutdatedSet: a MachineDeployment with the strategy OnDelete has Machines of several MachineSets
// until users delete them. With fewer replicas, a Machine of an outdated set goes. If a change was taken back, that is
// the younger set. Which of two outdated sets shrinks depends on Cluster API's version.
func TestOnDeleteShrinksTheOutdatedSet(t *testing.T) {
	beta1, beta2 := []string{"spec", "strategy", "type"}, []string{"spec", "rollout", "strategy", "type"}
	for name, c := range map[string]struct {
		strategy []string
		sets     [3]string // the MachineSets of m-0 to m-2
		revision string    // the MachineDeployment's, as "new-2" has 2
		lagging  bool      // its controller has not seen it
		want     string    // what can be removed
	}{
		"v1beta1":              {beta1, [3]string{"old-1", "old-1", "new-2"}, "2", false, "w-0 w-1"},
		"v1beta2":              {beta2, [3]string{"old-1", "old-1", "new-2"}, "2", false, "w-0 w-1"},
		"a change taken back":  {beta2, [3]string{"old-1", "old-1", "new-2"}, "1", false, "w-2"},
		"two outdated sets":    {beta2, [3]string{"old-1", "new-2", "new-3"}, "3", false, ""},
		"a change is not seen": {beta2, [3]string{"old-1", "old-1", "new-2"}, "2", true, ""},
	} {
		var removed []string
		for i := range 3 {
			objects := capiObjects()
			for _, set := range []string{"old-1", "new-2", "new-3"} {
				u := object(kinds[1], "fleet", set, nil, map[string]any{})
				u.SetAnnotations(map[string]string{revisionAnnotation: set[len(set)-1:]})
				objects = append(objects, u)
			}
			w := newScaleWorld(t, deploymentRef, objects...)
			for k, set := range c.sets {
				w.update(w.object(kinds[2], "fleet", fmt.Sprintf("m-%d", k)), func(u *unstructured.Unstructured) {
					u.SetLabels(map[string]string{machineLabels["MachineDeployment"]: "h100", labelSet: set})
				})
			}
			w.update(w.target(), func(u *unstructured.Unstructured) {
				u.SetAnnotations(map[string]string{revisionAnnotation: c.revision})
				require.NoError(t, unstructured.SetNestedField(u.Object, "OnDelete", c.strategy...))
				u.SetGeneration(7)
				if !c.lagging {
					require.NoError(t, unstructured.SetNestedField(u.Object, int64(7), "status", "observedGeneration"))
				}
			})
			node := fmt.Sprintf("w-%d", i)
			if err := w.scale.Delete(t.Context(), w.pool, w.node(node), false); err == nil {
				removed = append(removed, node)
			} else if !errors.Is(err, ErrUnnamed) && !errors.Is(err, ErrBusy) || replicasOf(t, w.target()) != 3 || len(w.marked()) != 0 {
				t.Errorf("%s, %s: %v", name, node, err)
			}
		}
		if got := strings.Join(removed, " "); got != c.want {
			t.Errorf("%s: removed %q, want %q", name, got, c.want)
		}
	}
}

// TestProblems are targets that cannot be used: each has field and remedy, and neither scale-up nor
// removal writes anything.
func TestProblems(t *testing.T) {
	annotate := func(key string) func(*world) {
		return func(w *world) {
			w.update(w.target(), func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{key: "1"}) })
		}
	}
	for name, c := range map[string]struct {
		ref                   v1alpha1.ScaleProvider
		change                func(*world)
		reason, field, remedy string
	}{
		"no such object": {ref: v1alpha1.ScaleProvider{APIVersion: deploymentRef.APIVersion, Kind: "MachineDeployment", Namespace: "fleet", Name: "h200"},
			reason: ReasonNoTarget, field: "spec.provider.scale.name", remedy: "create it"},
		"bad version": {ref: v1alpha1.ScaleProvider{APIVersion: "a/b/c", Kind: "Herd", Name: "h"},
			reason: ReasonTarget, field: "spec.provider.scale.apiVersion", remedy: "cluster.x-k8s.io/v1beta2"},
		"no replicas": {ref: deploymentRef, change: func(w *world) {
			w.update(w.target(), func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "replicas") })
		}, reason: ReasonTarget, field: "spec.provider.scale.name", remedy: "set it"},
		"cluster-autoscaler": {ref: deploymentRef, change: annotate(annotationMinSize),
			reason: ReasonForeign, field: "spec.provider.scale.name", remedy: "remove one of them"},
		"managed by another": {ref: deploymentRef, change: annotate(annotationManagedBy),
			reason: ReasonForeign, field: "spec.provider.scale.name", remedy: "remove one of them"},
		"owned": {ref: deploymentRef, change: func(w *world) {
			w.update(w.target(), func(u *unstructured.Unstructured) {
				u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Cluster", Name: "c", UID: "1", Controller: ptr.To(true)}})
			})
		}, reason: ReasonForeign, field: "spec.provider.scale.name", remedy: "remove one of them"},
		"paused": {ref: deploymentRef, change: annotate(annotationPaused),
			reason: ReasonTarget, field: "spec.provider.scale.name", remedy: "unpause"},
		"its Cluster is paused": {ref: deploymentRef, change: func(w *world) {
			w.update(w.target(), func(u *unstructured.Unstructured) {
				_ = unstructured.SetNestedSlice(u.Object, []any{map[string]any{"type": "Available", "status": "True"}, map[string]any{"type": "Paused", "status": "True"}}, "status", "conditions")
			})
		}, reason: ReasonTarget, field: "spec.provider.scale.name", remedy: "unpause"},
		"its Cluster is paused, in v1beta1": {ref: deploymentRef, change: func(w *world) {
			w.update(w.target(), func(u *unstructured.Unstructured) {
				_ = unstructured.SetNestedSlice(u.Object, []any{map[string]any{"type": "Paused", "status": "True"}}, "status", "v1beta2", "conditions")
			})
		}, reason: ReasonTarget, field: "spec.provider.scale.name", remedy: "unpause"},
		"a limit below zero": {ref: nodePoolRef, change: func(w *world) {
			w.update(w.target(), func(u *unstructured.Unstructured) {
				_ = unstructured.SetNestedField(u.Object, "-1", "spec", "limits", "nodes")
			})
		}, reason: ReasonTarget, field: "spec.provider.scale.name", remedy: "write a number"},
		"dynamic NodePool": {ref: nodePoolRef, change: func(w *world) {
			w.update(w.target(), func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "replicas") })
		}, reason: ReasonForeign, field: "spec.provider.scale.name", remedy: "remove one of them"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newScaleWorld(t, c.ref, append(capiObjects(), karpenterObjects()[3:]...)...)
			if c.change != nil {
				c.change(w)
			}
			_, listed := w.scale.List(t.Context(), w.pool)
			for what, err := range map[string]error{
				"List": listed, "SetSize": w.scale.SetSize(t.Context(), w.pool, 0, 5),
				"Delete": w.scale.Delete(t.Context(), w.pool, w.node("w-1"), false),
			} {
				p := (*Problem)(nil)
				if !errors.As(err, &p) {
					t.Fatalf("%s: %v, want a Problem", what, err)
				}
				if p.Reason != c.reason || p.Field != c.field || !strings.Contains(p.Remedy, c.remedy) || p.What == "" {
					t.Errorf("%s: %s (%s)", what, p, p.Reason)
				}
			}
			if w.writes != 0 {
				t.Errorf("%d writes", w.writes)
			}
		})
	}
}

// TestMemoAfterWrites: the result of a successful write is known without a call; after a failed one the target is read
// again.
func TestMemoAfterWrites(t *testing.T) {
	w := newScaleWorld(t, deploymentRef, capiObjects()...)
	if w.listed() != 3 {
		t.Fatal(w.listed())
	}
	w.update(w.target(), func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(u.Object, int64(4), "spec", "replicas")
	})
	if got := w.listed(); got != 3 {
		t.Errorf("the API server is asked every time: %d", got)
	}
	if err := w.scale.SetSize(t.Context(), w.pool, 0, 6); err != nil || w.listed() != 6 || w.lists != 0 {
		t.Errorf("our own size is not seen: %d, %v; %d lists of machines, and none is leaving", w.listed(), err, w.lists)
	}
	replicas := func(n int64) {
		w.update(w.target(), func(u *unstructured.Unstructured) { _ = unstructured.SetNestedField(u.Object, n, "spec", "replicas") })
	}
	if replicas(7); w.listed() != 6 {
		t.Errorf("asked again after a write whose answer says all: %d", w.listed())
	}
	w.dieAt = w.writes + 1
	if err := w.scale.SetSize(t.Context(), w.pool, 0, 8); err == nil || w.listed() != 8 {
		t.Errorf("after a write without an answer: %d, %v", w.listed(), err)
	}
	if err := w.scale.SetSize(t.Context(), w.pool, 0, 5); err != nil || w.listed() != 8 {
		t.Errorf("a smaller size than there is: %d, %v", w.listed(), err)
	}
	changed := w.pool.DeepCopy()
	changed.Generation++
	changed.Spec.Provider.Scale.Name = "none"
	if _, err := w.scale.List(t.Context(), changed); err == nil {
		t.Error("another spec gets the answer of the one before")
	}
	again := changed.DeepCopy()
	again.UID, again.Spec.Provider.Scale.Name = "another", w.target().GetName()
	if _, err := w.scale.List(t.Context(), again); err != nil {
		t.Errorf("a pool created again gets the answer of the one before: %v", err)
	}
}

// TestOverflowingLimitIsNoLimit: a limit on nodes that overflows an int64 is no limit.
func TestOverflowingLimitIsNoLimit(t *testing.T) {
	u := karpenterObjects()[3].(*unstructured.Unstructured)
	require.NoError(t, unstructured.SetNestedField(u.Object, "70017000000000000000000", "spec", "limits", "nodes"))
	if n, err := (karpenter{}).size(target{object: u}, nil); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// TestMachinePoolsOnlyScaleUp: the infrastructure of a MachinePool lowers the size of a group of the cloud, which
// chooses the instance that goes, with or without Machines. Listing reports that, so that no node is cordoned and
// drained while another one would go.
func TestMachinePoolsOnlyScaleUp(t *testing.T) {
	ref := v1alpha1.ScaleProvider{APIVersion: capiGroup + "/v1beta2", Kind: kindMachinePool, Namespace: "fleet", Name: "mp"}
	objects := append(members(), object(kinds[5], "fleet", "mp", nil, map[string]any{"spec": map[string]any{"replicas": int64(3)}}))
	for i := range 3 {
		node := fmt.Sprintf("w-%d", i)
		objects = append(objects, object(kinds[2], "fleet", "m-"+node, map[string]string{"cluster.x-k8s.io/pool-name": "mp"}, map[string]any{
			"spec": map[string]any{"providerID": "fake://" + node}, "status": map[string]any{"nodeRef": map[string]any{"name": node}},
		}))
	}
	w := newScaleWorld(t, ref, objects...)
	l, err := w.scale.List(t.Context(), w.pool)
	if err != nil || l.Target != 3 || !l.Unnamed {
		t.Errorf("%+v, %v", l, err)
	}
	node := w.node("w-1")
	for what, err := range map[string]error{"removed": w.scale.Delete(t.Context(), w.pool, node, false), "replaced": w.scale.Delete(t.Context(), w.pool, node, true)} {
		if !errors.Is(err, ErrUnnamed) || w.writes != 0 {
			t.Errorf("%s: %v, %d writes", what, err, w.writes)
		}
	}
	if err := w.scale.SetSize(t.Context(), w.pool, 0, 5); err != nil || replicasOf(t, w.target()) != 5 {
		t.Errorf("scale-up: %v, %d replicas", err, replicasOf(t, w.target()))
	}
}

// TestWithdraw: the size is lowered by the named machines that have no node. No node goes.
func TestWithdraw(t *testing.T) {
	for kind, c := range byName {
		for name, test := range map[string]struct {
			without, unmade int  // machines without a node, and replicas that have no machine
			going           bool // those are already being deleted
			unnoticed       bool // the node of the third has joined, and its machine does not name it yet
		}{
			"no stock": {without: 2}, "no machine is made": {unmade: 2}, "all is met": {}, "one has joined": {without: 2, unnoticed: true},
			"one cannot be deleted": {without: 1, unmade: 2, going: true},
		} {
			t.Run(kind+", "+name, func(t *testing.T) {
				objects := c.objects()
				for i := range test.without {
					m := object(kinds[2], "fleet", fmt.Sprintf("new-%d", i), map[string]string{machineLabels["MachineDeployment"]: "h100", labelSet: "h100-abc"}, map[string]any{})
					if kind == "NodeClaim" {
						m = object(kinds[4], "", fmt.Sprintf("new-%d", i), map[string]string{labelKarpenterFor: "h100"}, map[string]any{})
					}
					m.SetFinalizers([]string{"karpenter.sh/termination"})
					objects = append(objects, m)
				}
				w := newScaleWorld(t, c.ref, objects...)
				w.update(w.target(), func(u *unstructured.Unstructured) {
					set(u, int64(3+test.without+test.unmade), "spec", "replicas")
				})
				if test.going {
					require.NoError(t, w.client.Delete(t.Context(), objects[len(objects)-1]))
				}
				if test.unnoticed {
					w.update(w.object(c.machine.GroupVersionKind(), c.machine.GetNamespace(), c.machine.GetName()), func(u *unstructured.Unstructured) {
						unstructured.RemoveNestedField(u.Object, "status", "nodeRef")
						unstructured.RemoveNestedField(u.Object, "status", "nodeName")
					})
				}
				w.restart()
				h := NewHistory(func() time.Time { return testNow })
				h.Asked(w.pool, nil)
				require.NoError(t, (Providers{Scale: w.scale, History: h}).Withdraw(t.Context(), w.pool, w.listed()))
				var want []string
				for i := range test.without {
					want = append(want, fmt.Sprintf("new-%d", i))
				}
				if size, gone := w.listed(), w.marked(); size != 3 || !slices.Equal(gone, want) {
					t.Errorf("size %d, want 3; going %v, want %v", size, gone, want)
				}
				if l := h.Seen(w.pool, 3, nil); l.Failures != 1 {
					t.Errorf("%d failures: the pool would request the same again at once", l.Failures)
				}
			})
		}
	}
}

// TestWithdrawBesideARemoval: where some replicas have no Machine yet, a Machine that is marked for removal does not
// stay: at the size without it, Cluster API removes it.
func TestWithdrawBesideARemoval(t *testing.T) {
	w := newScaleWorld(t, deploymentRef, capiObjects()...)
	w.update(w.target(), func(u *unstructured.Unstructured) {
		set(u, int64(6), "spec", "replicas")
	})
	require.NoError(t, w.scale.Delete(t.Context(), w.pool, w.node("w-1"), false))
	require.NoError(t, w.scale.Withdraw(t.Context(), w.pool, w.listed()))
	if got := replicasOf(t, w.target()); got != 2 || !slices.Equal(w.going(), []string{"w-1"}) {
		t.Errorf("%d replicas, going %v", got, w.going())
	}
}

// TestWithdrawBesideAnOutdatedSet: while replicas of the current MachineSet have no Machine, fewer replicas would
// remove Machines of the outdated one, which have nodes.
func TestWithdrawBesideAnOutdatedSet(t *testing.T) {
	for _, newer := range []string{"h100-abc", "h100-new"} { // m-2's
		machineSet := object(kinds[1], "fleet", "h100-new", nil, map[string]any{})
		machineSet.SetAnnotations(map[string]string{revisionAnnotation: "2"})
		w := newScaleWorld(t, deploymentRef, append(capiObjects(), machineSet)...)
		w.update(w.object(kinds[2], "fleet", "m-2"), func(u *unstructured.Unstructured) {
			u.SetLabels(map[string]string{machineLabels["MachineDeployment"]: "h100", labelSet: newer})
		})
		w.update(w.target(), func(u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{revisionAnnotation: "2"})
			set(u, int64(5), "spec", "replicas")
		})
		if err := w.scale.Withdraw(t.Context(), w.pool, 5); !errors.Is(err, ErrUnnamed) || replicasOf(t, w.target()) != 5 {
			t.Errorf("%v, %d replicas", err, replicasOf(t, w.target()))
		}
	}
}

// TestTopologyOwnsReplicas: the replicas of a MachineDeployment that the Cluster's topology owns
// would be reset. (The fake client keeps no managedFields, so the function is called directly.)
func TestTopologyOwnsReplicas(t *testing.T) {
	for fields, want := range map[string]bool{
		`{"f:spec":{"f:replicas":{},"f:template":{}}}`: true,
		`{"f:spec":{"f:template":{}}}`:                 false,
		`{"f:metadata":{}}`:                            false,
		`broken`:                                       false,
		`{"f:spec":null}`:                              false,
		`{"f:spec":[]}`:                                false,
	} {
		u := capiObjects()[3].(*unstructured.Unstructured)
		u.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: topologyManager, FieldsV1: metav1.NewFieldsV1(fields)}, {Manager: topologyManager}})
		// Cluster API sets a MachineDeployment to 1 when its replicas are removed from the topology.
		if who := (clusterAPI{}).foreign(target{object: u}); strings.Contains(who, "set it to 1") != want {
			t.Errorf("%s: %q", fields, who)
		}
	}
}

// TestInstanceIsReplaced: the group keeps its size, so it starts another instance.
func TestInstanceIsReplaced(t *testing.T) {
	w := newASGWorld(t)
	w.fake.min, w.fake.desired = 2, 2 // another has lowered it
	for range 3 {
		require.NoError(t, w.asg.Delete(t.Context(), w.pool, w.node("w-1"), true))
	}
	if got := w.states(); got != "InService Terminating InService" || w.fake.desired != 2 {
		t.Errorf("instances %s, the group requests %d", got, w.fake.desired)
	}
}

// failing is a provider whose every resize returns an error.
type failing struct {
	Provider
	err error
}

func (f failing) SetSize(context.Context, *v1alpha1.GPUNodePool, int, int) error { return f.err }

// TestAPIServerErrorsAreNoFailures: a short outage of the API server causes no backoff of a pool. One that lasts does:
// with Cluster API's webhook down, say, reads succeed and each write is an internal error.
func TestAPIServerErrorsAreNoFailures(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}
	scale := v1alpha1.Provider{Scale: &deploymentRef}
	asg := v1alpha1.Provider{ASG: &v1alpha1.ASGProvider{}}
	for _, test := range []struct {
		name     string
		provider v1alpha1.Provider
		err      error
		failures int
	}{
		{"500", scale, apierrors.NewInternalError(errors.New("etcd")), 0},
		{"503", scale, apierrors.NewServiceUnavailable("starting"), 0},
		{"429", scale, apierrors.NewTooManyRequests("busy", 1), 0},
		{"504", scale, apierrors.NewTimeoutError("slow", 1), 0},
		{"the connection breaks", scale, &url.Error{Op: "Post", URL: "x", Err: io.EOF}, 0},
		{"refused", scale, apierrors.NewForbidden(nodes, "n", errors.New("no quota")), 1},
		{"bad", scale, apierrors.NewBadRequest("bad"), 1},
		{"AWS does not answer", asg, &url.Error{Op: "Post", URL: "x", Err: io.EOF}, 1},
	} {
		now := testNow
		h := NewHistory(func() time.Time { return now })
		failing := failing{err: fmt.Errorf("making node n: %w", test.err)}
		p := Providers{Scale: failing, ASG: failing, History: h}
		pool := &v1alpha1.GPUNodePool{Spec: v1alpha1.GPUNodePoolSpec{Provider: test.provider}}
		pool.Name = "p"
		if err := p.SetSize(t.Context(), pool, 0, 1); err == nil {
			t.Fatal("no error")
		}
		if got := p.Learn(pool, 0, []*corev1.Node{}).Failures; got != test.failures {
			t.Errorf("%s: %d failures, want %d", test.name, got, test.failures)
		}
		for range 61 { // a request a second
			_ = p.SetSize(t.Context(), pool, 0, 1)
			now = now.Add(time.Second)
		}
		if p.Learn(pool, 0, []*corev1.Node{}).Failures == 0 {
			t.Errorf("%s: no failure within a minute", test.name)
		}
	}
}

// world is a cluster with three nodes, w-0 to w-2, made by one scale target. The tests play the
// target's controller; the real control plane and an independent controller are in
// sandbox/neighbours.
type world struct {
	t      *testing.T
	client client.WithWatch
	scale  *Scale
	pool   *v1alpha1.GPUNodePool
	// dieAt is the number of the last write, from 1, before the program dies: 0 for never.
	dieAt, writes int
	lists         int
}

var errKilled = errors.New("killed")

// after counts a write; the one at which the program dies takes effect, but its result is lost.
func (w *world) after() error {
	w.writes++
	if w.writes == w.dieAt {
		return errKilled
	}
	return nil
}

var kinds = []schema.GroupVersionKind{
	{Group: capiGroup, Version: "v1beta2", Kind: "MachineDeployment"},
	{Group: capiGroup, Version: "v1beta2", Kind: "MachineSet"},
	{Group: capiGroup, Version: "v1beta2", Kind: "Machine"},
	{Group: karpenterGroup, Version: "v1", Kind: "NodePool"},
	{Group: karpenterGroup, Version: "v1", Kind: "NodeClaim"},
	{Group: capiGroup, Version: "v1beta2", Kind: kindMachinePool},
}

func newScaleWorld(t *testing.T, ref v1alpha1.ScaleProvider, objects ...client.Object) *world {
	t.Helper()
	types := scheme.New()
	for _, gvk := range kinds {
		types.AddKnownTypeWithName(gvk, &unstructured.Unstructured{})
		types.AddKnownTypeWithName(gvk.GroupVersion().WithKind(gvk.Kind+"List"), &unstructured.UnstructuredList{})
	}
	w := &world{t: t}
	w.client = kubefake.New(types).WithObjects(objects...).
		WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				w.lists++
				return c.List(ctx, list, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				if err := c.Patch(ctx, o, p, opts...); err != nil {
					return err
				}
				return w.after()
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				if err := c.Delete(ctx, o, opts...); err != nil {
					return err
				}
				return w.after()
			},
		}).Build()
	w.pool = testPool()
	w.pool.Spec.Provider = v1alpha1.Provider{Scale: &ref}
	w.restart()
	return w
}

// restart is a new process without any cached state.
func (w *world) restart() { w.scale = NewScale(w.client, w.client) }

func (w *world) node(name string) *corev1.Node {
	w.t.Helper()
	var n corev1.Node
	require.NoError(w.t, w.client.Get(w.t.Context(), client.ObjectKey{Name: name}, &n))
	return &n
}

func (w *world) target() *unstructured.Unstructured {
	w.t.Helper()
	ref := w.pool.Spec.Provider.Scale
	return w.object(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind), ref.Namespace, ref.Name)
}

func (w *world) object(gvk schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	w.t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	require.NoError(w.t, w.client.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, u))
	return u
}

// marked are the machines that are marked for removal.
func (w *world) marked() (out []string) {
	w.t.Helper()
	for _, kind := range []schema.GroupVersionKind{kinds[2], kinds[4]} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		require.NoError(w.t, w.client.List(w.t.Context(), list))
		for _, m := range list.Items {
			if _, ok := m.GetAnnotations()[deleteMachine]; ok || m.GetDeletionTimestamp() != nil {
				out = append(out, m.GetName())
			}
		}
	}
	return out
}

func (w *world) listing() Listing {
	w.t.Helper()
	l, err := w.scale.List(w.t.Context(), w.pool)
	require.NoError(w.t, err)
	return l
}

// made has the target's controller report as many machines as it has requested.
func (w *world) made(n int64) {
	w.update(w.target(), func(u *unstructured.Unstructured) {
		u.Object["status"] = map[string]any{"replicas": n, "observedGeneration": u.GetGeneration()}
	})
}

func (w *world) listed() int     { return w.listing().Target }
func (w *world) going() []string { return w.listing().Going }

func (w *world) update(o client.Object, change func(u *unstructured.Unstructured)) {
	w.t.Helper()
	u := o.(*unstructured.Unstructured)
	change(u)
	require.NoError(w.t, w.client.Update(w.t.Context(), u))
}

func object(gvk schema.GroupVersionKind, namespace, name string, labels map[string]string, fields map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: fields}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetUID(types.UID("uid-of-" + name))
	u.SetLabels(labels)
	return u
}

func members() []client.Object {
	var out []client.Object
	for i := range 3 {
		name := fmt.Sprintf("w-%d", i)
		out = append(out, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name), Labels: map[string]string{v1alpha1.NodePoolLabel: "p"}},
			Spec:       corev1.NodeSpec{ProviderID: "fake://" + name},
			Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}},
		})
	}
	return out
}

var deploymentRef = v1alpha1.ScaleProvider{APIVersion: capiGroup + "/v1beta2", Kind: "MachineDeployment", Namespace: "fleet", Name: "h100"}

// capiObjects are a MachineDeployment of three, its MachineSet, its Machines and their nodes.
func capiObjects() []client.Object {
	out := append(members(), object(kinds[0], "fleet", "h100", nil, map[string]any{"spec": map[string]any{"replicas": int64(3)}}))
	for i := range 3 {
		node := fmt.Sprintf("w-%d", i)
		machine := object(kinds[2], "fleet", fmt.Sprintf("m-%d", i), map[string]string{machineLabels["MachineDeployment"]: "h100", labelSet: "h100-abc"}, map[string]any{
			"spec":   map[string]any{"providerID": "fake://" + node},
			"status": map[string]any{"nodeRef": map[string]any{"name": node}},
		})
		machine.SetFinalizers([]string{"machine.cluster.x-k8s.io"})
		out = append(out, machine)
	}
	return append(out, object(kinds[1], "fleet", "h100-abc", nil, map[string]any{}))
}

var nodePoolRef = v1alpha1.ScaleProvider{APIVersion: karpenterGroup + "/v1", Kind: "NodePool", Name: "h100"}

// karpenterObjects are a static NodePool of three, its NodeClaims and their nodes.
func karpenterObjects() []client.Object {
	out := append(members(), object(kinds[3], "", "h100", nil, map[string]any{"spec": map[string]any{"replicas": int64(3)}}))
	for i := range 3 {
		node := fmt.Sprintf("w-%d", i)
		claim := object(kinds[4], "", fmt.Sprintf("c-%d", i), map[string]string{labelKarpenterFor: "h100"}, map[string]any{
			"status": map[string]any{"nodeName": node, "providerID": "fake://" + node},
		})
		claim.SetFinalizers([]string{"karpenter.sh/termination"})
		out = append(out, claim)
	}
	return out
}
