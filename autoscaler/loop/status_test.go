package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/plan"
)

var start = time.Date(2026, 11, 21, 9, 0, 0, 123456789, time.UTC)

func cluster(t *testing.T, writes *int, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.GPUNodePool{}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			*writes++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		}}).Build()
}

func getPool(t *testing.T, c client.Client) v1alpha1.GPUNodePool {
	t.Helper()
	var p v1alpha1.GPUNodePool
	if err := c.Get(t.Context(), client.ObjectKey{Name: "p"}, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func named(name string) *v1alpha1.GPUNodePool {
	return &v1alpha1.GPUNodePool{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 3}}
}

func TestMemoryRoundTrip(t *testing.T) {
	writes := 0
	c := cluster(t, &writes, named("p"), named("q"))
	s := NewStatusStore(c, c)
	m := plan.Memory{
		LastScaleUp:     []plan.Stamp{{Name: "p", At: start}},
		LastScaleDown:   []plan.Stamp{{Name: "q", At: start.Add(time.Hour)}},
		LastRepartition: []plan.Stamp{{Name: "p-1", At: start}, {Name: "q-1", At: start}},
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
	micros := start.Truncate(time.Microsecond)
	if len(got.LastScaleUp) != 1 || !got.LastScaleUp[0].At.Equal(micros) || len(got.LastScaleDown) != 1 || len(got.LastRepartition) != 2 {
		t.Errorf("read back %+v", got)
	}
	if writes != 2 {
		t.Errorf("%d writes for two pools", writes)
	}
	snap.Memory = got
	if err := s.Save(t.Context(), snap, m); err != nil || writes != 2 {
		t.Errorf("%d writes, %v: nothing changed", writes, err)
	}
	// The node is gone for a while: what is remembered about it is not.
	snap.Nodes, snap.Memory = snap.Nodes[1:], m
	m.LastScaleUp = []plan.Stamp{{Name: "p", At: start.Add(time.Minute)}}
	if err := s.Save(t.Context(), snap, m); err != nil {
		t.Fatal(err)
	}
	if _, ok := getPool(t, c).Status.Memory.LastRepartition["p-1"]; !ok {
		t.Error("the stamp of a node that flickers was lost")
	}
}

func TestStatusAndEvents(t *testing.T) {
	writes := 0
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "a"}}
	c := cluster(t, &writes, named("p"), named("bad"), pod)
	recorder := record.NewFakeRecorder(20)
	a := NewAnnouncer(c, recorder, slog.New(slog.DiscardHandler))
	round := Round{
		Observation: observe.Observation{
			Snapshot: plan.Snapshot{
				Now:   start,
				Pools: []plan.Pool{{Name: "p", Min: 1, Max: 4, Target: 1, Size: 1}},
				Nodes: []plan.Node{{Name: "p-1", Pool: "p", Ready: true, Cards: make([]plan.Card, 1)}},
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
	a.Publish(t.Context(), round)
	p := getPool(t, c)
	if s := p.Status; s.Size != 1 || s.Target != 3 || s.Ready != 1 || s.Upcoming != 2 || s.Reason != "Steady" || s.ObservedGeneration != 3 {
		t.Errorf("status %+v", s)
	}
	if !meta.IsStatusConditionTrue(p.Status.Conditions, conditionReady) || !meta.IsStatusConditionTrue(p.Status.Conditions, conditionValid) {
		t.Errorf("conditions %+v", p.Status.Conditions)
	}
	var events []string
	for len(recorder.Events) > 0 {
		events = append(events, <-recorder.Events)
	}
	want := []string{"Normal TriggeredScaleUp p 1→3, RepartitionExhausted: why", "Normal WaitUpcomingNode in 30s"}
	if !reflect.DeepEqual(events, want) {
		t.Errorf("events %q, want %q", events, want)
	}
	if writes != 2 {
		t.Errorf("%d writes for two pools", writes)
	}

	// A detail that only counts down is neither an Event nor a write each second.
	round.Now, round.Results = start.Add(time.Second), nil
	round.Pools[0].Target = 3
	round.Plan.Verdicts = slicesReplaceDetail(round.Plan.Verdicts)
	a.Publish(t.Context(), round)
	if writes != 2 || len(recorder.Events) != 0 {
		t.Errorf("%d writes, %d events", writes, len(recorder.Events))
	}
	round.Now = start.Add(messageEvery)
	a.Publish(t.Context(), round)
	if writes != 3 {
		t.Errorf("%d writes: the message is never refreshed", writes)
	}
}

// TestWhatTakesRoundsIsToldOnce: an undo that waits for mig-manager is an Event
// when it begins and when it has ended, however often its detail changes.
func TestWhatTakesRoundsIsToldOnce(t *testing.T) {
	writes := 0
	recorder := record.NewFakeRecorder(20)
	a := NewAnnouncer(cluster(t, &writes), recorder, slog.New(slog.DiscardHandler))
	undo := func(outcome act.Outcome, detail string) {
		a.Publish(t.Context(), Round{Results: []act.Result{{Outcome: outcome, Action: plan.Action{
			Verb: plan.Rollback, Node: "n1", Reason: plan.RepartitionOverdue, Detail: detail,
		}}}})
	}
	undo(act.Waiting, "no answer after 60s")
	undo(act.Waiting, "no answer after 61s")
	undo(act.Done, "no answer after 62s")
	var events []string
	for len(recorder.Events) > 0 {
		events = append(events, <-recorder.Events)
	}
	want := []string{
		"Warning RollingBack RepartitionOverdue: no answer after 60s",
		"Warning RolledBack RepartitionOverdue: no answer after 62s",
	}
	if !reflect.DeepEqual(events, want) {
		t.Errorf("events %q, want %q", events, want)
	}
}

func slicesReplaceDetail(verdicts []plan.Verdict) []plan.Verdict {
	out := make([]plan.Verdict, len(verdicts))
	for i, v := range verdicts {
		v.Detail = fmt.Sprintf("%s, later", v.Detail)
		out[i] = v
	}
	return out
}

func TestWakerCoalesces(t *testing.T) {
	w := NewWaker()
	stuckPod := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
	}}}}
	for range 3 {
		w.Handler().OnUpdate(&corev1.Pod{}, stuckPod)
	}
	w.Handler().OnUpdate(stuckPod, stuckPod)
	w.Handler().OnAdd(&corev1.Pod{}, false)
	if n := len(w.C()); n != 1 {
		t.Errorf("%d wake-ups", n)
	}
}
