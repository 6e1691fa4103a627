package act

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/plan"
)

func (w *world) nodes() []string {
	w.t.Helper()
	var list corev1.NodeList
	w.must(w.client.List(w.t.Context(), &list))
	var names []string
	for _, n := range list.Items {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return names
}

// settled lets the delay from a cordon to a removal pass.
func (w *world) settled() { w.snap.Now = w.snap.Now.Add(plan.RemoveDelay) }

// TestRemovalSettles: bindings under way ignore a cordon, so a node is removed only some time
// after it, also by the next leader; a pod that was bound in between keeps it.
func TestRemovalSettles(t *testing.T) {
	remove := plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: "p-1"}
	w := newWorld(t, nil)
	w.want(Waiting, remove)
	drain, ok, err := v1alpha1.DrainOf(w.node())
	if n := w.node(); !n.Spec.Unschedulable || !ok || err != nil || !drain.Started.Equal(start) || drain.Reason != string(plan.NodeEmpty) {
		t.Fatalf("cordoned %v, drain %+v, %v, %v", n.Spec.Unschedulable, drain, ok, err)
	}
	w.snap.Now = start.Add(plan.RemoveDelay - 1)
	w.actor = New(*w.actor.o) // a restart
	w.want(Waiting, remove)
	w.must(w.client.Create(t.Context(), replica("late", "p-1")))
	w.settled()
	w.want(Refused, remove)
	w.must(w.client.Delete(t.Context(), replica("late", "p-1")))
	edit(w, testNode(), func(n *corev1.Node) { n.Spec.Unschedulable = false }) // by hand, so it settles again
	w.want(Waiting, remove)
	w.must(w.client.Create(t.Context(), replica("late", "p-1")))
	w.settled()
	w.want(Refused, remove)
	if got := w.nodes(); !slices.Equal(got, []string{"p-1"}) {
		t.Fatalf("nodes %v: a pod is on it", got)
	}
	w.want(Done, plan.Action{Verb: plan.Uncordon, Pool: "p", Node: "p-1"}) // what the planner has next
	w.inService()
}

// TestStuckPod: a pod that has not left long after its grace period does not keep its node.
func TestStuckPod(t *testing.T) {
	remove := plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: "p-1"}
	w := newWorld(t, nil, overdue(plan.StuckAfter))
	w.want(Waiting, remove)
	w.settled()
	w.want(Done, remove)
	if got := w.nodes(); len(got) > 0 {
		t.Errorf("nodes %v", got)
	}
}

// overdue is a terminating pod on p-1 that was to have left so long before start.
func overdue(by time.Duration) *corev1.Pod {
	p := replica("a", "p-1")
	p.DeletionTimestamp, p.Finalizers = ptr.To(metav1.NewTime(start.Add(-by))), []string{"test/keep"}
	return p
}

// TestCordonLeftBehind: after a crash between cordon and deletion the planner uncordons the node.
func TestCordonLeftBehind(t *testing.T) {
	w := newWorld(t, nil)
	edit(w, testNode(), func(n *corev1.Node) { setCordon(n, "replace") })
	w.want(Refused, plan.Action{Verb: plan.Uncordon, Node: "p-1", Operation: "drain"})
	w.want(Done, plan.Action{Verb: plan.Uncordon, Node: "p-1", Operation: "replace"})
	if w.node().Spec.Unschedulable {
		t.Error("still cordoned")
	}
}

func TestDryRunWritesNothing(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.DryRun = true }, gpuPod("a", "p-1"))
	for _, a := range []plan.Action{
		w.repartition(), {Verb: plan.ScaleUp, Pool: "p", From: 1, To: 3}, {Verb: plan.RemoveNode, Pool: "p", Node: "p-1"},
		{Verb: plan.Drain, Pool: "p", Node: "p-1"}, {Verb: plan.Rollback, Node: "p-1"}, {Verb: plan.Uncordon, Node: "p-1"},
		{Verb: plan.Replace, Pool: "p", Node: "p-1"}, {Verb: plan.Reclaim, Pool: "p", Node: "p-1", Pod: "ns/a"},
	} {
		w.want(DryRun, a)
	}
	if err := w.resume(start); err != nil || w.writes != 0 || len(w.evicted) != 0 {
		t.Errorf("%d writes, evicted %v, %v", w.writes, w.evicted, err)
	}
}

// TestUnknownVerbFails: and it goes on failing, which is reported once.
func TestUnknownVerbFails(t *testing.T) {
	w := newWorld(t, nil)
	explode := plan.Action{Verb: "explode", Pool: "p"}
	if got := w.do(explode); got.Outcome != Failed || got.Continued {
		t.Errorf("the first time: %+v", got)
	}
	if got := w.do(explode); got.Outcome != Failed || !got.Continued {
		t.Errorf("the second time: %+v", got)
	}
}

func daemon(name, node string) *corev1.Pod {
	p := gpuPod(name, node)
	p.UID = types.UID("uid-" + name)
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: ptr.To(true)}}
	return p
}

func drainAction() plan.Action {
	return plan.Action{Verb: plan.Drain, Pool: "p", Node: "p-1", Deadline: start.Add(10 * time.Minute), Reason: plan.NodeUnderused}
}

func TestDrainEvictsAllButDaemons(t *testing.T) {
	bare := replica("bare", "p-1", v1alpha1.OtherSafeToEvictAnnotation, "true")
	bare.OwnerReferences = nil
	w := newWorld(t, nil, replica("a", "p-1"), bare, daemon("agent", "p-1"))
	w.want(Waiting, drainAction())
	if got := w.pods(); !slices.Equal(got, []string{"agent"}) {
		t.Errorf("pods %v, want only the daemon", got)
	}
	w.want(Done, drainAction())
	if n := w.node(); !n.Spec.Unschedulable || n.Annotations[v1alpha1.CordonAnnotation] != drainReason {
		t.Errorf("not cordoned for the drain: %v", n.Annotations)
	}
}

// TestDrainIsRecorded: start, deadline and reason are on the node, and a repeated action
// does not change them.
func TestDrainIsRecorded(t *testing.T) {
	w := newWorld(t, nil, replica("a", "p-1"), replica("b", "p-1"))
	w.full["b"] = true
	w.want(Waiting, drainAction())
	writes := w.writes
	w.snap.Now = start.Add(time.Minute)
	later := drainAction()
	later.Deadline = w.snap.Now.Add(10 * time.Minute)
	w.want(Waiting, later)
	got, ok, err := v1alpha1.DrainOf(w.node())
	if err != nil || !ok || !got.Started.Equal(start) || !got.Deadline.Equal(start.Add(10*time.Minute)) || got.Reason != string(plan.NodeUnderused) {
		t.Errorf("drain %+v, %v, %v", got, ok, err)
	}
	if w.writes != writes {
		t.Errorf("%d writes for a drain under way", w.writes-writes)
	}
	w.full["b"] = false
	if got := w.do(later); got.Outcome != Waiting || !got.Continued {
		t.Errorf("a drain under way: %+v", got)
	}
	w.want(Done, later)
	w.want(Done, plan.Action{Verb: plan.Uncordon, Pool: "p", Node: "p-1"}) // the planner gives up a drain like this
	w.inService()
}

// TestDrainWaitsForCheckpoints: the pod is evicted at its checkpoint, not before.
func TestDrainWaitsForCheckpoints(t *testing.T) {
	w := newWorld(t, nil, replica("a", "p-1", v1alpha1.EvictFromAnnotation, start.Add(time.Minute).Format(time.RFC3339)))
	w.want(Waiting, drainAction())
	if len(w.evicted) != 0 {
		t.Fatalf("evicted %v before its checkpoint", w.evicted)
	}
	w.snap.Now = start.Add(time.Minute)
	w.want(Waiting, drainAction())
	if len(w.evicted) != 1 {
		t.Errorf("evicted %v", w.evicted)
	}
}

// TestDrainOfLocalStorage: a pod with local storage that came after the drain began is not
// evicted, unless the policy allows it.
func TestDrainOfLocalStorage(t *testing.T) {
	storing := replica("a", "p-1")
	storing.Spec.Volumes = onDisk()
	w := newWorld(t, nil, storing)
	edit(w, testNode(), func(n *corev1.Node) {
		annotate(n, v1alpha1.DrainAnnotation, v1alpha1.Drain{Started: start, Deadline: start.Add(time.Minute)}.String())
	})
	w.want(Waiting, drainAction())
	if len(w.evicted) != 0 {
		t.Errorf("evicted %v", w.evicted)
	}
	w.actor.o.Policy.SkipNodesWithLocalStorage = false
	w.want(Waiting, drainAction())
	if len(w.evicted) != 1 {
		t.Errorf("evicted %v, want the pod", w.evicted)
	}
}

// TestDrainOfAnothersCordon: the drain of a node that others have cordoned since ends, and
// their cordon stays.
func TestDrainOfAnothersCordon(t *testing.T) {
	w := newWorld(t, nil)
	edit(w, testNode(), func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		annotate(n, v1alpha1.DrainAnnotation, v1alpha1.Drain{Started: start, Deadline: start.Add(time.Minute)}.String())
	})
	w.want(Done, plan.Action{Verb: plan.Uncordon, Pool: "p", Node: "p-1"})
	if n := w.node(); !n.Spec.Unschedulable || n.Annotations[v1alpha1.DrainAnnotation] != "" {
		t.Errorf("cordoned %v, annotations %v", n.Spec.Unschedulable, n.Annotations)
	}
}

// newReclaim is a world with pod ns/a on node p-1, and the action that reclaims its GPU.
func newReclaim(t *testing.T, pod *corev1.Pod) (*world, plan.Action) {
	t.Helper()
	w := newWorld(t, nil, pod)
	w.snap.Pods = []plan.Pod{{Namespace: "ns", Name: "a", Node: "p-1", UID: "uid-a", Created: start, Evictable: true}}
	return w, plan.Action{Verb: plan.Reclaim, Pool: "p", Node: "p-1", Pod: "ns/a", Reason: plan.ReclaimBorrowed}
}

func TestReclaim(t *testing.T) {
	w, reclaim := newReclaim(t, replica("a", "p-1", v1alpha1.EvictFromAnnotation, start.Format(time.RFC3339)))
	w.want(Done, reclaim)
	if got := w.pods(); len(got) != 0 {
		t.Errorf("pods %v, want none", got)
	}
	if want := []string{"ns/a uid-a"}; !slices.Equal(w.evicted, want) {
		t.Errorf("evicted %v, want %v: the pod with this UID", w.evicted, want)
	}
	w.want(Done, reclaim) // already gone
	if len(w.evicted) != 1 || w.node().Spec.Unschedulable {
		t.Error("evicted twice, or the node was cordoned")
	}
}

// TestPromise: reclaimed capacity is reserved for the pod it is reclaimed for. A nomination that the scheduler has
// cleared is written again each reconcile, until the pod is bound or deleted, or the promise has expired. A refused
// eviction makes no promise. sandbox/guardrails tests it with kube-scheduler.
func TestPromise(t *testing.T) {
	waits := replica("b", "")
	for name, c := range map[string]struct {
		waits  *corev1.Pod
		change func(*world) // before
		want   string       // the nomination
		then   func(*world) // after the nomination has been cleared
		kept   string       // the nomination in later reconciles
		open   bool         // the promise is kept without a nomination
	}{
		"it is pending":           {waits: waits, want: "p-1", kept: "p-1"},
		"it is bound by now":      {waits: replica("b", "p-2"), open: true},
		"the scheduler named one": {waits: nominated(replica("b", ""), "p-7"), want: "p-7", kept: "p-1"},
		"another of its name":     {waits: waits, change: func(w *world) { w.snap.Pods[0].UID = "uid-of-before" }, open: true},
		"it is not created yet":   {waits: waits, change: func(w *world) { w.snap.Pods[0].UID = "" }, open: true},
		"it is off":               {waits: waits, change: func(w *world) { w.actor.o.Nominate = false }},
		"the eviction is refused": {waits: waits, change: func(w *world) { w.full["a"] = true }, want: "p-1"},
		"the budget is contended": {waits: waits, change: func(w *world) { w.contended = map[string]bool{"a": true} }, want: "p-1"},
		"dry run":                 {waits: waits, change: func(w *world) { w.actor.o.DryRun = true }},
		"it is bound then":        {waits: waits, want: "p-1", then: func(w *world) { w.snap.Pods[0].Node = "p-1" }},
		"it is deleted then":      {waits: waits, want: "p-1", then: func(w *world) { w.snap.Pods = nil }},
		"it has expired then":     {waits: waits, want: "p-1", then: func(w *world) { w.snap.Now = w.snap.Now.Add(promiseLasts + time.Second) }},
		"it is about to expire":   {waits: waits, want: "p-1", then: func(w *world) { w.snap.Now = w.snap.Now.Add(promiseLasts - time.Second) }, kept: "p-1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.Nominate = true }, replica("a", "p-1"), c.waits.DeepCopy())
			w.snap.Pods = []plan.Pod{
				{Namespace: "ns", Name: "b", UID: string(c.waits.UID), Created: start},
				{Namespace: "ns", Name: "a", Node: "p-1", UID: "uid-a", Created: start, Evictable: true},
			}
			if c.change != nil {
				c.change(w)
			}
			w.do(plan.Action{Verb: plan.Reclaim, Pool: "p", Node: "p-1", Pod: "ns/a", Reason: plan.ReclaimBorrowed, For: []string{"ns/b"}})
			if got := w.nominatedTo("b"); got != c.want {
				t.Errorf("nominated to %q, want %q", got, c.want)
			}
			patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"nominatedNodeName":null}}`))
			w.must(w.client.Status().Patch(t.Context(), replica("b", ""), patch))
			if c.then != nil {
				c.then(w)
			}
			for range 2 {
				w.actor.Apply(t.Context(), w.snap, plan.Plan{})
			}
			if got, promises := w.nominatedTo("b"), len(w.actor.promises.byPod); got != c.kept || (promises == 1) != (c.kept != "" || c.open) {
				t.Errorf("later nominated to %q, want %q; %d promises are remembered", got, c.kept, promises)
			}
		})
	}
}

// TestExpected: a pod is nominated once, for some seconds, for a node that is coming up.
func TestExpected(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*Options)
		want    string
		cleared string // after the scheduler has cleared it, at once and then later
		later   string
	}{
		"on":      {func(*Options) {}, "p-1", "", "p-1"},
		"off":     {func(o *Options) { o.Nominate = false }, "", "", ""},
		"dry run": {func(o *Options) { o.DryRun = true }, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			waits := replica("b", "")
			w := newWorld(t, func(o *Options) { o.Nominate = true; c.change(o) }, waits)
			w.snap.Pods = []plan.Pod{{Namespace: "ns", Name: "b", UID: string(waits.UID), Created: start}}
			p := plan.Plan{Nominations: []plan.Nomination{{Pod: "ns/b", Node: "p-1"}}}
			apply := func(after time.Duration, want string) {
				t.Helper()
				w.snap.Now = w.snap.Now.Add(after)
				w.actor.Apply(t.Context(), w.snap, p)
				if got := w.nominatedTo("b"); got != want {
					t.Errorf("nominated to %q, want %q", got, want)
				}
			}
			apply(0, c.want)
			patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"nominatedNodeName":null}}`))
			w.must(w.client.Status().Patch(t.Context(), replica("b", ""), patch))
			apply(time.Second, c.cleared)
			apply(expectAgain, c.later)
		})
	}
}

// TestNominationTakenBack: kube-scheduler does not clear the nomination of a pod that never preempts, so it is removed
// once it is of no use. The nomination of another pod may be the scheduler's own, and stays.
func TestNominationTakenBack(t *testing.T) {
	reclaim := plan.Action{Verb: plan.Reclaim, Pool: "p", Node: "p-1", Pod: "ns/a", Reason: plan.ReclaimBorrowed, For: []string{"ns/b"}}
	expects := func(node string) plan.Plan {
		return plan.Plan{Nominations: []plan.Nomination{{Pod: "ns/b", Node: node}}}
	}
	for name, c := range map[string]struct {
		do    func(*world)
		never string // the nomination of a pod that never preempts
	}{
		"it has expired": {func(w *world) {
			w.do(reclaim)
			w.snap.Now = w.snap.Now.Add(promiseLasts + time.Second)
			w.actor.Apply(t.Context(), w.snap, plan.Plan{})
		}, ""},
		"the eviction is refused": {func(w *world) {
			w.full["a"] = true
			w.do(reclaim)
		}, ""},
		"it is no longer expected": {func(w *world) {
			w.actor.Apply(t.Context(), w.snap, expects("p-1"))
			w.snap.Now = w.snap.Now.Add(expectLasts + time.Second)
			w.actor.Apply(t.Context(), w.snap, plan.Plan{})
		}, ""},
		"another node is expected": {func(w *world) {
			w.actor.Apply(t.Context(), w.snap, expects("p-1"))
			w.actor.Apply(t.Context(), w.snap, expects("p-2"))
		}, "p-2"},
		"the scheduler has moved it": {func(w *world) {
			w.actor.Apply(t.Context(), w.snap, expects("p-1"))
			w.must(w.client.Status().Patch(t.Context(), replica("b", ""), client.RawPatch(types.MergePatchType, []byte(`{"status":{"nominatedNodeName":"p-7"}}`))))
			w.actor.Apply(t.Context(), w.snap, expects("p-2"))
		}, "p-7"},
	} {
		for _, policy := range []corev1.PreemptionPolicy{corev1.PreemptNever, corev1.PreemptLowerPriority} {
			t.Run(name+", "+string(policy), func(t *testing.T) {
				waits := replica("b", "")
				waits.Spec.PreemptionPolicy = &policy
				w := newWorld(t, func(o *Options) { o.Nominate = true }, replica("a", "p-1"), waits)
				w.snap.Pods = []plan.Pod{
					{Namespace: "ns", Name: "b", UID: string(waits.UID), Created: start},
					{Namespace: "ns", Name: "a", Node: "p-1", UID: "uid-a", Created: start, Evictable: true},
				}
				c.do(w)
				want := c.never
				if policy != corev1.PreemptNever && want != "p-7" {
					want = "p-1"
				}
				if got := w.nominatedTo("b"); got != want {
					t.Errorf("nominated to %q, want %q", got, want)
				}
			})
		}
	}
}

// TestNominationsLast: nominations for nodes that are coming up follow the actions and read nothing from the API
// server.
func TestNominationsLast(t *testing.T) {
	var writes []string
	waits := replica("b", "")
	w := newWorld(t, func(o *Options) {
		o.Nominate = true
		o.Client = interceptor.NewClient(o.Client.(client.WithWatch), interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				writes = append(writes, o.GetName())
				return c.Patch(ctx, o, p, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				writes = append(writes, o.GetName()+"/"+sub)
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
		})
		o.Live = interceptor.NewClient(o.Live.(client.WithWatch), interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if _, ok := o.(*corev1.Pod); ok {
					t.Errorf("pod %s was read from the API server", key)
				}
				return c.Get(ctx, key, o, opts...)
			},
		})
	}, waits)
	w.snap.Pods = []plan.Pod{{Namespace: "ns", Name: "b", UID: string(waits.UID), Created: start}}
	p := plan.Plan{
		Actions:     []plan.Action{{Verb: plan.SoftTaint, Pool: "p", Node: "p-1", Reason: plan.NodeEmpty}},
		Nominations: []plan.Nomination{{Pod: "ns/b", Node: "p-1"}},
	}
	for range 2 {
		w.actor.Apply(t.Context(), w.snap, p)
		w.snap.Now = w.snap.Now.Add(expectAgain)
	}
	if want := []string{"p-1", "b/status"}; !slices.Equal(writes, want) {
		t.Errorf("written: %v, want %v", writes, want)
	}
}

// TestNominationsForbidden: a policy that refuses them is logged once, not for each pod and each time.
func TestNominationsForbidden(t *testing.T) {
	var log bytes.Buffer
	a, b := replica("a", ""), replica("b", "")
	w := newWorld(t, func(o *Options) {
		o.Nominate, o.Log = true, slog.New(slog.NewTextHandler(&log, nil))
		o.Client = interceptor.NewClient(o.Client.(client.WithWatch), interceptor.Funcs{
			SubResourcePatch: func(_ context.Context, _ client.Client, _ string, o client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
				return apierrors.NewForbidden(corev1.Resource("pods"), o.GetName(), errors.New("denied the request"))
			},
		})
	}, a, b)
	p := plan.Plan{}
	for _, pod := range []*corev1.Pod{a, b} {
		w.snap.Pods = append(w.snap.Pods, plan.Pod{Namespace: "ns", Name: pod.Name, UID: string(pod.UID), Created: start})
		p.Nominations = append(p.Nominations, plan.Nomination{Pod: "ns/" + pod.Name, Node: "p-1"})
	}
	for range 2 {
		w.actor.Apply(t.Context(), w.snap, p)
		w.snap.Now = w.snap.Now.Add(expectAgain)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings, want 1:\n%s", n, &log)
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

// TestSoftTaint: the taint comes and goes beside others, and nothing is written twice.
func TestSoftTaint(t *testing.T) {
	w := newWorld(t, nil)
	other := corev1.Taint{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule}
	node := w.node()
	node.Spec.Taints = []corev1.Taint{other}
	w.must(w.client.Update(t.Context(), node))
	for _, s := range []struct {
		verb   plan.Verb
		taints []corev1.Taint
		writes int
	}{
		{plan.SoftTaint, []corev1.Taint{other, {Key: v1alpha1.EmptyTaint, Effect: corev1.TaintEffectPreferNoSchedule}}, 1},
		{plan.SoftTaint, []corev1.Taint{other, {Key: v1alpha1.EmptyTaint, Effect: corev1.TaintEffectPreferNoSchedule}}, 0},
		{plan.RemoveSoftTaint, []corev1.Taint{other}, 1},
		{plan.RemoveSoftTaint, []corev1.Taint{other}, 0},
	} {
		before := w.writes
		w.want(Done, plan.Action{Verb: s.verb, Pool: "p", Node: "p-1", Reason: plan.NodeEmpty})
		if got := w.node().Spec.Taints; !equality.Semantic.DeepEqual(got, s.taints) || w.writes-before != s.writes {
			t.Errorf("%s: %v after %d writes, want %v after %d", s.verb, got, w.writes-before, s.taints, s.writes)
		}
	}
}

// short is a provider that has delivered less than requested.
type short struct {
	pools.Provider
	target, withdrawn int
}

func (s *short) Withdraw(_ context.Context, _ *v1alpha1.GPUNodePool, from int) error {
	if s.target != from {
		return pools.ErrStale
	}
	s.withdrawn++
	return nil
}

// TestWithdrawal: a target that is not met is withdrawn, unless the pool has changed since, and at
// most once a minute.
func TestWithdrawal(t *testing.T) {
	provider := &short{target: 4}
	w := newWorld(t, func(o *Options) { o.Pools = provider })
	action := plan.Action{Verb: plan.Withdraw, Pool: "p", From: 4, To: 1, Reason: plan.NotDelivered}
	w.want(Done, action)
	w.want(Refused, action)
	w.snap.Now = w.snap.Now.Add(withdrawEvery)
	w.want(Done, action)
	w.snap.Now = w.snap.Now.Add(withdrawEvery)
	provider.target = 6 // requested since
	w.want(Refused, action)
	if provider.withdrawn != 2 {
		t.Errorf("withdrawn %d times, want 2", provider.withdrawn)
	}
}

// hanging is a provider that does not answer; its calls end after ten seconds, as an ASG's.
type hanging struct {
	short
	calls int
}

func (h *hanging) SetSize(ctx context.Context, _ *v1alpha1.GPUNodePool, _, _ int) error {
	h.calls++
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	<-ctx.Done()
	return fmt.Errorf("calling AWS: %w", ctx.Err())
}

// TestActingIsBounded: providers that hang delay the next reconcile for a bounded time. Actions that were not tried are
// refused, not failed.
func TestActingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := &hanging{short: short{target: 1}}
		w := newWorld(t, func(o *Options) { o.Pools = provider })
		var actions []plan.Action
		for range 6 {
			actions = append(actions, plan.Action{Verb: plan.ScaleUp, Pool: "p", From: 1, To: 2})
		}
		began := time.Now()
		results := w.actor.Apply(t.Context(), w.snap, plan.Plan{Actions: actions})
		if took := time.Since(began); took > maxActing {
			t.Errorf("the actions took %s, want at most %s", took, maxActing)
		}
		if provider.calls != 3 || results[1].Outcome != Failed || results[5].Outcome != Refused || !errors.Is(results[5].Err, errRefused) {
			t.Errorf("%d calls, results %+v", provider.calls, results)
		}
	})
}

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

// TestReplace: the provider replaces the node, whatever the snapshot's size, and its size is not set.
func TestReplace(t *testing.T) {
	w := newSick(t, daemon("agent", "p-1"))
	w.snap.Pools[0].Size, w.snap.Pools[0].Target = 3, 4 // the pool has shrunk
	w.actor.o.Pools = provider{Provider: w.actor.o.Pools, setSize: func(int, int) error { return errors.New("it keeps its size") }}
	w.want(Done, replaceFirst)
	if got := w.nodes(); !slices.Equal(got, []string{"p-1", "p-2"}) {
		t.Fatalf("nodes %v, want as many as before", got)
	}
	if n := w.node(); n.Labels["nvidia.com/gpu.product"] == "" || n.Spec.Unschedulable {
		t.Error("p-1 is the old node, not a new one from the template")
	}
}

// TestReplaceAboveMax: a sick node of a pool that is above its max goes, and no other comes.
func TestReplaceAboveMax(t *testing.T) {
	w := newSick(t)
	edit(w, testPool(), func(p *v1alpha1.GPUNodePool) { p.Spec.Max = 1 })
	w.want(Done, replaceFirst)
	if got := w.nodes(); !slices.Equal(got, []string{"p-2"}) {
		t.Errorf("nodes %v", got)
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

// provider is a fake that delegates where its function is nil.
type provider struct {
	pools.Provider
	setSize func(from, to int) error
}

func (p provider) SetSize(_ context.Context, _ *v1alpha1.GPUNodePool, from, to int) error {
	return p.setSize(from, to)
}
