package loop

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/plan"
)

// settled is a round in which there is nothing to do.
func settled() Round {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	return Round{
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

// TestStill: whatever may change by itself, or soon, keeps rounds coming.
func TestStill(t *testing.T) {
	if !still(settled()) {
		t.Fatal("nothing to do, and not still")
	}
	for what, change := range map[string]func(*Round){
		"an action":                  func(r *Round) { r.Plan.Actions = []plan.Action{{Verb: plan.ScaleUp}} },
		"what was done":              func(r *Round) { r.Results = []act.Result{{}} },
		"a pod that waits":           func(r *Round) { r.Pods[0].Node = "" },
		"a pod that leaves":          func(r *Round) { r.Pods[0].Leaving = true },
		"a card being cut":           func(r *Round) { r.Nodes[0].Operation = &plan.Operation{} },
		"a node being drained":       func(r *Round) { r.Nodes[0].Drain = &plan.Draining{} },
		"a cordon of ours":           func(r *Round) { r.Nodes[0].CordonedBy = "op" },
		"a node that boots":          func(r *Round) { r.Nodes[0].Ready = false },
		"a node that was asked for":  func(r *Round) { r.Pools[0].Target = 2 },
		"a pool that backs off":      func(r *Round) { r.Pools[0].BackoffUntil = r.Now.Add(time.Minute) },
		"an empty node":              func(r *Round) { r.Plan.Verdicts[1].Reason = plan.NodeEmpty },
		"a bound that was reached":   func(r *Round) { r.Plan.Verdicts[0].Reason = plan.BoundReached },
		"a pool that cools down":     func(r *Round) { r.Plan.Verdicts[0].Reason = plan.CoolingDown },
		"a pod's verdict of waiting": func(r *Round) { r.Plan.Verdicts[2].Reason = plan.WaitUpcomingNode },
	} {
		r := settled()
		change(&r)
		if still(r) {
			t.Errorf("%s: still", what)
		}
	}
	r := settled()
	r.Nodes[0].Ready, r.Nodes[0].Created = false, r.Now.Add(-2*bootsWithin)
	if !still(r) {
		t.Error("a node that has been broken for hours keeps the loop busy")
	}
}

// TestUnhurried: Prometheus is asked as often as ever once somebody waits for what only
// the exporters know, and rarely while all that waits are whole cards.
func TestUnhurried(t *testing.T) {
	for what, change := range map[string]func(*Round){
		"nothing waits": func(*Round) {},
		"a pod waits for a node": func(r *Round) {
			r.Pods[0].Node, r.Pods[0].Demand.Cards = "", 8
			r.Plan.Verdicts[2].Reason = plan.WaitUpcomingNode
		},
		"a pod that no pool fits": func(r *Round) {
			r.Pods[0].Node, r.Pods[0].Demand.Cards = "", 9
			r.Plan.Verdicts[2].Reason = plan.NoPoolFits
		},
		"a node is bought":       func(r *Round) { r.Plan.Actions = []plan.Action{{Verb: plan.ScaleUp}} },
		"a card nobody knows of": func(r *Round) { r.Plan.Verdicts[1] = plan.Verdict{Kind: plan.KindCard, Reason: plan.HoldersUnknown} },
	} {
		r := settled()
		if change(&r); !unhurried(&r) {
			t.Errorf("%s: in a hurry", what)
		}
	}
	for what, change := range map[string]func(*Round){
		"an instance is waited for": func(r *Round) {
			r.Pods[0].Node, r.Pods[0].Demand.MIG = "", []demand.Instances{{Name: "1g.10gb", Count: 1}}
		},
		"part of a card is waited for":   func(r *Round) { r.Pods[0].Node, r.Pods[0].Demand.Fraction = "", &demand.Fraction{CoreMilli: 500} },
		"nobody can read what it wants":  func(r *Round) { r.Pods[0].Node, r.Pods[0].Unreadable = "", "two dialects" },
		"a card is being cut":            func(r *Round) { r.Nodes[0].Operation = &plan.Operation{} },
		"a node is being drained":        func(r *Round) { r.Nodes[0].Drain = &plan.Draining{} },
		"a cordon of ours":               func(r *Round) { r.Nodes[0].CordonedBy = "op" },
		"holders keep a pod waiting":     func(r *Round) { r.Plan.Verdicts[2].Reason = plan.HoldersUnknown },
		"a pod waits for those who left": func(r *Round) { r.Plan.Verdicts[2].Reason = plan.WaitReclaim },
		"no card could be cut":           func(r *Round) { r.Plan.Verdicts[2].Reason = plan.RepartitionExhausted },
		"a gang waits for a cut": func(r *Round) {
			r.Plan.Verdicts[2] = plan.Verdict{Kind: plan.KindGang, Reason: plan.WaitRepartition}
		},
	} {
		r := settled()
		if change(&r); unhurried(&r) {
			t.Errorf("%s: no hurry", what)
		}
	}
	if newState(time.Second, time.Now).Unhurried() {
		t.Error("no hurry before the first round")
	}
}

// pacer counts rounds in which it shows what it is told to.
type pacer struct {
	sync.Mutex
	shows  Round
	err    error
	rounds int
	each   func(now time.Time) // told of each round; may be nil
}

func (p *pacer) Observe(_ context.Context, now time.Time) (observe.Observation, error) {
	p.Lock()
	defer p.Unlock()
	p.rounds++
	if p.each != nil {
		p.each(now)
	}
	seen := p.shows.Observation
	seen.Now = now
	return seen, p.err
}
func (*pacer) Load(context.Context) (plan.Memory, error)                    { return plan.Memory{}, nil }
func (*pacer) Save(context.Context, plan.Snapshot, plan.Memory) error       { return nil }
func (*pacer) Resume(context.Context, time.Time) error                      { return nil }
func (*pacer) Apply(context.Context, plan.Snapshot, plan.Plan) []act.Result { return nil }

func pacing(t *testing.T, p *pacer, during func(*Loop, *Waker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := NewWaker()
		l := New(Options{
			Observer: p, Actor: p, Store: p, Quiet: 10 * time.Second, Changed: w.Changed(), Wake: w.C(), Settle: 200 * time.Millisecond,
			Plan: func(plan.Snapshot, plan.Policy) plan.Plan {
				p.Lock()
				defer p.Unlock()
				return p.shows.Plan
			},
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		during(l, w)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestQuietRounds: while nothing happens there is a round in ten seconds; a change
// brings one after the interval, a pod that cannot be placed one at once.
func TestQuietRounds(t *testing.T) {
	p := &pacer{shows: settled()}
	pacing(t, p, func(l *Loop, w *Waker) {
		expect := func(rounds int, quiet bool) {
			t.Helper()
			synctest.Wait()
			p.Lock()
			defer p.Unlock()
			if p.rounds != rounds || l.State.Quiet() != quiet {
				t.Errorf("%d rounds, quiet %v; want %d, %v", p.rounds, l.State.Quiet(), rounds, quiet)
			}
		}
		time.Sleep(9500 * time.Millisecond)
		expect(1, true)
		time.Sleep(time.Second)
		expect(2, true) // at 10 s
		if err := l.State.Live(); err != nil {
			t.Errorf("a loop that pauses: %v", err)
		}
		w.Stir() // at 10.5 s: the interval since the last round is over at 11 s
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
		p.shows.Pods = []plan.Pod{{Namespace: "chat", Name: "a"}} // somebody waits: each second
		p.Unlock()
		w.Wake()
		time.Sleep(250 * time.Millisecond)
		expect(6, false)
		time.Sleep(5 * time.Second)
		expect(11, false)
	})
}

// TestFailuresAreNotQuiet: a round that fails is tried again after the interval.
func TestFailuresAreNotQuiet(t *testing.T) {
	p := &pacer{shows: settled()}
	pacing(t, p, func(l *Loop, w *Waker) {
		time.Sleep(500 * time.Millisecond)
		p.Lock()
		p.err = errors.New("no")
		p.Unlock()
		w.Stir()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		p.Lock()
		defer p.Unlock()
		if p.rounds != 1+5 || l.State.Quiet() {
			t.Errorf("%d rounds, quiet %v", p.rounds, l.State.Quiet())
		}
	})
}

// TestSettle: while more pods come that cannot be placed a round waits, but for three
// times the settle time at the most.
func TestSettle(t *testing.T) {
	for _, each := range []struct {
		pods  int // 50 ms apart
		after time.Duration
	}{{1, 200 * time.Millisecond}, {3, 200 * time.Millisecond}, {6, 350 * time.Millisecond}, {40, 600 * time.Millisecond}} {
		p := &pacer{shows: settled()}
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
				t.Errorf("%d pods: a round after %s, want %s", each.pods, took, each.after)
			}
		})
	}
}

// TestACrowdSettlesLonger: while very many wait, a round waits longer for more.
func TestACrowdSettlesLonger(t *testing.T) {
	for waiting, want := range map[int]time.Duration{0: 600 * time.Millisecond, crowd - 1: 600 * time.Millisecond, crowd: time.Second} {
		l := New(Options{Settle: 200 * time.Millisecond})
		r := settled()
		for range waiting {
			r.Pods = append(r.Pods, plan.Pod{})
		}
		l.State.keep(r)
		if got := l.longest(); got != want {
			t.Errorf("%d pods wait: settles up to %s, want %s", waiting, got, want)
		}
	}
}

// TestWhatWakes: which changes of pods, nodes and pools ask for a round.
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
	talks := func(p *corev1.Pod) { p.Status.Message = "still here" }
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
	pool := func(generation int64, ready int32) *v1alpha1.GPUNodePool {
		return &v1alpha1.GPUNodePool{ObjectMeta: metav1.ObjectMeta{Generation: generation}, Status: v1alpha1.GPUNodePoolStatus{Ready: ready}}
	}
	const no, soon, now = "", "soon", "now"
	for name, each := range map[string]struct {
		do   func(w *Waker)
		want string
	}{
		"a pod has come":           {func(w *Waker) { w.Handler().OnAdd(pod(), false) }, soon},
		"one without devices":      {func(w *Waker) { w.Handler().OnAdd(pod(plain), false) }, no},
		"a pod that fits nowhere":  {func(w *Waker) { w.Handler().OnAdd(pod(unplaced), false) }, now},
		"it is told again":         {func(w *Waker) { w.Handler().OnUpdate(pod(unplaced), pod(unplaced, talks)) }, no},
		"a pod has ended":          {func(w *Waker) { w.Handler().OnUpdate(pod(), pod(over)) }, soon},
		"a pod has said something": {func(w *Waker) { w.Handler().OnUpdate(pod(), pod(talks)) }, no},
		"a pod has gone":           {func(w *Waker) { w.Handler().OnDelete(pod()) }, soon},
		"a heartbeat":              {func(w *Waker) { w.Nodes().OnUpdate(node(), node(beat)) }, no},
		"a node is lost":           {func(w *Waker) { w.Nodes().OnUpdate(node(), node(lost)) }, soon},
		"a device is lost":         {func(w *Waker) { w.Nodes().OnUpdate(node(), node(fewer)) }, soon},
		"a taint":                  {func(w *Waker) { w.Nodes().OnUpdate(node(), node(tainted)) }, soon},
		"a pool's spec":            {func(w *Waker) { w.Specs().OnUpdate(pool(1, 0), pool(2, 0)) }, now},
		"a pool's status":          {func(w *Waker) { w.Specs().OnUpdate(pool(1, 0), pool(1, 5)) }, no},
	} {
		w := NewWaker()
		each.do(w)
		got := no
		if len(w.Changed()) > 0 {
			got = soon
		}
		if len(w.C()) > 0 {
			got = now
		}
		if got != each.want {
			t.Errorf("%s: a round %q, want %q", name, got, each.want)
		}
	}
}
