package pools

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestReplacedInOneStep: the node's machine is deleted and the size stays, whichever write is the
// last of a process that dies.
func TestReplacedInOneStep(t *testing.T) {
	for kind, c := range byName {
		for dieAt := range 3 {
			w := newScaleWorld(t, c.ref, c.objects()...)
			want := replicasOf(t, w.target())
			// Its controller has finished all earlier requests.
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
			if !w.goes(c.machine) {
				t.Errorf("%s, after dying after write %d: it stays", kind, dieAt)
			}
		}
	}
}

// goes reports whether an object is gone, or being deleted.
func (w *world) goes(machine *unstructured.Unstructured) bool {
	u := machine.DeepCopy()
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
	if got := w.states(); got != "InService Terminating InService" || w.fake.desired != 3 {
		t.Errorf("instances %s, the group requests %d", got, w.fake.desired)
	}
	other := w.node("w-2")
	other.UID = "older"
	if err := w.asg.Replace(t.Context(), w.pool, other); !apierrors.IsConflict(err) {
		t.Errorf("another node of the name: %v", err)
	}
}
