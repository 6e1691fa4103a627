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

func cluster(t *testing.T, writes *int, objects ...client.Object) client.Client {
	t.Helper()
	return fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(objects...).WithStatusSubresource(&v1alpha1.GPUNodePool{}).
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

// TestAllOfMemoryIsKept: every field that may be lost by a restart is one that
// plan.Memory says may be.
func TestAllOfMemoryIsKept(t *testing.T) {
	writes := 0
	c := cluster(t, &writes, named("p"), named("q"))
	s := NewStatusStore(c, c)
	at := start.Truncate(time.Microsecond)
	stamps := func(names ...string) (out []plan.Stamp) {
		for i, n := range names {
			out = append(out, plan.Stamp{Name: n, At: at.Add(time.Duration(i) * time.Second)})
		}
		return out
	}
	m := plan.Memory{
		LastScaleUp: stamps("p", "q"), LastScaleDown: stamps("q"), LastRepartition: stamps("p-1", "q-1"), SickSince: stamps("p-1", "q-1"),
		LastReplace: stamps("p"), LastDrain: stamps("p", "q"),
		Grown:    []plan.Growth{{Pool: "p", At: at, Nodes: 2}, {Pool: "p", At: at.Add(time.Minute), Nodes: 1}, {Pool: "q", At: at, Nodes: 3}},
		Removed:  []plan.Growth{{Pool: "p", At: at, Nodes: 4}},
		Failures: []plan.Failure{{Name: "p-1/0", Count: 2, At: at}, {Name: "q-1/7", Count: 1, At: at}},
	}
	lost := map[string]bool{"FreeSince": true, "UnknownSince": true}
	for v, i := reflect.ValueOf(m), 0; i < v.NumField(); i++ {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() != lost[name] {
			t.Fatalf("plan.Memory.%s: this test does not know it", name)
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
	if text := func(m plan.Memory) string { return scenario.Print(plan.Snapshot{Now: at, Memory: m}) }; text(got) != text(m) {
		t.Errorf("read back\n%swant\n%s", text(got), text(m))
	}
	if got.Failures == nil || len(got.Grown) != 3 || !got.Grown[1].At.Equal(at.Add(time.Minute)) {
		t.Errorf("read back %+v", got)
	}
	snap.Memory, snap.Nodes = got, nil // both nodes flicker
	m.LastScaleUp[0].At = at.Add(time.Hour)
	if err := s.Save(t.Context(), snap, m); err != nil {
		t.Fatal(err)
	}
	if mem := getPool(t, c).Status.Memory; mem.Failures["p-1/0"].Count != 2 || !mem.SickSince["p-1"].Time.Equal(at) || len(mem.Failures) != 1 {
		t.Errorf("kept %+v", mem)
	}
}

// TestAPodIsToldThatItIsReclaimed: and so is the pod that it is done for.
func TestAPodIsToldThatItIsReclaimed(t *testing.T) {
	writes := 0
	recorder := record.NewFakeRecorder(20)
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "ns", Name: name} }
	c := cluster(t, &writes, &corev1.Pod{ObjectMeta: meta("lent")}, &corev1.Pod{ObjectMeta: meta("waits")})
	a := NewAnnouncer(c, recorder, slog.New(slog.DiscardHandler))
	a.Publish(t.Context(), Round{Results: []act.Result{{Outcome: act.Done, Action: plan.Action{
		Verb: plan.Reclaim, Pod: "ns/lent", Node: "n1", Reason: plan.ReclaimBorrowed, Detail: "team-a wants its own", For: []string{"ns/waits"},
	}}}})
	var events []string
	for len(recorder.Events) > 0 {
		events = append(events, <-recorder.Events)
	}
	const one = "Normal Reclaimed ns/lent on n1, ReclaimBorrowed: team-a wants its own"
	if want := []string{one, one, one}; !reflect.DeepEqual(events, want) { // both pods and the node
		t.Errorf("events %q, want %q", events, want)
	}
}

// TestEveryVerbHasWords: an Event without a word is refused by the API server.
func TestEveryVerbHasWords(t *testing.T) {
	for _, v := range []plan.Verb{plan.ScaleUp, plan.Repartition, plan.Uncordon, plan.Rollback, plan.Reclaim, plan.Drain, plan.RemoveNode, plan.Replace} {
		if words[v] == "" || beginnings[v] == "" {
			t.Errorf("%s: %q, %q", v, words[v], beginnings[v])
		}
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
	want := []string{"Normal TriggeredScaleUp p 1→3, RepartitionExhausted: why; in 30s"} // one line, not two
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
