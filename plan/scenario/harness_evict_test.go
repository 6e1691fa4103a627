package scenario_test

import (
	"fmt"
	"slices"

	"github.com/gpuscale/gpuscale/plan"
)

// evictsWithCare: only pods that may be moved now are evicted, within their
// budgets and the policy's bound.
func evictsWithCare(s plan.Snapshot, p plan.Policy, made plan.Plan) error {
	evictions := 0
	allowed := map[string]int{}
	for _, pod := range s.Pods {
		for _, b := range pod.Budgets {
			if n, ok := allowed[b.Name]; !ok || b.Allowed < n {
				allowed[b.Name] = b.Allowed
			}
		}
	}
	for _, a := range made.Actions {
		if a.Verb != plan.Reclaim {
			continue
		}
		i := slices.IndexFunc(s.Pods, func(q plan.Pod) bool { return q.Key() == a.Pod })
		if i < 0 {
			return fmt.Errorf("there is no such pod: %s", a)
		}
		if a.Reason == plan.ReclaimBorrowed && !p.ReclaimBorrowed {
			return fmt.Errorf("reclaims what is borrowed, and the policy does not: %s", a)
		}
		if p.SkipNodesWithLocalStorage && s.Pods[i].LocalStorage {
			return fmt.Errorf("the pod has local storage: %s", a)
		}
		if why := stays(s, s.Pods[i]); why != "" {
			return fmt.Errorf("the pod %s: %s", why, a)
		}
		if evictions++; evictions > p.MaxEvictionsPerReconcile {
			return fmt.Errorf("%d evictions, %d may be in one plan", evictions, p.MaxEvictionsPerReconcile)
		}
		for _, b := range s.Pods[i].Budgets {
			if allowed[b.Name]--; allowed[b.Name] < 0 {
				return fmt.Errorf("the budget %s is overdrawn: %s", b.Name, a)
			}
		}
	}
	return nil
}

// stays returns why a pod must not be evicted, budgets apart.
func stays(s plan.Snapshot, p plan.Pod) string {
	switch {
	case p.Node == "":
		return "runs nowhere"
	case p.Leaving:
		return "is leaving"
	case !p.Evictable || p.DaemonSet:
		return "is not evictable"
	case p.EvictFrom.After(s.Now):
		return "would lose work"
	}
	return ""
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
		i := slices.IndexFunc(s.Nodes, func(n plan.Node) bool { return n.Name == a.Node })
		if i < 0 {
			return fmt.Errorf("there is no such node: %s", a)
		}
		if s.Nodes[i].Drain != nil { // it continues
			continue
		}
		if s.Nodes[i].LeavesAt.After(s.Now) { // it is interrupted
			if a.Reason != plan.NodeInterrupted {
				return fmt.Errorf("its provider takes the node, and yet: %s", a)
			}
			continue
		}
		if begun++; draining+begun > p.MaxDrains {
			return fmt.Errorf("%d drains, %d may be at a time: %s", draining+begun, p.MaxDrains, a)
		}
		if err := canBecomeEmpty(s, p, s.Nodes[i]); err != nil {
			return fmt.Errorf("%w: %s", err, a)
		}
	}
	return nil
}

func canBecomeEmpty(s plan.Snapshot, policy plan.Policy, n plan.Node) error {
	here := map[string]bool{}
	for _, p := range s.Pods {
		if p.Node != n.Name {
			continue
		}
		here[p.Key()] = true
		if !p.Evictable && !p.DaemonSet && !p.Leaving {
			return fmt.Errorf("drains the node of %s, which is not evictable", p.Key())
		}
		if policy.SkipNodesWithLocalStorage && p.LocalStorage && !p.DaemonSet && !p.Leaving {
			return fmt.Errorf("drains the node of %s, which has local storage", p.Key())
		}
	}
	for _, c := range n.GPUs {
		allocated := slices.Clone(c.AllocatedTo)
		for _, in := range c.Instances {
			if in.AllocatedTo != "" {
				allocated = append(allocated, in.AllocatedTo)
			}
		}
		for _, h := range allocated {
			if !here[h] {
				return fmt.Errorf("drains a node allocated to %s, which is not bound there", h)
			}
		}
	}
	return nil
}

// repeats reports an action of again that made has already. What follows from a
// plan's actions may be done at once, but not the same again.
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
