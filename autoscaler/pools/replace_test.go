package pools

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// TestReplacedInOneStep: the machine behind the node goes and the size that is asked
// for stays, whichever write is the last of a process that dies.
func TestReplacedInOneStep(t *testing.T) {
	for kind, c := range map[string]struct {
		ref     v1alpha1.ScaleProvider
		objects func() []client.Object
		goes    func(*world) bool
	}{
		"Machine":   {deploymentRef, capiObjects, func(w *world) bool { return w.goes(kinds[2], "fleet", "m-1") }},
		"NodeClaim": {nodePoolRef, karpenterObjects, func(w *world) bool { return w.goes(kinds[4], "", "c-1") }},
	} {
		for dieAt := range 3 {
			w := newScaleWorld(t, c.ref, c.objects()...)
			want := replicasOf(t, w.target())
			// Its controller is done with what was asked of it so far.
			w.update(w.target(), func(u *unstructured.Unstructured) {
				_ = unstructured.SetNestedField(u.Object, int64(want), "status", "replicas")
			})
			w.writes, w.dieAt = 0, dieAt
			err := w.scale.Replace(t.Context(), w.pool, w.node("w-1"))
			if (dieAt > 0) != errors.Is(err, errKilled) {
				t.Fatalf("%s, dying after write %d: %v", kind, dieAt, err)
			}
			w.restart()
			if err := w.scale.Replace(t.Context(), w.pool, w.node("w-1")); err != nil && !errors.Is(err, ErrUnnamed) {
				t.Fatalf("%s, after dying after write %d: %v", kind, dieAt, err)
			}
			if got := replicasOf(t, w.target()); got != want {
				t.Errorf("%s, after dying after write %d: %d replicas, want %d as before", kind, dieAt, got, want)
			}
			if !c.goes(w) {
				t.Errorf("%s, after dying after write %d: it stays", kind, dieAt)
			}
		}
	}
}

// goes reports an object that is gone, or on its way.
func (w *world) goes(gvk schema.GroupVersionKind, namespace, name string) bool {
	u := object(gvk, namespace, name, nil, nil)
	err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(u), u)
	return apierrors.IsNotFound(err) || err == nil && u.GetDeletionTimestamp() != nil
}

// TestInstanceIsReplaced: the group keeps its size, so it starts another one.
func TestInstanceIsReplaced(t *testing.T) {
	w := newASGWorld(t)
	for range 3 {
		if err := w.asg.Replace(t.Context(), w.pool, w.node("w-1")); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.states(); got != "InService Terminating InService" || w.double.desired != 3 {
		t.Errorf("instances %s, the group wants %d", got, w.double.desired)
	}
	other := w.node("w-2")
	other.UID = "older"
	if err := w.asg.Replace(t.Context(), w.pool, other); !apierrors.IsConflict(err) {
		t.Errorf("another node of the name: %v", err)
	}
}

// TestWhoCannotReplace: the caller is told that nothing was done.
func TestWhoCannotReplace(t *testing.T) {
	pool := &v1alpha1.GPUNodePool{}
	pool.Spec.Provider.KWOK = &v1alpha1.KWOKProvider{}
	err := Providers{KWOK: &KWOK{}}.Replace(t.Context(), pool, &corev1.Node{})
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}
