package loop

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

var start = time.Date(2026, 11, 21, 9, 0, 0, 123456789, time.UTC)

// api is a fake API server that counts writes of statuses, with a fake of the Event recorder.
type api struct {
	client.Client
	t      *testing.T
	writes int
	events *record.FakeRecorder
}

func cluster(t *testing.T, objects ...client.Object) *api {
	t.Helper()
	a := &api{t: t, events: record.NewFakeRecorder(100)}
	a.Client = fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(objects...).WithStatusSubresource(&v1alpha1.GPUNodePool{}, &v1alpha1.GPUQuota{}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			a.writes++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		}}).Build()
	return a
}

func (a *api) pool() v1alpha1.GPUNodePool {
	a.t.Helper()
	var p v1alpha1.GPUNodePool
	if err := a.Get(a.t.Context(), client.ObjectKey{Name: "p"}, &p); err != nil {
		a.t.Fatal(err)
	}
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
	return &v1alpha1.GPUNodePool{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 3}}
}

// TestAllStateIsPersisted: only those fields of plan.State are lost in a restart that its
// documentation names.
func TestAllStateIsPersisted(t *testing.T) {
	c := cluster(t, named("p"), named("q"))
	s := NewStatusStore(c, c)
	at := start.Truncate(time.Microsecond)
	stamps := func(names ...string) (out []plan.Stamp) {
		for i, n := range names {
			out = append(out, plan.Stamp{Name: n, At: at.Add(time.Duration(i) * time.Second)})
		}
		return out
	}
	m := plan.State{
		LastScaleUp: stamps("p", "q"), LastScaleDown: stamps("q"), LastRepartition: stamps("p-1", "q-1"), SickSince: stamps("p-1", "q-1"),
		LastReplace: stamps("p"), LastDrain: stamps("p", "q"),
		Grown:    []plan.Growth{{Pool: "p", At: at, Nodes: 2}, {Pool: "p", At: at.Add(time.Minute), Nodes: 1}, {Pool: "q", At: at, Nodes: 3}},
		Removed:  []plan.Growth{{Pool: "p", At: at, Nodes: 4}},
		Failures: []plan.Failure{{Name: "p-1/0", Count: 2, At: at}, {Name: "q-1/7", Count: 1, At: at}},
	}
	lost := map[string]bool{"FreeSince": true, "UnknownSince": true}
	for v, i := reflect.ValueOf(m), 0; i < v.NumField(); i++ {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() != lost[name] {
			t.Fatalf("plan.State.%s: this test does not know it", name)
		}
	}
	snap := plan.Snapshot{
		Pools: []plan.Pool{{Name: "p"}, {Name: "q"}},
		Nodes: []plan.Node{{Name: "p-1", Pool: "p"}, {Name: "q-1", Pool: "q"}},
	}
	if err := s.Save(t.Context(), snap, m); err != nil {
		t.Fatal(err)
	}
	got, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if text := func(m plan.State) string { return scenario.Print(plan.Snapshot{Now: at, State: m}) }; text(got) != text(m) {
		t.Errorf("read back\n%swant\n%s", text(got), text(m))
	}
	snap.State = got
	if err := s.Save(t.Context(), snap, m); err != nil || c.writes != 2 {
		t.Errorf("%d writes for two pools, the second time unchanged, %v", c.writes, err)
	}
	snap.Nodes = nil // both nodes vanish for a reconcile
	m.LastScaleUp[0].At = at.Add(time.Hour)
	if err := s.Save(t.Context(), snap, m); err != nil {
		t.Fatal(err)
	}
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
	for _, v := range []plan.Verb{plan.ScaleUp, plan.Repartition, plan.Uncordon, plan.Rollback, plan.Reclaim, plan.Drain, plan.RemoveNode, plan.Replace} {
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
				Nodes: []plan.Node{{Name: "p-1", Pool: "p", Ready: true, GPUs: make([]plan.GPU, 1)}},
			},
			Invalid: map[string]error{"bad": errors.New("spec.template.product: nonsense")},
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
	if s := p.Status; s.Size != 1 || s.Target != 3 || s.Ready != 1 || s.Upcoming != 2 || s.Reason != "Steady" || s.ObservedGeneration != 3 {
		t.Errorf("status %+v", s)
	}
	if !meta.IsStatusConditionTrue(p.Status.Conditions, conditionReady) || !meta.IsStatusConditionTrue(p.Status.Conditions, conditionValid) {
		t.Errorf("conditions %+v", p.Status.Conditions)
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
}

// TestLongActionsHaveTwoEvents: a rollback that waits for mig-manager has an Event at its
// beginning and its end, however often its detail changes.
func TestLongActionsHaveTwoEvents(t *testing.T) {
	c := cluster(t)
	a := c.publisher()
	undo := func(outcome act.Outcome, detail string) {
		a.Publish(t.Context(), Reconcile{Results: []act.Result{{Outcome: outcome, Action: plan.Action{
			Verb: plan.Rollback, Node: "n1", Reason: plan.RepartitionOverdue, Detail: detail,
		}}}})
	}
	undo(act.Waiting, "no answer after 60s")
	undo(act.Waiting, "no answer after 61s")
	undo(act.Done, "no answer after 62s")
	c.recorded(
		"Warning RollingBack RepartitionOverdue: no answer after 60s",
		"Warning RolledBack RepartitionOverdue: no answer after 62s",
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
	if err != nil {
		t.Fatal(err)
	}
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
	a, m := c.publisher(), NewMetrics(prometheus.NewRegistry())
	r := Reconcile{Observation: observe.Observation{Snapshot: s}, Plan: made, Results: []act.Result{{
		Action: made.Actions[0], Outcome: act.Failed, Err: errors.New("the node stays cordoned until it is uncordoned by hand"),
	}}}
	for range 2 {
		a.Publish(t.Context(), r)
		if err := m.publish(r, s.Now); err != nil {
			t.Fatal(err)
		}
	}
	const event = "Warning RolledBackFailed RepartitionOverdue: no answer after 6m: the node stays cordoned until it is uncordoned by hand"
	c.recorded(event, event)
	if n := testutil.ToFloat64(m.actions.WithLabelValues("rollback", "p", "RepartitionOverdue", "error")); n != 2 {
		t.Errorf("counted %v times", n)
	}
	if d := c.pool().Status.LastDecisions; len(d) != 1 || !d[0].Failed || d[0].On != "n1" {
		t.Errorf("decisions %+v", d)
	}
}
