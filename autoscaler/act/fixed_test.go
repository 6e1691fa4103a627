package act

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/plan"
)

// TestFixedPoolStaysAsItIs: actions that change the size of a fixed pool are refused
// before anything is written.
func TestFixedPoolStaysAsItIs(t *testing.T) {
	for name, c := range map[string]struct {
		do  plan.Action
		why string
	}{
		"grow":    {plan.Action{Verb: plan.ScaleUp, Pool: "p", From: 2, To: 3}, "pool p is fixed"},
		"shrink":  {plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: "p-1"}, "pool p does not scale down"},
		"replace": {replaceFirst, "pool p does not scale down"},
		"drain":   {drainAction(), "pool p does not scale down"},
	} {
		t.Run(name, func(t *testing.T) {
			control := newSick(t)
			if got := control.actor.Apply(t.Context(), control.snap, plan.Plan{Actions: []plan.Action{c.do}})[0].Outcome; got == Refused {
				t.Fatalf("%s: refused for a pool with a provider, too", got)
			}
			w := newSick(t)
			edit(w, testPool(), func(p *v1alpha1.GPUNodePool) {
				p.Spec.Min, p.Spec.Max = 0, 0
				p.Spec.Provider = v1alpha1.Provider{Fixed: &v1alpha1.FixedProvider{}}
			})
			w.actor.o.Pools = pools.Providers{Fixed: pools.NewFixed(w.client)}
			writes := w.writes
			got := w.actor.Apply(t.Context(), w.snap, plan.Plan{Actions: []plan.Action{c.do}})[0]
			if got.Outcome != Refused || !strings.Contains(got.Err.Error(), c.why) {
				t.Errorf("%s: %v, want %q", got.Outcome, got.Err, c.why)
			}
			if got := w.nodes(); !slices.Equal(got, []string{"p-1", "p-2"}) || w.writes != writes || len(w.evicted) > 0 {
				t.Errorf("nodes %v, %d writes, evicted %v", got, w.writes-writes, w.evicted)
			}
		})
	}
}

// TestWhatAFixedProviderRefusesIsNoFailure: a pool does not back off for it.
func TestWhatAFixedProviderRefusesIsNoFailure(t *testing.T) {
	if got := outcome(pools.NewFixed(nil).SetSize(t.Context(), testPool(), 3), false); got != Refused {
		t.Error(got)
	}
}
