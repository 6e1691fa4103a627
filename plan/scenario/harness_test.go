package scenario_test

import (
	"cmp"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
	"github.com/gpuscale/gpuscale/plan/sim"
)

// harness checks what must be true of every plan. Actions that an actuator refuses, such as the removal of a node on
// which pods run, are left to the simulator: nothingLeft applies the plan.
func harness(s plan.Snapshot, p plan.Policy, made plan.Plan) error {
	for _, check := range []func(plan.Snapshot, plan.Policy, plan.Plan) error{
		sameShuffled, withinBounds, withinRates, evictsWithCare, drainsWithCare, withinLimits, nothingForRefused,
		noHalfGang, oneVerdictEach, nothingLeft, printsBack, explainedAlike, promisesHold,
	} {
		if err := check(s, p, made); err != nil {
			return err
		}
	}
	return nil
}

// sameShuffled: the same snapshot in another order gives the same plan.
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
	if other := plan.Make(t, p).String(); other != made.String() {
		return fmt.Errorf("shuffled, another plan:\n%s", other)
	}
	return nil
}

func withinBounds(s plan.Snapshot, p plan.Policy, made plan.Plan) error {
	begun, removals, gone, on := 0, 0, map[string]int{}, map[string]plan.Verb{}
	for _, a := range made.Actions {
		i := slices.IndexFunc(s.Pools, func(q plan.Pool) bool { return q.Name == a.Pool })
		before, twice := on[a.Node]
		on[a.Node] = a.Verb
		if a.Verb == plan.RemoveNode {
			removals++
			gone[a.Pool]++
		}
		if a.Verb != plan.Rollback && a.Verb != plan.Withdraw && a.Reason != plan.RepartitionDone {
			begun++ // actions that end or withdraw operations have a bound of their own
		}
		switch {
		case a.Node != "" && twice && (a.Verb != plan.Reclaim || before != plan.Reclaim): // several pods of a node may be evicted
			return fmt.Errorf("two actions on node %s", a.Node)
		case a.Verb == plan.Uncordon, a.Verb == plan.Rollback: // they end an operation
		case i >= 0 && s.Pools[i].Fixed && (a.Verb == plan.ScaleUp || removes(a) || a.Verb == plan.Drain && a.Reason != plan.NodeInterrupted):
			return fmt.Errorf("of a fixed pool, and yet: %s", a)
		case p.Freeze, i >= 0 && s.Pools[i].Freeze:
			return fmt.Errorf("frozen, and yet: %s", a)
		case a.Verb == plan.ScaleUp && a.To-a.From > p.MaxNodesPerScaleUp:
			return fmt.Errorf("grows beyond its bounds: %s", a)
		}
	}
	for _, q := range s.Pools {
		if gone[q.Name] > 0 && q.Target-gone[q.Name] < q.Min {
			return fmt.Errorf("pool %s shrinks below its minimum", q.Name)
		}
		if q.Fixed && slices.ContainsFunc(made.Verdicts, func(v plan.Verdict) bool {
			return v.Kind == plan.KindPool && v.Subject == q.Name && (v.Reason == plan.PoolAtMax || v.Reason == plan.BackingOff)
		}) {
			return fmt.Errorf("the fixed pool %s is at its maximum, or backs off", q.Name)
		}
	}
	if begun > p.MaxActionsPerReconcile || removals > p.MaxRemovalsPerReconcile {
		return fmt.Errorf("%d actions, %d removals: more than the policy allows", len(made.Actions), removals)
	}
	return nil
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

// nothingLeft applies the plan and plans again before any time has passed: the second plan must not act on the same
// facts again. It may act to serve a more urgent pod in place of others, with what the first plan has begun for those,
// and so on until nothing is left.
func nothingLeft(s plan.Snapshot, p plan.Policy, made plan.Plan) error {
	w := &sim.World{State: s}
	w.State = w.Snapshot()
	for range len(s.Pods) + 1 {
		if err := w.Apply(made); err != nil {
			return err
		}
		next := w.Snapshot()
		again := plan.Make(next, p)
		if more, err := doesMore(s, p, made, again); err != nil || !more {
			return err
		}
		s, made = next, again
	}
	return fmt.Errorf("applied and planned again at the same instant, it does not end:\n%s", made)
}

// doesMore reports whether a second plan at the same instant acts with reason. It returns an error if it acts without.
func doesMore(s plan.Snapshot, p plan.Policy, made, again plan.Plan) (bool, error) {
	if newFacts(s, made) {
		if a, again := repeats(made, again); again {
			return false, fmt.Errorf("applied and planned again at the same instant, it is done again: %s", a)
		}
		return false, nil
	}
	// A pool that removes an empty node which its pods cannot use may add one that they can use, and a gang that
	// becomes complete is served.
	if slices.ContainsFunc(again.Actions, func(a plan.Action) bool {
		return a.Verb == plan.ScaleUp && slices.ContainsFunc(made.Actions, func(b plan.Action) bool {
			return b.Verb == plan.RemoveNode && b.Pool == a.Pool
		})
	}) {
		return false, nil
	}
	if len(again.Actions) == 1 && again.Actions[0].Verb == plan.ScaleUp && (takesSooner(made, again) || bindsElsewhere(made, again)) {
		return false, nil
	}
	if len(again.Actions) == 1 && again.Actions[0].Verb == plan.Repartition && bindsElsewhere(made, again) { // that operation has to end, too
		return true, nil
	}
	bounded := len(made.Actions) >= p.MaxActionsPerReconcile || strings.Contains(made.String(), string(plan.BoundReached)) ||
		slices.ContainsFunc(made.Actions, func(a plan.Action) bool { return a.Verb == plan.ScaleUp && a.To-a.From >= p.MaxNodesPerScaleUp })
	if len(again.Actions) == 0 || bounded {
		return false, nil
	}
	if !servesMore(s, made, again) {
		return false, fmt.Errorf("applied and planned again at the same instant, there is more to do:\n%s", again)
	}
	return true, nil
}

// servesMore reports a plan that serves one pod more than the plan before, or a more urgent pod in place of others. An
// example is a gang that waits for a GPU of unknown allocation. Another pod's repartition begins on the GPU that the
// gang's other member would use. Then no repartition of the unknown GPU is enough, the gang gets a node, and a less
// urgent pod loses its place.
func servesMore(s plan.Snapshot, made, again plan.Plan) bool {
	before, now := podReasons(made), podReasons(again)
	for _, p := range mostUrgentFirst(s.Pods) {
		if was, is := willRun(before[p.Key()]), willRun(now[p.Key()]); was != is {
			return is
		}
	}
	return false
}

// mostUrgentFirst are pods by priority, age to the minute and size, each member of a gang as the most urgent one of it.
func mostUrgentFirst(pods []plan.Pod) []plan.Pod {
	compare := func(a, b plan.Pod) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.PendingSince.Truncate(time.Minute).Compare(b.PendingSince.Truncate(time.Minute)),
			cmp.Compare(atLeast(b).Compute, atLeast(a).Compute))
	}
	first := map[string]plan.Pod{}
	of := func(p plan.Pod) plan.Pod {
		if g, ok := first[p.Gang]; ok && p.Gang != "" {
			return g
		}
		return p
	}
	for _, p := range pods {
		if g := of(p); compare(p, g) <= 0 {
			first[p.Gang] = p
		}
	}
	return slices.SortedStableFunc(slices.Values(pods), func(a, b plan.Pod) int { return compare(of(a), of(b)) })
}

func willRun(r plan.Reason) bool {
	return slices.Contains([]plan.Reason{plan.Running, plan.WaitScheduler, plan.WaitUpcomingNode, plan.WaitRepartition, plan.WaitReclaim, plan.CoolingDown}, r)
}

// takesSooner reports a pod that waited for a node of one pool and now waits for a requested one of another pool, which
// is ready sooner and was for another pod. The scheduler would bind it there, so the other pod needs one more node.
func takesSooner(made, again plan.Plan) bool {
	waits := func(p plan.Plan, pod string) (pool string, in time.Duration) {
		for _, v := range p.Verdicts {
			if v.Subject == pod && v.Reason == plan.WaitUpcomingNode {
				text, at, _ := strings.Cut(v.Detail, ", in ")
				pool, _ = strings.CutPrefix(text, "a new node of ")
				in, _ = time.ParseDuration(at)
			}
		}
		return pool, in
	}
	return slices.ContainsFunc(again.Verdicts, func(v plan.Verdict) bool {
		before, late := waits(made, v.Subject)
		now, soon := waits(again, v.Subject)
		return before != "" && soon < late && slices.ContainsFunc(made.Actions, func(a plan.Action) bool { return a.Verb == plan.ScaleUp && a.Pool == now })
	})
}

// bindsElsewhere reports a pod that was to run on one node and now on another one, where the plan repartitions one of
// the two. The cordon of a node precedes the pod that fits there. Of pods that wait for layouts, two with the same host
// port for example, each may get the other's. Then a third pod loses its place and needs one more: a node, or the
// repartition of another GPU if a more urgent gang takes the repartition that has begun, since its own would take
// longer.
func bindsElsewhere(made, again plan.Plan) bool {
	then := map[string]plan.Verdict{}
	for _, v := range made.Verdicts {
		then[string(v.Kind)+v.Subject] = v
	}
	return slices.ContainsFunc(again.Verdicts, func(now plan.Verdict) bool {
		was := then[string(now.Kind)+now.Subject]
		return now.Kind == plan.KindPod && willRun(was.Reason) && willRun(now.Reason) && slices.ContainsFunc(made.Actions, func(a plan.Action) bool {
			return a.Verb == plan.Repartition && on(a.Node, was) != on(a.Node, now)
		})
	})
}

// on reports whether a pod's verdict names a node.
func on(node string, v plan.Verdict) bool {
	return slices.Contains(strings.FieldsFunc(v.Detail, func(r rune) bool { return r == ' ' || r == ',' }), node)
}

// newFacts reports a plan that creates new facts: a node is released or has a successor, pods have ended, or a zone of a
// topology rule of a pod or a forecast is gone. Actions that follow from these may come at once, but none of the plan's
// actions again.
func newFacts(s plan.Snapshot, made plan.Plan) bool {
	spread := slices.ContainsFunc(s.Pods, func(p plan.Pod) bool { return len(p.Spread) > 0 }) ||
		slices.ContainsFunc(s.Forecasts, func(f plan.Forecast) bool { return len(f.Like.Spread) > 0 })
	return slices.ContainsFunc(made.Actions, func(a plan.Action) bool {
		switch a.Verb {
		case plan.Uncordon, plan.Rollback, plan.Reclaim, plan.Drain, plan.Replace:
			return true
		case plan.RemoveNode:
			return spread
		}
		return false
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

// evictsWithCare: evictions are within the policy's bounds.
func evictsWithCare(s plan.Snapshot, p plan.Policy, made plan.Plan) error {
	evictions := 0
	for _, a := range made.Actions {
		if a.Verb != plan.Reclaim {
			continue
		}
		if a.Reason == plan.ReclaimBorrowed && !p.ReclaimBorrowed {
			return fmt.Errorf("reclaims what is borrowed, and the policy does not: %s", a)
		}
		if p.SkipNodesWithLocalStorage && slices.ContainsFunc(s.Pods, func(q plan.Pod) bool { return q.Key() == a.Pod && q.LocalStorage }) {
			return fmt.Errorf("the pod has local storage: %s", a)
		}
		if evictions++; evictions > p.MaxEvictionsPerReconcile {
			return fmt.Errorf("%d evictions, %d may be in one plan", evictions, p.MaxEvictionsPerReconcile)
		}
	}
	return nil
}

// drainsWithCare: no more drains at a time than the policy allows, and only of
// nodes that can become empty.
func drainsWithCare(s plan.Snapshot, p plan.Policy, made plan.Plan) error {
	draining, begun := 0, 0
	for _, n := range s.Nodes {
		ended := slices.ContainsFunc(made.Actions, func(a plan.Action) bool { return a.Node == n.Name && a.Verb != plan.Drain })
		if n.Drain != nil && !ended {
			draining++
		}
	}
	for _, a := range made.Actions {
		if a.Verb != plan.Drain {
			continue
		}
		n := s.Nodes[slices.IndexFunc(s.Nodes, func(n plan.Node) bool { return n.Name == a.Node })]
		switch interrupted := n.LeavesAt.After(s.Now); {
		case n.Drain != nil: // it continues
			continue
		case interrupted && a.Reason == plan.NodeInterrupted:
			continue
		case interrupted:
			return fmt.Errorf("its provider takes the node, and yet: %s", a)
		}
		if begun++; draining+begun > p.MaxDrains {
			return fmt.Errorf("%d drains, %d may be at a time: %s", draining+begun, p.MaxDrains, a)
		}
		if err := canBecomeEmpty(s, p, n); err != nil {
			return fmt.Errorf("%w: %s", err, a)
		}
	}
	return nil
}

func canBecomeEmpty(s plan.Snapshot, policy plan.Policy, n plan.Node) error {
	here := map[string]bool{"": true}
	for _, p := range s.Pods {
		if p.Node != n.Name {
			continue
		}
		here[p.Key()] = true
		if !p.DaemonSet && !p.Leaving && (!p.Evictable || policy.SkipNodesWithLocalStorage && p.LocalStorage) {
			return fmt.Errorf("drains the node of %s, which is not evictable or has local storage", p.Key())
		}
	}
	for _, c := range n.GPUs {
		allocated := slices.Clone(c.AllocatedTo)
		for _, in := range c.Instances {
			allocated = append(allocated, in.AllocatedTo)
		}
		for _, pod := range allocated {
			if !here[pod] {
				return fmt.Errorf("drains a node allocated to %s, which is not bound there", pod)
			}
		}
	}
	return nil
}

// repeats reports an action of again that made has already. Actions that follow from a plan's actions may come at once,
// but not the same action again.
func repeats(made, again plan.Plan) (plan.Action, bool) {
	for _, a := range again.Actions {
		for _, b := range made.Actions {
			if a.Verb == b.Verb && a.Verb != plan.ScaleUp && a.Node == b.Node && a.Pod == b.Pod && a.GPU == b.GPU {
				return a, true
			}
		}
	}
	return plan.Action{}, false
}

// mostExplained bounds the pods of one plan that are explained by the harness:
// each costs a plan.
const mostExplained = 2

// explainedAlike: an explanation agrees with the plan, and does not change it.
// At most one option is chosen, and that one is possible; possible ones have a
// cost, the others a reason.
func explainedAlike(s plan.Snapshot, p plan.Policy, made plan.Plan) error {
	again := 0
	for i := range s.Pods {
		pod := &s.Pods[i]
		if pod.Node != "" {
			continue
		}
		if again++; again > mostExplained {
			return nil
		}
		e, ok := plan.Explain(s, p, pod.Key())
		if !ok {
			return fmt.Errorf("%s is pending and has no explanation", pod.Key())
		}
		if e.Plan.String() != made.String() {
			return fmt.Errorf("explaining %s made another plan:\n%s", pod.Key(), e.Plan)
		}
		if err := options(e); err != nil {
			return fmt.Errorf("explaining %s: %w", pod.Key(), err)
		}
	}
	return nil
}

func options(e plan.Explanation) error {
	chosen := 0
	for _, o := range e.Options {
		if o.Reason == "" || o.Detail == "" {
			return fmt.Errorf("%s %s: has no reason", o.Kind, o.On)
		}
		if o.Chosen {
			chosen++
		}
		if o.Chosen && !o.Possible {
			return fmt.Errorf("%s %s is taken and impossible: %s", o.Kind, o.On, o.Detail)
		}
		if o.Cost < 0 || o.Cost != 0 && !o.Possible {
			return fmt.Errorf("%s %s costs %v", o.Kind, o.On, o.Cost)
		}
	}
	served := map[plan.Reason]bool{plan.WaitUpcomingNode: true, plan.WaitRepartition: true, plan.WaitReclaim: true}
	refused := map[plan.Reason]bool{plan.GangWaits: true, plan.GangIncomplete: true, plan.QuotaExceeded: true, plan.NoPoolFits: true, plan.PoolAtMax: true, plan.PoolFixed: true}
	switch {
	case chosen > 0 && refused[e.Verdict.Reason]:
		return fmt.Errorf("%s, and an option is taken", e.Verdict.Reason)
	case chosen > 1:
		return fmt.Errorf("%d options are taken", chosen)
	case chosen == 0 && served[e.Verdict.Reason]:
		return fmt.Errorf("%s, and no option is taken", e.Verdict.Reason)
	}
	return nil
}
