package act

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/plan"
)

// newPromise is a world in which pod ns/a is evicted for pod ns/b, and the action for it.
func newPromise(t *testing.T, waits *corev1.Pod) (*world, plan.Action) {
	t.Helper()
	w := newWorld(t, func(o *Options) { o.Nominate = true }, replica("a", "p-1"), waits)
	w.snap.Pods = []plan.Pod{
		{Namespace: "ns", Name: "b", UID: string(waits.UID), Created: start},
		{Namespace: "ns", Name: "a", Node: "p-1", Created: start, Evictable: true},
	}
	return w, plan.Action{Verb: plan.Reclaim, Pool: "p", Node: "p-1", Pod: "ns/a", Reason: plan.ReclaimBorrowed, For: []string{"ns/b"}}
}

// TestPromise: reclaimed capacity is reserved for the pod it is reclaimed for, until that
// is bound. sandbox/guardrails tests it with kube-scheduler.
func TestPromise(t *testing.T) {
	for name, c := range map[string]struct {
		waits  *corev1.Pod
		change func(*world)
		want   string
	}{
		"it is pending":           {waits: replica("b", ""), want: "p-1"},
		"it is bound by now":      {waits: replica("b", "p-2")},
		"the scheduler named one": {waits: nominated(replica("b", ""), "p-7"), want: "p-7"},
		"another of its name":     {waits: replica("b", ""), change: func(w *world) { w.snap.Pods[0].UID = "uid-of-before" }},
		"it is not created yet":   {waits: replica("b", ""), change: func(w *world) { w.snap.Pods[0].UID = "" }},
		"it is off":               {waits: replica("b", ""), change: func(w *world) { w.actor.o.Nominate = false }},
		"no pod is evicted":       {waits: replica("b", ""), change: func(w *world) { w.actor.o.Policy.MaxEvictionsPerReconcile = 0 }},
		"dry run":                 {waits: replica("b", ""), change: func(w *world) { w.actor.o.DryRun = true }},
	} {
		t.Run(name, func(t *testing.T) {
			w, reclaim := newPromise(t, c.waits)
			if c.change != nil {
				c.change(w)
			}
			w.do(reclaim)
			if got := w.nominatedTo("b"); got != c.want {
				t.Errorf("nominated to %q, want %q", got, c.want)
			}
		})
	}
}

// TestPromisesAreKept: a nomination that the scheduler has cleared is written again each
// reconcile, until the pod is bound or deleted, or the promise has expired.
func TestPromisesAreKept(t *testing.T) {
	for name, c := range map[string]struct {
		then func(*world)
		want string
	}{
		"it is still pending":   {func(*world) {}, "p-1"},
		"it is bound":           {func(w *world) { w.snap.Pods[0].Node = "p-1" }, ""},
		"it is deleted":         {func(w *world) { w.snap.Pods = nil }, ""},
		"it has expired":        {func(w *world) { w.snap.Now = w.snap.Now.Add(promiseLasts + time.Second) }, ""},
		"it is about to expire": {func(w *world) { w.snap.Now = w.snap.Now.Add(promiseLasts - time.Second) }, "p-1"},
	} {
		t.Run(name, func(t *testing.T) {
			w, reclaim := newPromise(t, replica("b", ""))
			w.do(reclaim)
			patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"nominatedNodeName":null}}`))
			w.must(w.client.Status().Patch(t.Context(), replica("b", ""), patch))
			c.then(w)
			for range 2 {
				w.actor.Apply(t.Context(), w.snap, plan.Plan{})
			}
			if got := w.nominatedTo("b"); got != c.want {
				t.Errorf("nominated to %q, want %q", got, c.want)
			}
			if kept := len(w.actor.promises); kept != 0 && c.want == "" || kept != 1 && c.want != "" {
				t.Errorf("%d promises are remembered", kept)
			}
		})
	}
}

// TestPromiseIsBroken: if the eviction is refused, the promise is forgotten.
func TestPromiseIsBroken(t *testing.T) {
	w, reclaim := newPromise(t, replica("b", ""))
	w.full["a"] = true
	w.want(Refused, reclaim)
	if len(w.actor.promises) != 0 {
		t.Errorf("still promised: %v", w.actor.promises)
	}
}

func nominated(p *corev1.Pod, node string) *corev1.Pod {
	p.Status.NominatedNodeName = node
	return p
}

func (w *world) nominatedTo(pod string) string {
	w.t.Helper()
	var p corev1.Pod
	w.must(w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "ns", Name: pod}, &p))
	return p.Status.NominatedNodeName
}
