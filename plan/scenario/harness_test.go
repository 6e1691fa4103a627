package scenario_test

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
	"github.com/gpuscale/gpuscale/plan/sim"
)

// harness is what must hold of every plan.
func harness(s plan.Snapshot, p plan.Policy, made plan.Plan) error {
	if err := s.Check(); err != nil {
		return fmt.Errorf("the snapshot is not in order: %w", err)
	}
	if err := p.Check(); err != nil {
		return fmt.Errorf("the policy is not in order: %w", err)
	}
	for _, check := range []func(plan.Snapshot, plan.Policy, plan.Plan) error{
		sameShuffled, withinBounds, withinRates, nothingAllocatedDestroyed, evictsWithCare, drainsWithCare,
		withinLimits, nothingForRefused, noHalfGang, oneVerdictEach, nothingLeft, printsBack, explainedAlike, promisesHold,
	} {
		if err := check(s, p, made); err != nil {
			return err
		}
	}
	return nil
}

// sameShuffled: an equal snapshot in another order gives an equal plan.
func sameShuffled(s plan.Snapshot, p plan.Policy, made plan.Plan) error {
	r := rand.New(rand.NewSource(1))
	t := (&sim.World{State: s}).Snapshot()
	r.Shuffle(len(t.Pools), func(i, j int) { t.Pools[i], t.Pools[j] = t.Pools[j], t.Pools[i] })
	r.Shuffle(len(t.Nodes), func(i, j int) { t.Nodes[i], t.Nodes[j] = t.Nodes[j], t.Nodes[i] })
	r.Shuffle(len(t.Pods), func(i, j int) { t.Pods[i], t.Pods[j] = t.Pods[j], t.Pods[i] })
	r.Shuffle(len(t.Tenants), func(i, j int) { t.Tenants[i], t.Tenants[j] = t.Tenants[j], t.Tenants[i] })
	r.Shuffle(len(t.Forecasts), func(i, j int) { t.Forecasts[i], t.Forecasts[j] = t.Forecasts[j], t.Forecasts[i] })
	for i := range t.Pods {
		budgets := t.Pods[i].Budgets
		r.Shuffle(len(budgets), func(i, j int) { budgets[i], budgets[j] = budgets[j], budgets[i] })
	}
	for n := range t.Nodes {
		gpus := t.Nodes[n].GPUs
		r.Shuffle(len(gpus), func(i, j int) { gpus[i], gpus[j] = gpus[j], gpus[i] })
		for _, c := range gpus {
			r.Shuffle(len(c.Instances), func(i, j int) { c.Instances[i], c.Instances[j] = c.Instances[j], c.Instances[i] })
		}
	}
	if other := plan.Make(t, p).String(); other != made.String() {
		return fmt.Errorf("shuffled, another plan:\n%s", other)
	}
	return nil
}

func withinBounds(s plan.Snapshot, p plan.Policy, made plan.Plan) error {
	removals := 0
	perNode := map[string]int{}
	for _, a := range made.Actions {
		if a.Verb != plan.Reclaim { // several may be on a node
			perNode[a.Node]++
		}
		if a.Verb == plan.RemoveNode {
			removals++
		}
		i := slices.IndexFunc(s.Pools, func(q plan.Pool) bool { return q.Name == a.Pool })
		switch {
		case a.Node != "" && perNode[a.Node] > 1:
			return fmt.Errorf("two actions on node %s", a.Node)
		case a.Verb == plan.Uncordon, a.Verb == plan.Rollback: // they end an operation
		case i >= 0 && s.Pools[i].Fixed && resizes(a):
			return fmt.Errorf("of a fixed pool, and yet: %s", a)
		case p.Freeze, i >= 0 && s.Pools[i].Freeze:
			return fmt.Errorf("frozen, and yet: %s", a)
		case a.Verb == plan.ScaleUp && (a.To > s.Pools[i].Max || a.To-a.From > p.MaxNodesPerScaleUp):
			return fmt.Errorf("grows beyond its bounds: %s", a)
		}
	}
	for _, v := range made.Verdicts {
		i := slices.IndexFunc(s.Pools, func(q plan.Pool) bool { return v.Kind == plan.KindPool && q.Name == v.Subject })
		if i >= 0 && s.Pools[i].Fixed && (v.Reason == plan.PoolAtMax || v.Reason == plan.BackingOff) {
			return fmt.Errorf("of a fixed pool: %s", v)
		}
	}
	for _, q := range s.Pools {
		gone := 0
		for _, a := range made.Actions {
			if a.Verb == plan.RemoveNode && a.Pool == q.Name {
				gone++
			}
		}
		if gone > 0 && q.Target-gone < q.Min {
			return fmt.Errorf("pool %s shrinks below its minimum", q.Name)
		}
	}
	begun := 0 // what ends or takes back what is under way has its own bound
	for _, a := range made.Actions {
		if a.Verb != plan.Rollback && a.Verb != plan.Withdraw && a.Reason != plan.RepartitionDone {
			begun++
		}
	}
	if begun > p.MaxActionsPerReconcile || removals > p.MaxRemovalsPerReconcile {
		return fmt.Errorf("%d actions, %d removals: more than the policy allows", len(made.Actions), removals)
	}
	return nil
}

func nothingAllocatedDestroyed(s plan.Snapshot, _ plan.Policy, made plan.Plan) error {
	for _, a := range made.Actions {
		i := slices.IndexFunc(s.Nodes, func(n plan.Node) bool { return n.Name == a.Node })
		if i < 0 {
			continue
		}
		n := s.Nodes[i]
		for _, c := range n.GPUs {
			// The allocation of a sick GPU may be unknown; the pods are known.
			unknown := a.Verb == plan.RemoveNode && !c.AllocationKnown
			if removes(a) && len(c.AllocatedTo) > 0 || unknown {
				return fmt.Errorf("removes a node that is allocated: %s", a)
			}
			if a.Verb == plan.Repartition && c.Index == a.GPU && !c.AllocationKnown {
				return fmt.Errorf("repartitions a GPU of unknown allocation: %s", a)
			}
			for _, in := range c.Instances {
				touched := removes(a) ||
					a.Verb == plan.Repartition && c.Index == a.GPU && !slices.Contains(a.Target, in.Placement)
				if touched && in.AllocatedTo != "" {
					return fmt.Errorf("destroys an instance allocated to %s: %s", in.AllocatedTo, a)
				}
			}
		}
		for _, pod := range s.Pods {
			if removes(a) && pod.Node == n.Name && !pod.DaemonSet {
				return fmt.Errorf("removes the node of %s: %s", pod.Key(), a)
			}
		}
	}
	return nil
}

// resizes reports an action that scales a pool, or begins to.
func resizes(a plan.Action) bool {
	return a.Verb == plan.ScaleUp || removes(a) || a.Verb == plan.Drain && a.Reason != plan.NodeInterrupted
}

func removes(a plan.Action) bool { return a.Verb == plan.RemoveNode || a.Verb == plan.Replace }

func oneVerdictEach(s plan.Snapshot, _ plan.Policy, made plan.Plan) error {
	got := map[string]int{}
	for _, v := range made.Verdicts {
		got[string(v.Kind)+" "+v.Subject]++
		if v.Reason == "" {
			return fmt.Errorf("a verdict without a reason: %s", v)
		}
	}
	var want []string
	for _, p := range s.Pods {
		want = append(want, "pod "+p.Key())
	}
	for _, p := range s.Pools {
		want = append(want, "pool "+p.Name)
	}
	for _, n := range s.Nodes {
		want = append(want, "node "+n.Name)
		for _, c := range n.GPUs {
			want = append(want, fmt.Sprintf("gpu %s/%d", n.Name, c.Index))
		}
	}
	want = append(want, sharers(s)...)
	for _, w := range want {
		if got[w] != 1 {
			return fmt.Errorf("%d verdicts on %s", got[w], w)
		}
	}
	if len(want) != len(made.Verdicts) {
		return fmt.Errorf("%d verdicts on %d subjects", len(made.Verdicts), len(want))
	}
	return nil
}

// sharers are the gangs, tenants and forecasts.
func sharers(s plan.Snapshot) []string {
	var all []string
	for _, p := range s.Pods {
		if gang := "gang " + p.Gang; p.Gang != "" && !slices.Contains(all, gang) {
			all = append(all, gang)
		}
	}
	for _, t := range s.Tenants {
		all = append(all, "tenant "+t.Name)
	}
	for _, f := range s.Forecasts {
		all = append(all, "forecast "+f.Name)
	}
	return all
}

// nothingLeft applies the plan and plans again before any time has passed: the
// second plan must not act on the same facts again.
func nothingLeft(s plan.Snapshot, p plan.Policy, made plan.Plan) error {
	w := &sim.World{State: s}
	w.State = w.Snapshot()
	if err := w.Apply(made); err != nil {
		return err
	}
	again := plan.Make(w.Snapshot(), p)
	if newFacts(s, made) {
		if a, again := repeats(made, again); again {
			return fmt.Errorf("applied and planned again at the same instant, it is done again: %s", a)
		}
		return nil
	}
	// A pool that removes an empty node its pods cannot use may add one that they
	// can, and a gang that becomes complete is served.
	if slices.ContainsFunc(again.Actions, func(a plan.Action) bool {
		return a.Verb == plan.ScaleUp && slices.ContainsFunc(made.Actions, func(b plan.Action) bool {
			return b.Verb == plan.RemoveNode && b.Pool == a.Pool
		})
	}) {
		return nil
	}
	bounded := len(made.Actions) >= p.MaxActionsPerReconcile || strings.Contains(made.String(), string(plan.BoundReached)) ||
		slices.ContainsFunc(made.Actions, func(a plan.Action) bool { return a.Verb == plan.ScaleUp && a.To-a.From >= p.MaxNodesPerScaleUp })
	if len(again.Actions) > 0 && !bounded {
		return fmt.Errorf("applied and planned again at the same instant, there is more to do:\n%s", again)
	}
	return nil
}

// newFacts reports a plan that creates facts to plan with: a node is released
// or has a successor, pods have ended, stranded slices of a GPU are usable, a
// zone of a topology rule is gone. Actions that follow from those may come at
// once, but none of the plan's again.
func newFacts(s plan.Snapshot, made plan.Plan) bool {
	spread := slices.ContainsFunc(s.Pods, func(p plan.Pod) bool { return len(p.Spread) > 0 })
	return slices.ContainsFunc(made.Actions, func(a plan.Action) bool {
		switch a.Verb {
		case plan.Uncordon, plan.Rollback, plan.Reclaim, plan.Drain, plan.Replace:
			return true
		case plan.RemoveNode:
			return spread
		}
		return a.Verb == plan.Repartition && a.Reason == plan.GPUStranded
	})
}

func printsBack(s plan.Snapshot, _ plan.Policy, _ plan.Plan) error {
	text := scenario.Print(s)
	back, _, err := scenario.Parse(text)
	if err != nil {
		return fmt.Errorf("parsing the printed snapshot: %w\n%s", err, text)
	}
	if again := scenario.Print(back); again != text {
		return fmt.Errorf("printed, parsed and printed again it differs:\n%s\n%s", text, again)
	}
	return nil
}
