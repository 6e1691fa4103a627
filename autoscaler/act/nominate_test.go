package act

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/plan"
)

// TestPromise: what is taken back is kept for the pod that it is taken back for, and
// for nobody else, until it is bound. What kube-scheduler makes of it is tried in
// sandbox/rails.
func TestPromise(t *testing.T) {
	for name, c := range map[string]struct {
		waits  *corev1.Pod
		change func(*world)
		want   string
	}{
		"it waits":                {waits: replica("b", ""), want: "p-1"},
		"it is bound by now":      {waits: replica("b", "p-2")},
		"the scheduler named one": {waits: nominated(replica("b", ""), "p-7"), want: "p-7"},
		"another of its name":     {waits: replica("b", ""), change: func(w *world) { w.snap.Pods[1].UID = "uid-of-before" }},
		"it is still to be made":  {waits: replica("b", ""), change: func(w *world) { w.snap.Pods[1].UID = "" }},
		"it is off":               {waits: replica("b", ""), change: func(w *world) { w.actor.o.Nominate = false }},
		"nobody leaves":           {waits: replica("b", ""), change: func(w *world) { w.actor.o.Policy.MaxEvictionsPerRound = 0 }},
		"dry run":                 {waits: replica("b", ""), change: func(w *world) { w.actor.o.DryRun = true }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.Nominate = true }, replica("a", "p-1"), c.waits)
			w.snap.Pods = []plan.Pod{
				{Namespace: "ns", Name: "a", Node: "p-1", Created: start, Evictable: true},
				{Namespace: "ns", Name: "b", UID: string(c.waits.UID), Created: start},
			}
			if c.change != nil {
				c.change(w)
			}
			w.do(plan.Action{Verb: plan.Reclaim, Pool: "p", Node: "p-1", Pod: "ns/a", Reason: plan.ReclaimBorrowed, For: []string{"ns/b"}})
			if got := w.nominatedTo("b"); got != c.want {
				t.Errorf("nominated to %q, want %q", got, c.want)
			}
		})
	}
}

// TestPromisesAreKept: a nomination that the scheduler has forgotten is made again
// each round, until the pod is bound, has gone, or has waited for too long.
func TestPromisesAreKept(t *testing.T) {
	for name, c := range map[string]struct {
		then func(*world)
		want string
	}{
		"it still waits":     {func(*world) {}, "p-1"},
		"it is bound":        {func(w *world) { w.snap.Pods[0].Node = "p-1" }, ""},
		"it has gone":        {func(w *world) { w.snap.Pods = nil }, ""},
		"that was long ago":  {func(w *world) { w.snap.Now = w.snap.Now.Add(promiseLasts + time.Second) }, ""},
		"that was some time": {func(w *world) { w.snap.Now = w.snap.Now.Add(promiseLasts - time.Second) }, "p-1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.Nominate = true }, replica("a", "p-1"), replica("b", ""))
			w.snap.Pods = []plan.Pod{
				{Namespace: "ns", Name: "b", UID: "uid-b", Created: start},
				{Namespace: "ns", Name: "a", Node: "p-1", Created: start, Evictable: true},
			}
			w.do(plan.Action{Verb: plan.Reclaim, Pool: "p", Node: "p-1", Pod: "ns/a", Reason: plan.ReclaimBorrowed, For: []string{"ns/b"}})
			patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"nominatedNodeName":null}}`))
			if err := w.client.Status().Patch(t.Context(), replica("b", ""), patch); err != nil {
				t.Fatal(err)
			}
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

// TestPromiseIsBroken: where nobody leaves after all, nothing is kept any longer.
func TestPromiseIsBroken(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Nominate = true }, replica("a", "p-1"), replica("b", ""))
	w.full["a"] = true
	w.snap.Pods = []plan.Pod{
		{Namespace: "ns", Name: "a", Node: "p-1", Created: start, Evictable: true},
		{Namespace: "ns", Name: "b", UID: "uid-b", Created: start},
	}
	w.want(Refused, plan.Action{Verb: plan.Reclaim, Pool: "p", Node: "p-1", Pod: "ns/a", Reason: plan.ReclaimBorrowed, For: []string{"ns/b"}})
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
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "ns", Name: pod}, &p); err != nil {
		w.t.Fatal(err)
	}
	return p.Status.NominatedNodeName
}
