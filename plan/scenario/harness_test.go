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

// harness is what must hold of every plan ever made, whoever asks. It is silent
// unless something is broken.
func harness(s plan.Snapshot, p plan.Policy, made plan.Plan) error {
	if err := s.Check(); err != nil {
		return fmt.Errorf("the snapshot is not in order: %w", err)
	}
	for _, check := range []func(plan.Snapshot, plan.Policy, plan.Plan) error{
		sameAgain, sameShuffled, withinBounds, nothingHeldDestroyed, oneVerdictEach, nothingLeft, printsBack,
	} {
		if err := check(s, p, made); err != nil {
			return err
		}
	}
	return nil
}

func sameAgain(s plan.Snapshot, p plan.Policy, made plan.Plan) error {
	if again := plan.Make(s, p).String(); again != made.String() {
		return fmt.Errorf("made twice, two plans:\n%s", again)
	}
	return nil
}

func sameShuffled(s plan.Snapshot, p plan.Policy, made plan.Plan) error {
	r := rand.New(rand.NewSource(1))
	t := (&sim.World{State: s}).Snapshot()
	r.Shuffle(len(t.Pools), func(i, j int) { t.Pools[i], t.Pools[j] = t.Pools[j], t.Pools[i] })
	r.Shuffle(len(t.Nodes), func(i, j int) { t.Nodes[i], t.Nodes[j] = t.Nodes[j], t.Nodes[i] })
	r.Shuffle(len(t.Pods), func(i, j int) { t.Pods[i], t.Pods[j] = t.Pods[j], t.Pods[i] })
	for n := range t.Nodes {
		cards := t.Nodes[n].Cards
		r.Shuffle(len(cards), func(i, j int) { cards[i], cards[j] = cards[j], cards[i] })
		for _, c := range cards {
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
		perNode[a.Node]++
		if a.Verb == plan.RemoveNode {
			removals++
		}
		i := slices.IndexFunc(s.Pools, func(q plan.Pool) bool { return q.Name == a.Pool })
		switch {
		case a.Node != "" && perNode[a.Node] > 1:
			return fmt.Errorf("two actions on node %s", a.Node)
		case p.Freeze, i >= 0 && s.Pools[i].Freeze:
			return fmt.Errorf("frozen, and yet: %s", a)
		case a.Verb == plan.ScaleUp && (a.To > s.Pools[i].Max || a.To-a.From > p.MaxNodesPerScaleUp):
			return fmt.Errorf("grows beyond its bounds: %s", a)
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
	if len(made.Actions) > p.MaxActionsPerRound || removals > p.MaxRemovalsPerRound {
		return fmt.Errorf("%d actions, %d removals: more than the policy allows", len(made.Actions), removals)
	}
	return nil
}

func nothingHeldDestroyed(s plan.Snapshot, _ plan.Policy, made plan.Plan) error {
	for _, a := range made.Actions {
		i := slices.IndexFunc(s.Nodes, func(n plan.Node) bool { return n.Name == a.Node })
		if i < 0 {
			continue
		}
		n := s.Nodes[i]
		for _, c := range n.Cards {
			if a.Verb == plan.RemoveNode && (len(c.Holders) > 0 || !c.HoldersKnown) {
				return fmt.Errorf("removes a node that is held: %s", a)
			}
			if a.Verb == plan.Repartition && c.Index == a.Card && !c.HoldersKnown {
				return fmt.Errorf("cuts a card whose holders are unknown: %s", a)
			}
			for _, in := range c.Instances {
				touched := a.Verb == plan.RemoveNode ||
					a.Verb == plan.Repartition && c.Index == a.Card && !slices.Contains(a.Target, in.Placement)
				if touched && in.Holder != "" {
					return fmt.Errorf("destroys what %s holds: %s", in.Holder, a)
				}
			}
		}
		for _, pod := range s.Pods {
			if a.Verb == plan.RemoveNode && pod.Node == n.Name && !pod.DaemonSet {
				return fmt.Errorf("removes the node of %s: %s", pod.Key(), a)
			}
		}
	}
	return nil
}

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
		for _, c := range n.Cards {
			want = append(want, fmt.Sprintf("card %s/%d", n.Name, c.Index))
		}
	}
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

// nothingLeft applies the plan and plans again before any time has passed: what
// was decided must still be seen as decided.
func nothingLeft(s plan.Snapshot, p plan.Policy, made plan.Plan) error {
	w := &sim.World{State: s}
	w.State = w.Snapshot()
	if err := w.Apply(made); err != nil {
		return err
	}
	again := plan.Make(w.Snapshot(), p)
	if releases(made) { // a released node is a new fact; what follows from it is no repeat
		return nil
	}
	// A full pool that gives back an empty node its pods cannot use may grow again.
	again.Actions = slices.DeleteFunc(again.Actions, func(a plan.Action) bool {
		return a.Verb == plan.ScaleUp && slices.ContainsFunc(s.Pools, func(q plan.Pool) bool {
			return q.Name == a.Pool && q.Target >= q.Max && a.From < q.Target
		})
	})
	bounded := len(made.Actions) >= p.MaxActionsPerRound || strings.Contains(made.String(), string(plan.BoundReached))
	if len(again.Actions) > 0 && !bounded {
		return fmt.Errorf("applied and planned again at the same instant, there is more to do:\n%s", again)
	}
	return nil
}

func releases(p plan.Plan) bool {
	return slices.ContainsFunc(p.Actions, func(a plan.Action) bool { return a.Verb == plan.Uncordon || a.Verb == plan.Rollback })
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
