package loop

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
)

// idleReconcile is a reconcile that found nothing to do.
func idleReconcile() Reconcile {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	return Reconcile{
		Observation: observe.Observation{Snapshot: plan.Snapshot{
			Now:   now,
			Pools: []plan.Pool{{Name: "p", Target: 1, Size: 1}},
			Nodes: []plan.Node{{Name: "p-1", Pool: "p", Ready: true, Created: now.Add(-time.Minute)}},
			Pods:  []plan.Pod{{Namespace: "chat", Name: "a", Node: "p-1"}},
		}},
		Plan: plan.Plan{Verdicts: []plan.Verdict{
			{Kind: plan.KindPool, Reason: plan.Steady}, {Kind: plan.KindNode, Reason: plan.NodeBusy}, {Kind: plan.KindPod, Reason: plan.Running},
		}},
	}
}

// TestPace: any change that comes by itself or soon keeps the interval short. Prometheus is queried often only while a
// decision depends on the exporters' readings; decisions about whole GPUs do not.
func TestPace(t *testing.T) {
	const neither, isIdle, isUnhurried = 0, 1, 2 // an idle reconcile is unhurried as well
	verdict := func(kind plan.Kind, reason plan.Reason) func(*Reconcile) {
		return func(r *Reconcile) {
			r.Plan.Verdicts = append(r.Plan.Verdicts, plan.Verdict{Kind: kind, Reason: reason})
		}
	}
	pending := func(d demand.Demand) func(*Reconcile) {
		return func(r *Reconcile) { r.Pods[0].Node, r.Pods[0].Demand = "", d }
	}
	for what, c := range map[string]struct {
		change func(*Reconcile)
		want   int
	}{
		"nothing happens":             {func(*Reconcile) {}, isIdle},
		"an action":                   {func(r *Reconcile) { r.Plan.Actions = []plan.Action{{Verb: plan.ScaleUp}} }, isUnhurried},
		"an action's result":          {func(r *Reconcile) { r.Results = []act.Result{{}} }, isUnhurried},
		"a pod is deleted":            {func(r *Reconcile) { r.Pods[0].Leaving = true }, isUnhurried},
		"a node that boots":           {func(r *Reconcile) { r.Nodes[0].Ready = false }, isUnhurried},
		"a node broken for hours":     {func(r *Reconcile) { r.Nodes[0].Ready, r.Nodes[0].Created = false, r.Now.Add(-2*bootsWithin) }, isIdle},
		"an upcoming node":            {func(r *Reconcile) { r.Pools[0].Target = 2 }, isUnhurried},
		"a pool that backs off":       {func(r *Reconcile) { r.Pools[0].BackoffUntil = r.Now.Add(time.Minute) }, isUnhurried},
		"an empty node":               {verdict(plan.KindNode, plan.NodeEmpty), isUnhurried},
		"a limit that was reached":    {verdict(plan.KindPool, plan.BoundReached), isUnhurried},
		"a pool that cools down":      {verdict(plan.KindPool, plan.CoolingDown), isUnhurried},
		"a pending pod":               {verdict(plan.KindPod, plan.WaitUpcomingNode), isUnhurried},
		"a GPU with unknown pods":     {verdict(plan.KindGPU, plan.AllocationUnknown), isIdle},
		"whole GPUs are pending":      {pending(demand.Demand{GPUs: 9}), isUnhurried},
		"an instance is pending":      {pending(demand.Demand{MIG: []demand.Instances{{Name: "1g.10gb", Count: 1}}}), neither},
		"a part of a GPU is pending":  {pending(demand.Demand{Fraction: &demand.Fraction{CoreMilli: 500}}), neither},
		"an unreadable demand":        {func(r *Reconcile) { r.Pods[0].Node, r.Pods[0].Unreadable = "", "two dialects" }, neither},
		"a repartition":               {func(r *Reconcile) { r.Nodes[0].Operation = &plan.Operation{} }, neither},
		"a node being drained":        {func(r *Reconcile) { r.Nodes[0].Drain = &plan.Draining{} }, neither},
		"a cordon of ours":            {func(r *Reconcile) { r.Nodes[0].CordonedBy = "op" }, neither},
		"unknown pods hold a pod up":  {verdict(plan.KindPod, plan.AllocationUnknown), neither},
		"a reclaim":                   {verdict(plan.KindPod, plan.WaitReclaim), neither},
		"no GPU can be repartitioned": {verdict(plan.KindPod, plan.RepartitionExhausted), neither},
	} {
		r := idleReconcile()
		c.change(&r)
		if got := idle(r); got != (c.want == isIdle) {
			t.Errorf("%s: idle %v", what, got)
		}
		if got := unhurried(&r); got != (c.want != neither) {
			t.Errorf("%s: unhurried %v", what, got)
		}
	}
	r := idleReconcile() // a gang's verdict counts without one of its pods
	verdict(plan.KindGang, plan.WaitRepartition)(&r)
	if unhurried(&r) {
		t.Error("unhurried while a gang waits for a repartition")
	}
	if new(State).Unhurried() {
		t.Error("unhurried before the first reconcile")
	}
}

// pacer is the fakes of a Loop; it counts reconciles.
type pacer struct {
	sync.Mutex
	result     Reconcile // of every reconcile
	err        error
	reconciles int
	each       func(now time.Time) // called at each reconcile; may be nil
}

func (p *pacer) Observe(_ context.Context, now time.Time) (observe.Observation, error) {
	p.Lock()
	defer p.Unlock()
	p.reconciles++
	if p.each != nil {
		p.each(now)
	}
	seen := p.result.Observation
	seen.Now = now
	return seen, p.err
}
func (*pacer) Load(context.Context) (plan.State, error) { return plan.State{}, nil }
func (*pacer) Save(context.Context, plan.Snapshot, plan.State) (map[string]error, error) {
	return nil, nil
}
func (*pacer) Apply(context.Context, plan.Snapshot, plan.Plan) []act.Result { return nil }

// pauses reports whether the next reconcile is due after more than the interval.
func pauses(s *State) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pause > s.interval
}

func pacing(t *testing.T, p *pacer, during func(*Loop, *Waker), interval ...time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := NewWaker()
		l := New(Options{
			Observer: p, Actor: p, Store: p, Interval: slices.Max(append(interval, time.Second)), IdleInterval: 10 * time.Second, Waker: w, Settle: 200 * time.Millisecond,
			Plan: func(plan.Snapshot, plan.Policy) plan.Plan {
				p.Lock()
				defer p.Unlock()
				return p.result.Plan
			},
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		during(l, w)
		stop()
		require.NoError(t, <-ended)
	})
}

// TestIdleInterval: after an idle reconcile the next is due after three times IdleInterval, or once where a
// provider gives notices, after a change when the interval is over, for an unschedulable pod at once. While pods
// wait it is due after five intervals, whatever else changes, and after one where something is done.
func TestIdleInterval(t *testing.T) {
	for notices, interval := range map[bool]time.Duration{true: 10 * time.Second, false: 30 * time.Second} {
		p := &pacer{result: idleReconcile()}
		p.result.Notices = notices
		pacing(t, p, func(l *Loop, w *Waker) {
			expect := func(reconciles int, idle bool) {
				t.Helper()
				synctest.Wait()
				p.Lock()
				defer p.Unlock()
				if p.reconciles != reconciles || pauses(l.State) != idle {
					t.Errorf("notices %v: %d reconciles, idle %v; want %d, %v", notices, p.reconciles, pauses(l.State), reconciles, idle)
				}
			}
			time.Sleep(interval - 500*time.Millisecond)
			expect(1, true)
			time.Sleep(time.Second)
			expect(2, true) // half a second ago
			if err := l.State.Live(); err != nil {
				t.Errorf("an idle loop: %v", err)
			}
			w.Stir() // the interval since the last reconcile is over in half a second
			expect(2, false)
			time.Sleep(600 * time.Millisecond)
			expect(3, true)
			time.Sleep(5 * time.Second)
			w.Stir() // the interval is long over
			expect(4, true)
			w.Wake()
			time.Sleep(250 * time.Millisecond)
			expect(5, true)
			p.Lock()
			p.result.Pods = []plan.Pod{{Namespace: "chat", Name: "a"}} // a pod that waits: each five seconds
			p.Unlock()
			w.Wake()
			time.Sleep(650 * time.Millisecond)
			expect(6, true)
			w.Stir() // a pod is bound, or a node comes
			time.Sleep(4 * time.Second)
			expect(6, true)
			p.Lock()
			p.result.Plan.Actions = []plan.Action{{Verb: plan.ScaleUp}} // each second
			p.Unlock()
			time.Sleep(time.Second)
			expect(7, false)
			time.Sleep(5 * time.Second)
			expect(12, false)
		})
	}
}

// TestChangeEndsIdleInterval: a change ends the idle interval also where that is shorter than five intervals.
func TestChangeEndsIdleInterval(t *testing.T) {
	p := &pacer{result: idleReconcile()}
	p.result.Notices = true
	pacing(t, p, func(_ *Loop, w *Waker) {
		time.Sleep(time.Second)
		w.Stir()
		time.Sleep(3500 * time.Millisecond)
		synctest.Wait()
		p.Lock()
		defer p.Unlock()
		if p.reconciles != 2 {
			t.Errorf("%d reconciles within an interval of the change, want 2", p.reconciles)
		}
	}, 4*time.Second)
}

// TestFailuresBackOff: failed reconciles become rarer, an unschedulable pod ends the wait, and the same error is logged
// once.
func TestFailuresBackOff(t *testing.T) {
	p := &pacer{result: idleReconcile()}
	var log bytes.Buffer
	pacing(t, p, func(l *Loop, w *Waker) {
		l.o.Log = slog.New(slog.NewTextHandler(&log, nil))
		var at []time.Duration
		began := time.Now()
		fail := func(err error) {
			p.Lock()
			defer p.Unlock()
			p.err = err
			p.each = func(now time.Time) { at = append(at, now.Sub(began).Round(time.Second)) }
		}
		time.Sleep(500 * time.Millisecond)
		fail(errors.New("no"))
		w.Stir()
		time.Sleep(40 * time.Second)
		w.Wake()
		time.Sleep(500 * time.Millisecond)
		fail(nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		want := []time.Duration{1, 2, 4, 8, 16, 26, 36, 41, 51}
		for i := range want {
			want[i] *= time.Second
		}
		if !slices.Equal(at, want) {
			t.Errorf("reconciles after %v, want %v", at, want)
		}
	})
	if failed, again := strings.Count(log.String(), "reconcile failed"), strings.Count(log.String(), "reconcile succeeded again"); failed != 1 || again != 1 {
		t.Errorf("%d failures and %d recoveries are logged, want 1 and 1:\n%s", failed, again, &log)
	}
}

// TestSettle: a reconcile waits while more unschedulable pods come, at most three times
// Settle.
func TestSettle(t *testing.T) {
	for _, each := range []struct {
		pods  int // 50 ms apart
		after time.Duration
	}{{1, 200 * time.Millisecond}, {3, 200 * time.Millisecond}, {6, 350 * time.Millisecond}, {40, 600 * time.Millisecond}} {
		p := &pacer{result: idleReconcile()}
		pacing(t, p, func(_ *Loop, w *Waker) {
			time.Sleep(2 * time.Second)
			began, first := time.Now(), time.Time{}
			p.Lock()
			p.each = func(now time.Time) {
				if first.IsZero() {
					first = now
				}
			}
			p.Unlock()
			go func() {
				for range each.pods {
					w.Wake()
					time.Sleep(50 * time.Millisecond)
				}
			}()
			time.Sleep(5 * time.Second)
			synctest.Wait()
			p.Lock()
			defer p.Unlock()
			if took := first.Sub(began); took != each.after {
				t.Errorf("%d pods: a reconcile after %s, want %s", each.pods, took, each.after)
			}
		})
	}
}

// TestBurstSettlesLonger: while a burst goes on each reconcile settles longer than the one before,
// up to maxSettle, also where pods come with gaps. After a pause the next pod waits for Settle alone.
func TestBurstSettlesLonger(t *testing.T) {
	p := &pacer{result: idleReconcile()}
	pacing(t, p, func(_ *Loop, w *Waker) {
		time.Sleep(2 * time.Second)
		began, after := time.Now(), []time.Duration(nil)
		p.Lock()
		p.each = func(now time.Time) { after = append(after, now.Sub(began).Round(200*time.Millisecond)) }
		p.Unlock()
		for at := range 8 * 20 {
			if at%20 < 15 { // three quarters of each second
				w.Wake()
			}
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		w.Wake()
		time.Sleep(time.Second)
		synctest.Wait()
		p.Lock()
		defer p.Unlock()
		want := []time.Duration{600, 1200, 2400, 4200, 6000, 7800, 13200} // 13,000 ms is the last pod's
		for i := range want {
			want[i] *= time.Millisecond
		}
		if !slices.Equal(after, want) {
			t.Errorf("reconciles after %v, want %v", after, want)
		}
	})
}

// TestWhatWakes: which changes of pods, nodes and pools cause a reconcile.
func TestWhatWakes(t *testing.T) {
	pod := func(change ...func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}},
		}}}}
		for _, c := range change {
			c(p)
		}
		return p
	}
	plain := func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = nil }
	over := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	unplaced := func(p *corev1.Pod) {
		p.Spec.NodeName = ""
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	}
	message := func(p *corev1.Pod) { p.Status.Message = "still here" }
	node := func(change ...func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		}}
		for _, c := range change {
			c(n)
		}
		return n
	}
	beat := func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.Now() }
	lost := func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }
	fewer := func(n *corev1.Node) {
		n.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("7")}
	}
	tainted := func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "a"}} }
	annotated := func(key string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Annotations = map[string]string{key: "x"} }
	}
	pool := func(generation int64, ready int32) *v1alpha1.GPUNodePool {
		return &v1alpha1.GPUNodePool{ObjectMeta: metav1.ObjectMeta{Generation: generation}, Status: v1alpha1.GPUNodePoolStatus{Ready: ready}}
	}
	const no, soon, now = "", "soon", "now"
	for name, each := range map[string]struct {
		do   func(w *Waker)
		want string
	}{
		"a pod has come":          {func(w *Waker) { w.Pods().OnAdd(pod(), false) }, soon},
		"one without devices":     {func(w *Waker) { w.Pods().OnAdd(pod(plain), false) }, no},
		"an unschedulable pod":    {func(w *Waker) { w.Pods().OnAdd(pod(unplaced), false) }, now},
		"its status again":        {func(w *Waker) { w.Pods().OnUpdate(pod(unplaced), pod(unplaced, message)) }, no},
		"a pod has ended":         {func(w *Waker) { w.Pods().OnUpdate(pod(), pod(over)) }, soon},
		"a pod has a new message": {func(w *Waker) { w.Pods().OnUpdate(pod(), pod(message)) }, no},
		"a pod has gone":          {func(w *Waker) { w.Pods().OnDelete(pod()) }, soon},
		"one without devices has": {func(w *Waker) { w.Pods().OnDelete(pod(plain)) }, no},
		"one whose end was missed": {func(w *Waker) {
			w.Pods().OnDelete(cache.DeletedFinalStateUnknown{Obj: pod()})
		}, soon},
		"an agent's report":    {func(w *Waker) { w.Nodes().OnUpdate(node(), node(annotated(contract.LayoutAnnotation))) }, no},
		"an agent's answer":    {func(w *Waker) { w.Nodes().OnUpdate(node(), node(annotated(contract.AgentAnnotation))) }, soon},
		"another's annotation": {func(w *Waker) { w.Nodes().OnUpdate(node(), node(annotated("hami.io/node-handshake"))) }, no},
		"a heartbeat":          {func(w *Waker) { w.Nodes().OnUpdate(node(), node(beat)) }, no},
		"a node is lost":       {func(w *Waker) { w.Nodes().OnUpdate(node(), node(lost)) }, soon},
		"a device is lost":     {func(w *Waker) { w.Nodes().OnUpdate(node(), node(fewer)) }, soon},
		"a taint":              {func(w *Waker) { w.Nodes().OnUpdate(node(), node(tainted)) }, soon},
		"a pool's spec":        {func(w *Waker) { w.Specs().OnUpdate(pool(1, 0), pool(2, 0)) }, now},
		"a pool's status":      {func(w *Waker) { w.Specs().OnUpdate(pool(1, 0), pool(1, 5)) }, no},
	} {
		w := NewWaker()
		each.do(w)
		each.do(w) // a second token is merged, without blocking
		got := no
		if len(w.changed) > 0 {
			got = soon
		}
		if len(w.urgent) > 0 {
			got = now
		}
		if got != each.want {
			t.Errorf("%s: a reconcile %q, want %q", name, got, each.want)
		}
	}
}
