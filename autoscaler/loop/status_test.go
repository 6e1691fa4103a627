package loop

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/quota"
	"github.com/gpuscale/gpuscale/internal/kube/kubefake"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/text"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

var start = time.Date(2026, 11, 21, 9, 0, 0, 123456789, time.UTC)

// api is a fake API server that counts writes of statuses, with a fake of the Event recorder.
type api struct {
	client.Client
	t      *testing.T
	writes int
	// refuses is a pool whose status the API server refuses with refusal. nil stands for the error about a stored
	// object that the CRD's rules no longer admit.
	refuses string
	refusal error
	events  *record.FakeRecorder
}

func cluster(t *testing.T, objects ...client.Object) *api {
	t.Helper()
	a := &api{t: t, events: record.NewFakeRecorder(100)}
	a.Client = kubefake.New(kinds).WithObjects(objects...).WithStatusSubresource(&v1alpha1.GPUNodePool{}, &v1alpha1.GPUQuota{}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			a.writes++
			if o.GetName() == a.refuses {
				return cmp.Or[error](a.refusal, apierrors.NewInvalid(schema.GroupKind{Kind: "GPUNodePool"}, a.refuses, nil))
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		}}).Build()
	return a
}

func (a *api) pool() v1alpha1.GPUNodePool {
	a.t.Helper()
	var p v1alpha1.GPUNodePool
	require.NoError(a.t, a.Get(a.t.Context(), client.ObjectKey{Name: "p"}, &p))
	return p
}

func (a *api) publisher() *ClusterPublisher {
	return NewClusterPublisher(a, a.events, slog.New(slog.DiscardHandler))
}

// recorded fails the test unless these are the Events since its last call.
func (a *api) recorded(want ...string) {
	a.t.Helper()
	var events []string
	for len(a.events.Events) > 0 {
		events = append(events, <-a.events.Events)
	}
	if !slices.Equal(events, want) {
		a.t.Errorf("events %q, want %q", events, want)
	}
}

func named(name string) *v1alpha1.GPUNodePool {
	return &v1alpha1.GPUNodePool{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name), Generation: 3}}
}

// TestWithoutCRD: the error names what to install.
func TestWithoutCRD(t *testing.T) {
	none := kubefake.New(kinds).WithInterceptorFuncs(interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return &meta.NoKindMatchError{GroupKind: v1alpha1.GroupVersion.WithKind("GPUNodePool").GroupKind(), SearchedVersions: []string{"v1alpha1"}}
	}}).Build()
	_, err := NewStatusStore(none, none, nil).Load(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the CRD gpunodepools.gpuscale.io is not installed: set crds.install of the chart") {
		t.Error(err)
	}
}

// TestAllStateIsPersisted: only those fields of plan.State are lost in a restart that its
// documentation names.
func TestAllStateIsPersisted(t *testing.T) {
	c := cluster(t, named("p"), named("q"))
	s := NewStatusStore(c, c, nil)
	at := start.Truncate(time.Microsecond)
	stamps := func(names ...string) plan.Times {
		out := plan.Times{}
		for i, n := range names {
			out[n] = at.Add(time.Duration(i) * time.Second)
		}
		return out
	}
	m := plan.State{
		LastScaleUp: stamps("p", "q"), LastScaleDown: stamps("q"), LastRepartition: stamps("p-1", "q-1"), SickSince: stamps("p-1", "q-1"),
		LastReplace: stamps("p"), LastDrain: stamps("p", "q"),
		Grown:    map[string][]plan.Growth{"p": {{At: at, Nodes: 2}, {At: at.Add(time.Minute), Nodes: 1}}, "q": {{At: at, Nodes: 3}}},
		Removed:  map[string][]plan.Growth{"p": {{At: at, Nodes: 4}}},
		Failures: map[string]plan.Failure{"p-1/0": {Count: 2, At: at}, "q-1/7": {Count: 1, At: at}},
	}
	lost := map[string]bool{"FreeSince": true, "UnknownSince": true, "ShortSince": true, "LastRegret": true}
	for v, i := reflect.ValueOf(m), 0; i < v.NumField(); i++ {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() != lost[name] {
			t.Fatalf("plan.State.%s: this test does not know it", name)
		}
	}
	snap := plan.Snapshot{
		Pools: []plan.Pool{{Name: "p"}, {Name: "q"}},
		Nodes: []plan.Node{{Name: "p-1", Pool: "p"}, {Name: "q-1", Pool: "q"}},
	}
	_, err := s.Save(t.Context(), snap, m)
	require.NoError(t, err)
	got, err := s.Load(t.Context())
	require.NoError(t, err)
	if text := func(m plan.State) string { return scenario.Print(plan.Snapshot{Now: at, State: m}) }; text(got) != text(m) {
		t.Errorf("read back\n%swant\n%s", text(got), text(m))
	}
	snap.State = got
	if _, err := s.Save(t.Context(), snap, m); err != nil || c.writes != 2 {
		t.Errorf("%d writes for two pools, the second time unchanged, %v", c.writes, err)
	}
	snap.Nodes = nil // both nodes vanish for a reconcile
	m.LastScaleUp["p"] = at.Add(time.Hour)
	_, err = s.Save(t.Context(), snap, m)
	require.NoError(t, err)
	if mem := c.pool().Status.PlannerState; mem.Failures["p-1/0"].Count != 2 || !mem.SickSinceTime["p-1"].Time.Equal(at) || !mem.LastRepartitionTime["p-1"].Time.Equal(at) || len(mem.Failures) != 1 {
		t.Errorf("kept %+v", mem)
	}
}

// TestReclaimEvents: the evicted pod, the pod it is evicted for and the node have an Event.
func TestReclaimEvents(t *testing.T) {
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "ns", Name: name} }
	c := cluster(t, &corev1.Pod{ObjectMeta: meta("lent")}, &corev1.Pod{ObjectMeta: meta("waits")})
	c.publisher().Publish(t.Context(), Reconcile{Results: []act.Result{{Outcome: act.Done, Action: plan.Action{
		Verb: plan.Reclaim, Pod: "ns/lent", Node: "n1", Reason: plan.ReclaimBorrowed, Detail: "team-a requests its own", For: []string{"ns/waits"},
	}}}})
	const one = "Normal Reclaimed ns/lent on n1, ReclaimBorrowed: team-a requests its own"
	c.recorded(one, one, one) // both pods and the node
}

// TestEveryVerbHasEventReasons: the API server rejects an Event without a reason.
func TestEveryVerbHasEventReasons(t *testing.T) {
	for _, v := range []plan.Verb{plan.ScaleUp, plan.Repartition, plan.Uncordon, plan.Rollback, plan.Reclaim, plan.Drain, plan.RemoveNode, plan.Replace, plan.Withdraw} {
		if eventReasons[v].begins == "" || eventReasons[v].done == "" {
			t.Errorf("%s: %q", v, eventReasons[v])
		}
	}
}

func TestStatusAndEvents(t *testing.T) {
	c := cluster(t, named("p"), named("bad"), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "a"}})
	a := c.publisher()
	reconcile := Reconcile{
		Observation: observe.Observation{
			Snapshot: plan.Snapshot{
				Now:   start,
				Pools: []plan.Pool{{Name: "p", Min: 1, Max: 4, Target: 1, Size: 1}},
				Nodes: []plan.Node{
					{Name: "p-1", Pool: "p", Ready: true, GPUs: make([]plan.GPU, 1), Operation: &plan.Operation{}}, {Name: "p-2", Pool: "p", Drain: &plan.Draining{}}, {Name: "q-1", Drain: &plan.Draining{}},
				},
			},
			Invalid: map[string]error{"bad": errors.New("spec.template.product: nonsense")},
			Foreign: map[string]error{"p": errors.New("node p-9 was made by another")},
		},
		Plan: plan.Plan{Verdicts: []plan.Verdict{
			{Kind: plan.KindPod, Subject: "chat/a", Reason: plan.WaitUpcomingNode, Detail: "in 30s"},
			{Kind: plan.KindPool, Subject: "p", Reason: plan.Steady, Detail: "for 1s"},
		}},
		Results: []act.Result{
			{Outcome: act.Done, Action: plan.Action{Verb: plan.ScaleUp, Pool: "p", From: 1, To: 3, Reason: plan.RepartitionExhausted, Detail: "why", For: []string{"chat/a"}}},
			{Outcome: act.Refused, Action: plan.Action{Verb: plan.RemoveNode, Node: "p-1"}},
		},
	}
	a.Publish(t.Context(), reconcile)
	p := c.pool()
	if s := p.Status; s.Size != 1 || s.Target != 3 || s.Ready != 1 || s.Upcoming != 2 || s.Operations != 2 || s.Reason != "Steady" || s.ObservedGeneration != 3 {
		t.Errorf("status %+v", s)
	}
	for _, is := range []string{conditionReady, conditionValid, conditionForeign} {
		if !meta.IsStatusConditionTrue(p.Status.Conditions, is) {
			t.Errorf("not %s: conditions %+v", is, p.Status.Conditions)
		}
	}
	c.recorded("Normal TriggeredScaleUp p 1→3, RepartitionExhausted: why; in 30s") // one Event, not two
	if c.writes != 2 {
		t.Errorf("%d writes for two pools", c.writes)
	}

	// A remaining time in the detail causes neither an Event nor a write each second.
	reconcile.Now, reconcile.Results = start.Add(time.Second), nil
	reconcile.Pools[0].Target = 3
	for i := range reconcile.Plan.Verdicts {
		reconcile.Plan.Verdicts[i].Detail += ", later"
	}
	a.Publish(t.Context(), reconcile)
	c.recorded()
	reconcile.Now = start.Add(messageEvery - time.Nanosecond)
	a.Publish(t.Context(), reconcile)
	if c.writes != 2 {
		t.Errorf("%d writes", c.writes)
	}
	reconcile.Now = start.Add(messageEvery)
	a.Publish(t.Context(), reconcile)
	if c.writes != 3 {
		t.Errorf("%d writes: the message is never refreshed", c.writes)
	}
	reconcile.Foreign = nil
	a.Publish(t.Context(), reconcile)
	if p := c.pool(); meta.FindStatusCondition(p.Status.Conditions, conditionForeign) != nil {
		t.Errorf("nodes of another are gone: %+v", p.Status)
	}
	a.Publish(t.Context(), Reconcile{Observation: observe.Observation{Snapshot: plan.Snapshot{Now: start.Add(2 * messageEvery)}}})
	if len(a.written) != 0 {
		t.Errorf("times of old writes are kept: %v", a.written)
	}
}

// TestLongActionsHaveTwoEvents: a rollback that waits for mig-manager, or goes on failing, has an Event at its
// beginning and its end, however often its detail changes.
func TestLongActionsHaveTwoEvents(t *testing.T) {
	c := cluster(t)
	a := c.publisher()
	undo := func(outcome act.Outcome, continued bool, detail string) {
		a.Publish(t.Context(), Reconcile{Results: []act.Result{{Outcome: outcome, Continued: continued, Action: plan.Action{
			Verb: plan.Rollback, Node: "n1", Reason: plan.RepartitionOverdue, Detail: detail,
		}}}})
	}
	undo(act.Waiting, false, "no result after 60s")
	undo(act.Waiting, true, "no result after 61s")
	undo(act.Failed, true, "no result after 61s")
	undo(act.Done, false, "no result after 62s")
	c.recorded(
		"Warning RollingBack RepartitionOverdue: no result after 60s",
		"Warning RolledBack RepartitionOverdue: no result after 62s",
	)
}

// TestNodeThatCannotBeRestored: after the last attempt to go back a node takes no pod, and each reconcile
// reports it: an Event of the node, a failed decision of its pool, and the counter that
// GpuscaleRepartitionFailed reads.
func TestNodeThatCannotBeRestored(t *testing.T) {
	s, policy, err := scenario.Parse(`
tick at=2026-11-21T09:00:00Z
pool p max=1 gpus=1 model=H100-80GB layout=(7g.80gb@0)
node n1 pool=p age=1h op=n1-0-x op-gpu=0 op-target=(3g.40gb@0,4) op-started=6m op-deadline=-1m cordoned-by=n1-0-x
gpu n1/0 idle=1h
pod a/x requests=7g.80gb
`)
	require.NoError(t, err)
	made := plan.Make(s, policy)
	if len(made.Actions) != 1 || made.Actions[0].Verb != plan.Rollback {
		t.Fatalf("%s", made)
	}
	for _, v := range made.Verdicts {
		if v.Kind == plan.KindPod && v.Reason != plan.PoolAtMax {
			t.Errorf("its GPU is supply: %s", made)
		}
	}
	c := cluster(t, named("p"))
	a, m := c.publisher(), newMetrics(prometheus.NewRegistry(), time.Now)
	r := Reconcile{Observation: observe.Observation{Snapshot: s}, Plan: made, Results: []act.Result{{
		Action: made.Actions[0], Outcome: act.Failed, Err: errors.New("the node stays cordoned until it is uncordoned by hand"),
	}}}
	for range 2 {
		a.Publish(t.Context(), r)
		m.publish(r, s.Now)
	}
	const event = "Warning RolledBackFailed RepartitionOverdue: no result after 6m: the node stays cordoned until it is uncordoned by hand"
	c.recorded(event, event)
	if n := testutil.ToFloat64(m.actions.WithLabelValues("rollback", "p", "RepartitionOverdue", "error")); n != 2 {
		t.Errorf("counted %v times", n)
	}
	if d := c.pool().Status.LastDecisions; len(d) != 1 || !d[0].Failed || d[0].On != "n1" {
		t.Errorf("decisions %+v", d)
	}
}

// TestRemarks: the conditions are set only while true, name the remedy, and list a bounded
// number of GPUs.
func TestRemarks(t *testing.T) {
	pool := named("p")
	pool.Spec.Provider.Scale = &v1alpha1.ScaleProvider{Kind: "Herd", Name: "h100"}
	r := Reconcile{
		Observation: observe.Observation{Snapshot: plan.Snapshot{Nodes: []plan.Node{{Name: "n1", Pool: "p"}, {Name: "other"}}}},
		Plan:        plan.Plan{Verdicts: []plan.Verdict{{Kind: plan.KindGPU, Subject: "n1/0", Reason: plan.GPUFree}, {Kind: plan.KindGPU, Subject: "other/0", Reason: plan.GPUUnused}}},
	}
	for i := range 7 {
		r.Plan.Verdicts = append(r.Plan.Verdicts, plan.Verdict{Kind: plan.KindGPU, Subject: fmt.Sprintf("n1/%d", 1+i), Reason: plan.GPUUnused})
	}
	setRemarks(pool, true, unusedGPUs(r)["p"])
	only, unused := meta.FindStatusCondition(pool.Status.Conditions, conditionGrowOnly), meta.FindStatusCondition(pool.Status.Conditions, conditionUnused)
	if only == nil || !strings.Contains(only.Message, "Herd h100") || !strings.Contains(only.Message, "spec.scaleDown.disabled") {
		t.Errorf("%+v", only)
	}
	if unused == nil || !strings.Contains(unused.Message, "n1/1, n1/2, n1/3, n1/4, n1/5 and 2 more") || strings.Contains(unused.Message, "other") {
		t.Errorf("%+v", unused)
	}
	pool.Spec.ScaleDown.Disabled = true
	setRemarks(pool, true, nil)
	if len(pool.Status.Conditions) != 0 {
		t.Errorf("conditions %+v", pool.Status.Conditions)
	}
}

// TestLastDecisions: a pool's status lists its last actions, newest first and bounded; an
// action that fails every second is listed once; conditionLimited is written when it
// changes, not each reconcile.
func TestLastDecisions(t *testing.T) {
	c := cluster(t, named("p"))
	a := c.publisher()
	publish := func(after time.Duration, reason plan.Reason, results ...act.Result) v1alpha1.GPUNodePool {
		t.Helper()
		a.Publish(t.Context(), Reconcile{
			Observation: observe.Observation{Snapshot: plan.Snapshot{Now: start.Add(after), Pools: []plan.Pool{{Name: "p", Max: 4}}}},
			Plan:        plan.Plan{Verdicts: []plan.Verdict{{Kind: plan.KindPool, Subject: "p", Reason: reason, Detail: "for " + after.String()}}},
			Results:     results,
		})
		return c.pool()
	}
	scaleUp := func(to int) act.Result {
		return act.Result{Outcome: act.Done, Action: plan.Action{Verb: plan.ScaleUp, Pool: "p", From: to - 1, To: to, Reason: plan.NoFreeSlice, Detail: "a/b requests a GPU"}}
	}
	failure := act.Result{Outcome: act.Failed, Err: errors.New("no route"), Action: plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: "n1", Reason: plan.NodeEmpty, Detail: strings.Repeat("é", 400)}}
	other := scaleUp(9)
	other.Action.Pool = "q"
	p := publish(0, plan.NoFreeSlice, scaleUp(1), other)
	if d := p.Status.LastDecisions; len(d) != 1 || d[0].Action != "scale-up" || d[0].Message != "0→1: a/b requests a GPU" || d[0].Failed {
		t.Errorf("decisions %+v", d)
	}
	for s := range 5 {
		p = publish(time.Duration(s+1)*time.Second, plan.NoFreeSlice, failure)
	}
	d := p.Status.LastDecisions
	if len(d) != 2 || !d[0].Failed || d[0].On != "n1" || !strings.Contains(d[0].Message, "no route") || len(d[0].Message) > maxDecisionMessage+4 {
		t.Errorf("decisions %+v", d)
	}
	for to := range 10 {
		p = publish(time.Duration(10+to)*time.Second, plan.PoolAtMax, scaleUp(to+2))
	}
	if d := p.Status.LastDecisions; len(d) != v1alpha1.MaxDecisions || d[0].Message != "10→11: a/b requests a GPU" {
		t.Errorf("decisions %+v", d)
	}
	limited := meta.FindStatusCondition(p.Status.Conditions, conditionLimited)
	if limited == nil || limited.Status != metav1.ConditionTrue || limited.Reason != "PoolAtMax" || limited.Message == "" {
		t.Errorf("condition %+v", limited)
	}
	publish(20*time.Second, plan.PoolAtMax) // the target is the snapshot's again
	before := c.writes
	publish(21*time.Second, plan.PoolAtMax)
	if c.writes != before {
		t.Error("a reconcile that decided nothing was written")
	}
	p = publish(22*time.Second, plan.Steady)
	if !meta.IsStatusConditionFalse(p.Status.Conditions, conditionLimited) {
		t.Errorf("conditions %+v", p.Status.Conditions)
	}
}

// lagging is a cache that has not seen the latest writes.
type lagging struct {
	client.Client
	pools v1alpha1.GPUNodePoolList
}

func (l *lagging) List(_ context.Context, o client.ObjectList, _ ...client.ListOption) error {
	l.pools.DeepCopyInto(o.(*v1alpha1.GPUNodePoolList))
	return nil
}

// TestDecisionsBeforeTheCacheSeesThem: a decision stays in a pool's status even if the cache does not have it at the
// next write, or its own write failed.
func TestDecisionsBeforeTheCacheSeesThem(t *testing.T) {
	c := cluster(t, named("p"))
	cache := &lagging{Client: c}
	require.NoError(t, c.List(t.Context(), &cache.pools))
	a := NewClusterPublisher(cache, c.events, slog.New(slog.DiscardHandler))
	for i, node := range []string{"n1", "n2", "n3"} {
		c.refuses = map[string]string{"n2": "p"}[node]
		a.Publish(t.Context(), Reconcile{
			Observation: observe.Observation{Snapshot: plan.Snapshot{Now: start.Add(time.Duration(i) * time.Second), Pools: []plan.Pool{{Name: "p"}}}},
			Results:     []act.Result{{Outcome: act.Done, Action: plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: node, Reason: plan.NodeEmpty}}},
		})
	}
	var on []string
	for _, d := range c.pool().Status.LastDecisions {
		on = append(on, d.On)
	}
	if !slices.Equal(on, []string{"n3", "n2", "n1"}) {
		t.Errorf("decisions on %v", on)
	}
}

// TestOneEventPerPod: a pod that an action serves has one Event, with the detail of its
// verdict. A pod that cannot be served has one with the remedy, a node that is set apart one with the field, both
// repeated after reportAgain.
func TestOneEventPerPod(t *testing.T) {
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
	}
	c := cluster(t, pod("served"), pod("refused"))
	a := c.publisher()
	publish := func(after time.Duration, results ...act.Result) {
		a.Publish(t.Context(), Reconcile{
			Observation: observe.Observation{Snapshot: plan.Snapshot{Now: start.Add(after)},
				Contained: []plan.Problem{{Kind: plan.KindPod, Name: "a/b"}, {Kind: plan.KindNode, Name: "n", Err: errors.New("nodes[n].cpuMilli: is negative: -1")}}},
			Plan: plan.Plan{Verdicts: []plan.Verdict{
				{Kind: plan.KindPod, Subject: "a/refused", Reason: plan.QuotaExceeded, Detail: "team-a uses 8 GPUs (guarantee 8 GPUs, limit 8 GPUs) and requests 1 GPU more; available: nothing"},
				{Kind: plan.KindPod, Subject: "a/served", Reason: plan.WaitUpcomingNode, Detail: "a new node of p, in 5m"},
			}}, Results: results,
		})
	}
	const invalid = "Warning InvalidNode nodes[n].cpuMilli: is negative: -1; gpuscale counts the node as cordoned, and does not change it"
	const refused = "Warning QuotaExceeded team-a uses 8 GPUs (guarantee 8 GPUs, limit 8 GPUs) and requests 1 GPU more; available: nothing. Raise the tenant's guarantee, limit or borrow limit, or end a workload of the tenant's."
	publish(0, act.Result{Outcome: act.Done, Action: plan.Action{Verb: plan.ScaleUp, Pool: "p", From: 1, To: 2, Reason: plan.NoFreeSlice, Detail: "a/served requests a GPU", For: []string{"a/served"}}})
	c.recorded("Normal TriggeredScaleUp p 1→2, NoFreeSlice: a/served requests a GPU; a new node of p, in 5m", refused, invalid)
	publish(reportAgain - time.Second)
	c.recorded()
	publish(reportAgain)
	c.recorded(refused, "Normal WaitUpcomingNode a new node of p, in 5m", invalid)
}

// TestEventsOfManyPods: the Events of one namespace's many pods do not displace those of another namespace, and are
// written later.
func TestEventsOfManyPods(t *testing.T) {
	var objects []client.Object
	var verdicts []plan.Verdict
	for i := range maxVerdictEvents + 2 {
		objects = append(objects, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint("p", i)}})
	}
	objects = append(objects, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "p"}})
	for _, o := range objects {
		verdicts = append(verdicts, plan.Verdict{Kind: plan.KindPod, Subject: o.GetNamespace() + "/" + o.GetName(), Reason: plan.PoolAtMax})
	}
	c := cluster(t, objects...)
	a := c.publisher()
	for _, want := range []int{maxVerdictEvents + 1, 2, 0} {
		a.Publish(t.Context(), Reconcile{Observation: observe.Observation{Snapshot: plan.Snapshot{Now: start}}, Plan: plan.Plan{Verdicts: verdicts}})
		if n := len(c.events.Events); n != want {
			t.Errorf("%d Events, want %d", n, want)
		}
		for len(c.events.Events) > 0 {
			<-c.events.Events
		}
	}
}

// TestNotesAreShort: an Event's note has at most the API's bytes, and is valid UTF-8.
func TestNotesAreShort(t *testing.T) {
	for note, want := range map[string]int{"fits": 4, strings.Repeat("∞", 2000): 1024, "half a rune \xe2\x88": 15} {
		if got := text.Short(note, maxNote); len(got) != want || !utf8.ValidString(got) {
			t.Errorf("%.20q: %d bytes, %q", note, len(got), got[max(0, len(got)-8):])
		}
	}
}

func TestAnotherAutoscalerIsACondition(t *testing.T) {
	p := named("p")
	setInvalid(p, &pools.Problem{Reason: pools.ReasonForeign, Field: "spec.provider.asg.name", What: "two", Remedy: "take one off"})
	c := meta.FindStatusCondition(p.Status.Conditions, conditionForeign)
	if c == nil || c.Status != "True" || c.Message != "spec.provider.asg.name: two; take one off" || p.Status.Reason != pools.ReasonForeign {
		t.Errorf("%+v", p.Status)
	}
	setInvalid(p, errors.New("spec.template.product: nonsense"))
	if meta.FindStatusCondition(p.Status.Conditions, conditionForeign) != nil || p.Status.Reason != "Invalid" {
		t.Errorf("another reason: %+v", p.Status)
	}
}

func TestLearnedIsInTheStatus(t *testing.T) {
	p := named("p")
	setLearned(p, pools.Learned{ReadyAfter: 90*time.Second + time.Millisecond, Failures: 2, BackoffUntil: start})
	if s := p.Status; s.ReadyAfter.Duration != 90*time.Second || s.Backoff.Failures != 2 || !s.Backoff.UntilTime.Time.Equal(start.Truncate(time.Second)) {
		t.Errorf("%+v %+v", s.ReadyAfter, s.Backoff)
	}
	setLearned(p, pools.Learned{})
	if p.Status.ReadyAfter != nil || p.Status.Backoff != nil {
		t.Errorf("unknown is not zero: %+v %+v", p.Status.ReadyAfter, p.Status.Backoff)
	}
}

// TestStatusOfAFixedPool: a fixed pool is ready if all its nodes are; the condition of one
// without nodes names the remedy.
func TestStatusOfAFixedPool(t *testing.T) {
	for name, c := range map[string]struct {
		size, ready int
		want        string
	}{
		"no node is labelled": {0, 0, "False NoNodes: no node has the label gpuscale.io/pool=p; label"},
		"one is not ready":    {3, 2, "False NotAllReady: 2 of 3 nodes are ready"},
		"all are ready":       {3, 3, "True AllReady: "},
	} {
		pool := named("p")
		f := finding{pool: plan.Pool{Name: "p", Fixed: true, Size: c.size, Target: c.size, Min: c.size, Max: c.size}, ready: c.ready}
		f.write(pool)
		got := meta.FindStatusCondition(pool.Status.Conditions, conditionReady)
		if text := fmt.Sprintf("%s %s: %s", got.Status, got.Reason, got.Message); !strings.HasPrefix(text, c.want) {
			t.Errorf("%s: %s", name, text)
		}
		if s := pool.Status; int(s.Size) != c.size || int(s.Target) != c.size || int(s.Ready) != c.ready || s.Upcoming != 0 {
			t.Errorf("%s: size %d, target %d, ready %d, upcoming %d", name, s.Size, s.Target, s.Ready, s.Upcoming)
		}
	}
}

// TestQuotaStatus: a quota's usage is written at most every few seconds, its conditions at
// once.
func TestQuotaStatus(t *testing.T) {
	made := &v1alpha1.GPUQuota{ObjectMeta: metav1.ObjectMeta{Name: "team", Generation: 3}}
	c := cluster(t, made)
	a := c.publisher()
	reconcile := func(after time.Duration, gpus int, problem error) v1alpha1.GPUQuotaStatus {
		t.Helper()
		var q v1alpha1.GPUQuota
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "team"}, &q))
		all := quota.All()
		r := Reconcile{Observation: observe.Observation{
			Snapshot: plan.Snapshot{
				Now:     time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC).Add(after),
				Tenants: []plan.Tenant{{Tenant: quota.Tenant{Name: "team", Guarantee: quota.Amount{Compute: 14, Memory: 16}, Limit: all, Borrow: all, Lend: all}}},
				Pods:    []plan.Pod{{Namespace: "n", Name: "p", Node: "x", Tenant: "team", Demand: demand.Demand{GPUs: gpus, Vendor: "nvidia"}}},
			},
			Quotas: []v1alpha1.GPUQuota{q}, QuotaProblems: map[string]error{},
		}}
		if problem != nil {
			r.QuotaProblems["GPUQuota team"] = problem
		}
		require.NoError(t, a.quotas(t.Context(), r))
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "team"}, &q))
		return q.Status
	}
	if s := reconcile(0, 1, nil); s.Used != "1" || s.Guaranteed != "2" || s.ObservedGeneration != made.Generation || s.Conditions[0].Status != metav1.ConditionTrue {
		t.Errorf("%+v", s)
	}
	if s := reconcile(time.Second, 2, nil); s.Used != "1" {
		t.Errorf("written again after a second: %+v", s)
	}
	if s := reconcile(2*time.Second, 2, errors.New("spec.parent: a circle")); s.Used != "2" || s.Conditions[0].Status != metav1.ConditionFalse || s.Conditions[0].Message != "spec.parent: a circle" {
		t.Errorf("%+v", s)
	}
	if s := reconcile(10*time.Second, 3, nil); s.Used != "3" || s.Borrowed != "1" || s.Conditions[0].Status != metav1.ConditionTrue {
		t.Errorf("%+v", s)
	}
}

// follower is the store of a replica without leader election; its Load begins an epoch.
func follower(c client.Client, live client.Reader, holder string) *StatusStore {
	return NewStatusStore(c, live, &act.Epoch{Holder: holder, Log: slog.New(slog.DiscardHandler)})
}

// load loads the state, which makes the store's replica the leader.
func load(t *testing.T, s *StatusStore) plan.State {
	t.Helper()
	m, err := s.Load(t.Context())
	require.NoError(t, err)
	return m
}

func grew() (plan.Snapshot, plan.State) {
	return plan.Snapshot{Pools: []plan.Pool{{Name: "p"}}}, plan.State{LastScaleUp: plan.Times{"p": start}}
}

// TestOnlyTheLatestSaves: once another replica has loaded the state, the previous leader
// cannot save its own, and so does not act.
func TestOnlyTheLatestSaves(t *testing.T) {
	c := cluster(t, named("p"))
	first, second := follower(c, c, "first"), follower(c, c, "second")
	load(t, first)
	load(t, second)
	snap, state := grew()
	before := c.pool().Status
	if _, err := first.Save(t.Context(), snap, state); !errors.Is(err, act.ErrDeposed) {
		t.Errorf("the first saves: %v", err)
	}
	if after := c.pool().Status; !reflect.DeepEqual(before, after) {
		t.Errorf("the first wrote %+v", after.PlannerState)
	}
	if _, err := second.Save(t.Context(), snap, state); err != nil {
		t.Error(err)
	}
	if e := c.pool().Status.PlannerState.Epoch; e == nil || e.Term != 2 || e.Holder != "second" {
		t.Errorf("epoch %+v", e)
	}
}

// TestRefusedState: a pool whose status the API server refuses prevents neither a leader nor the saving of other pools'
// state. A webhook's denial without a code, such as Kyverno's, is a 400 without a reason (k8s.io/apiserver v0.37.1,
// pkg/admission/plugin/webhook/errors).
func TestRefusedState(t *testing.T) {
	webhook := &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusBadRequest, Message: "admission webhook denied the request"}}
	for _, refusal := range []error{nil, apierrors.NewForbidden(schema.GroupResource{}, "q", nil), webhook} {
		refusedState(t, refusal)
	}
}

func refusedState(t *testing.T, refusal error) {
	t.Helper()
	c := cluster(t, named("p"), named("q"))
	c.refuses, c.refusal = "q", refusal
	s := follower(c, c, "first")
	load(t, s)
	snap, state := grew()
	snap.Pools = append([]plan.Pool{{Name: "q"}, {Name: "gone"}}, snap.Pools...)
	state.LastScaleUp["q"], state.LastScaleUp["gone"] = start, start
	refused, err := s.Save(t.Context(), snap, state)
	if err != nil || len(refused) != 2 || refused["q"] == nil || refused["gone"] == nil || c.pool().Status.PlannerState.LastScaleUpTime == nil {
		t.Errorf("%v, %v, %+v", refused, err, c.pool().Status.PlannerState)
	}
}

// late is a reader that calls then once, after its first read.
type late struct {
	client.Reader
	then func()
}

func (l *late) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := l.Reader.Get(ctx, key, o, opts...)
	l.callOnce()
	return err
}

func (l *late) List(ctx context.Context, o client.ObjectList, opts ...client.ListOption) error {
	err := l.Reader.List(ctx, o, opts...)
	l.callOnce()
	return err
}

func (l *late) callOnce() {
	if then := l.then; then != nil {
		l.then = nil
		then()
	}
}

// TestASaveUnderWayIsRefused: the first replica is suspended between reading the pool and
// writing it; the second takes over before the first resumes.
func TestASaveUnderWayIsRefused(t *testing.T) {
	c := cluster(t, named("p"))
	reader := &late{Reader: c}
	first := follower(c, reader, "first")
	load(t, first)
	reader.then = func() { load(t, follower(c, c, "second")) }
	snap, state := grew()
	if _, err := first.Save(t.Context(), snap, state); err == nil {
		t.Error("the first saved")
	}
	if m := c.pool().Status.PlannerState; m.LastScaleUpTime != nil || m.Epoch.Holder != "second" {
		t.Errorf("state %+v", m)
	}
}

// TestTakingOverUnderWay: of two replicas that begin at the same time, one leads.
func TestTakingOverUnderWay(t *testing.T) {
	c := cluster(t, named("p"))
	reader := &late{Reader: c}
	reader.then = func() { load(t, follower(c, c, "second")) }
	if _, err := follower(c, reader, "first").Load(t.Context()); !errors.Is(err, act.ErrDeposed) {
		t.Errorf("the first leads: %v", err)
	}
	if e := c.pool().Status.PlannerState.Epoch; e.Holder != "second" {
		t.Errorf("epoch %+v", e)
	}
}

// TestStateOfTheLastLeader: state saved between the listing of pools and the takeover is
// loaded.
func TestStateOfTheLastLeader(t *testing.T) {
	c := cluster(t, named("p"))
	first := follower(c, c, "first")
	load(t, first)
	reader := &late{Reader: c, then: func() {
		snap, state := grew()
		_, err := first.Save(t.Context(), snap, state)
		require.NoError(t, err)
	}}
	if state := load(t, follower(c, reader, "second")); len(state.LastScaleUp) != 1 {
		t.Errorf("loaded %+v", state)
	}
}

// TestPlannerStateIsBounded: if there is state of more nodes than a status can have, the newest is kept, and reading
// returns what was written.
func TestPlannerStateIsBounded(t *testing.T) {
	m := plan.State{LastRepartition: plan.Times{}, SickSince: plan.Times{}, Grown: map[string][]plan.Growth{}, Removed: map[string][]plan.Growth{}, Failures: map[string]plan.Failure{}}
	poolOf := map[string]string{}
	at := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	for i := range 2 * v1alpha1.MaxPlannerStates {
		node := fmt.Sprintf("n-%04d", i)
		poolOf[node] = "p"
		then := at.Add(time.Duration(i) * time.Second)
		m.LastRepartition[node], m.SickSince[node], m.Failures[node+"/0"] = then, then, plan.Failure{Count: 1, At: then}
		m.Grown["p"], m.Removed["p"] = append(m.Grown["p"], plan.Growth{At: then, Nodes: 2}), append(m.Removed["p"], plan.Growth{At: then, Nodes: 1})
	}
	s := poolState(m, "p", poolOf, v1alpha1.PlannerState{})
	for what, n := range map[string]int{"repartitions": len(s.LastRepartitionTime), "sick nodes": len(s.SickSinceTime), "failures": len(s.Failures), "grown": len(s.Grown), "removed": len(s.Removed)} {
		if n != v1alpha1.MaxPlannerStates {
			t.Errorf("%d %s, want %d", n, what, v1alpha1.MaxPlannerStates)
		}
	}
	for what, list := range map[int][]v1alpha1.Growth{2: s.Grown, 1: s.Removed} {
		sum := 0
		for _, g := range list {
			sum += int(g.Nodes)
		}
		if sum != what*2*v1alpha1.MaxPlannerStates || !list[0].Time.Time.Equal(at.Add(v1alpha1.MaxPlannerStates*time.Second)) {
			t.Errorf("%d nodes, the first at %s: every node counts, and none for too short", sum, list[0].Time)
		}
	}
	if _, ok := s.LastRepartitionTime[fmt.Sprintf("n-%04d", 2*v1alpha1.MaxPlannerStates-1)]; !ok {
		t.Error("the latest is not kept")
	}
	again := poolState(stateOf([]v1alpha1.GPUNodePool{poolWith(s)}), "p", poolOf, s)
	if len(again.Failures) != len(s.Failures) || len(again.SickSinceTime) != len(s.SickSinceTime) {
		t.Errorf("read back: %d failures, %d sick", len(again.Failures), len(again.SickSinceTime))
	}
}

func poolWith(s v1alpha1.PlannerState) (p v1alpha1.GPUNodePool) {
	p.Name, p.Status.PlannerState = "p", s
	return p
}

// kinds are those of the fakes; making them takes longer than most tests.
var kinds = scheme.New()

// TestRefusedStatus: an error of writing statuses is logged once, not in each reconcile, in whatever order the pools are
// read.
func TestRefusedStatus(t *testing.T) {
	var log bytes.Buffer
	c := cluster(t, named("p"), named("q"))
	c.Client = interceptor.NewClient(c.Client.(client.WithWatch), interceptor.Funcs{
		SubResourcePatch: func(_ context.Context, _ client.Client, _ string, o client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "gpunodepools"}, o.GetName(), errors.New("denied the request"))
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			if pools, ok := list.(*v1alpha1.GPUNodePoolList); ok && strings.Contains(log.String(), "publishing") {
				slices.Reverse(pools.Items)
			}
			return err
		},
	})
	p := NewClusterPublisher(c, c.events, slog.New(slog.NewTextHandler(&log, nil)))
	for i := range 3 {
		p.Publish(t.Context(), Reconcile{Observation: observe.Observation{Snapshot: plan.Snapshot{
			Now: start.Add(time.Duration(i) * time.Second), Pools: []plan.Pool{{Name: "p"}, {Name: "q"}},
		}}})
	}
	if n := strings.Count(log.String(), "publishing statuses failed"); n != 1 {
		t.Errorf("logged %d times, want once:\n%s", n, &log)
	}
}
