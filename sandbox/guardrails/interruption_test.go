package guardrails

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/plan"
)

// spot is a provider that reports interruptions, like the event queue of an ASG.
type spot struct {
	pools.Provider

	mu      sync.Mutex
	notices []pools.Notice
}

func (s *spot) List(ctx context.Context, pool *v1alpha1.GPUNodePool) (pools.Listing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := s.Provider.List(ctx, pool)
	l.Notices = slices.Clone(s.notices)
	return l, err
}

func (s *spot) give(l pools.Notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notices = append(s.notices, l)
}

// TestInterruption: a spot interruption in two minutes drains the node within one reconcile, in addition to
// another drain that is under way. Pods get at most the remaining time as their grace period. Another node is
// added in the same reconcile. Once empty, the node is removed before the two minutes are over. A rebalance
// recommendation only cordons the node.
func TestInterruption(t *testing.T) {
	provider := &spot{}
	w := newWorld(t, setup{provider: func(p pools.Provider) pools.Provider { provider.Provider = p; return provider }})
	w.pool("spot", 2, 5, func(p *v1alpha1.GPUNodePool) { p.Spec.Spot = true })
	w.until("the fleet", w.has("spot", 2))
	w.work("train", "spot", 2, perNode, func(p *corev1.PodTemplateSpec) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](600) })
	w.await("both run", w.runs("train", 2))
	w.reconcile()

	provider.give(pools.Notice{Instance: "spot-2", At: w.now()})
	w.reconciles(3)
	if err := w.untouched("spot-2"); err != nil {
		t.Errorf("a recommendation is no interruption: %v", err)
	}

	there := ""
	for _, p := range w.pods("train") {
		if p.Spec.NodeName == "spot-1" {
			there = p.Name
		}
	}
	begin := w.now()
	provider.give(pools.Notice{Instance: "spot-1", At: begin, Ends: begin.Add(2 * time.Minute)})
	w.reconcile()
	if err := w.draining("spot-1")(); err != nil {
		t.Fatalf("a reconcile after the interruption: %v", err)
	}
	if e := w.evictions(there); len(e) != 1 || e[0].RequestObject.DeleteOptions.GracePeriodSeconds == nil || *e[0].RequestObject.DeleteOptions.GracePeriodSeconds < 60 || *e[0].RequestObject.DeleteOptions.GracePeriodSeconds > 115 {
		t.Errorf("evictions %v: want one, with what is left of two minutes", e)
	}
	if n := len(w.nodes("spot")); n != 3 {
		t.Fatalf("%d nodes, want another one in the same reconcile", n)
	}
	if got := verdict(w, plan.KindNode, "spot-1").Reason; got != plan.NodeInterrupted {
		t.Errorf("the node's reason is %s", got)
	}
	most := 0
	w.until("both run, neither there", func() error {
		most = max(most, len(w.nodes("spot")))
		for _, p := range w.pods("train") {
			if p.Spec.NodeName == "spot-1" {
				return fmt.Errorf("%s is on spot-1", p.Name)
			}
		}
		return w.runs("train", 2)()
	})
	w.until("the node is removed", w.has("spot", 2))
	if late := w.now().Sub(begin); late > 2*time.Minute {
		t.Errorf("it took %s", late)
	}
	if most > 3 {
		t.Errorf("%d nodes at one time: more than one was added for one", most)
	}
	for _, n := range w.nodes("spot") {
		if n.Name == "spot-1" {
			t.Error("another node went in its stead")
		}
	}
}

func verdict(w *world, kind plan.Kind, subject string) plan.Verdict {
	last, _ := w.loop.State.Last()
	for _, v := range last.Plan.Verdicts {
		if v.Kind == kind && v.Subject == subject {
			return v
		}
	}
	return plan.Verdict{}
}
