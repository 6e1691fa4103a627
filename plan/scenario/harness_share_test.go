package scenario_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/gpu/quota"
	"github.com/gpuscale/gpuscale/plan"
)

// servedPods is "namespace/name" of the pods that actions are for.
func servedPods(made plan.Plan) map[string]bool {
	all := map[string]bool{}
	for _, a := range made.Actions {
		for _, key := range a.For {
			all[key] = true
		}
	}
	return all
}

func podReasons(made plan.Plan) map[string]plan.Reason {
	all := map[string]plan.Reason{}
	for _, v := range made.Verdicts {
		if v.Kind == plan.KindPod {
			all[v.Subject] = v.Reason
		}
	}
	return all
}

// nothingForRefused: no action names a pod that its quota refuses.
func nothingForRefused(_ plan.Snapshot, _ plan.Policy, made plan.Plan) error {
	reasons := podReasons(made)
	for _, a := range made.Actions {
		for _, key := range a.For {
			if reasons[key] == plan.QuotaExceeded {
				return fmt.Errorf("done for %s, which is refused: %s", key, a)
			}
		}
	}
	return nil
}

// withinLimits: the actions let no tenant exceed its limit.
func withinLimits(s plan.Snapshot, _ plan.Policy, made plan.Plan) error {
	tenants := make([]quota.Tenant, len(s.Tenants))
	for i, t := range s.Tenants {
		tenants[i] = t.Tenant
	}
	now, err := quota.NewTree(tenants)
	if err != nil {
		return err
	}
	for _, p := range s.Pods {
		if p.Node != "" && p.Charged(s.Now) {
			now = now.Force(p.Tenant, atLeast(p))
		}
	}
	then, wanted := now, servedPods(made)
	for _, p := range s.Pods {
		reclaimed := slices.ContainsFunc(made.Actions, func(a plan.Action) bool { return a.Verb == plan.Reclaim && a.Pod == p.Key() })
		if less, ok := then.Remove(p.Tenant, atLeast(p)); reclaimed && ok {
			then = less
		}
		if wanted[p.Key()] && p.Node == "" {
			then = then.Force(p.Tenant, atLeast(p))
		}
	}
	for _, t := range tenants {
		before, after := now.Total(t.Name), then.Total(t.Name)
		if after != before && !after.Fits(t.Limit.Max(before)) {
			return fmt.Errorf("tenant %s takes %s, its limit is %s", t.Name, after, t.Limit)
		}
	}
	return nil
}

// atLeast is the least that a pod counts towards a quota. It leaves out the memory slices of an instance, which differ
// between products, and rounding.
func atLeast(p plan.Pod) quota.Amount {
	a := quota.Amount{Compute: 7 * int64(p.Demand.GPUs), Memory: 8 * int64(p.Demand.GPUs)}
	for _, i := range p.Demand.MIG {
		a.Compute += int64(i.Count) * int64(i.Profile.Compute)
	}
	if f := p.Demand.Fraction; f != nil {
		a.Compute += int64(max(f.GPUs, 1)) * int64(f.CoreMilli) * 7 / 1000
	}
	return a
}

// noHalfGang: of a gang no member is served, or at least as many as it lacks.
func noHalfGang(s plan.Snapshot, _ plan.Policy, made plan.Plan) error {
	type gang struct{ min, running, served, left int }
	gangs := map[string]*gang{}
	reasons, wanted := podReasons(made), servedPods(made)
	served := []plan.Reason{plan.WaitUpcomingNode, plan.WaitRepartition, plan.WaitReclaim}
	for _, p := range s.Pods {
		if p.Gang == "" {
			continue
		}
		g := gangs[p.Gang]
		if g == nil {
			g = &gang{}
			gangs[p.Gang] = g
		}
		g.min = max(g.min, p.GangMin)
		switch {
		case p.Node != "":
			if !p.Leaving {
				g.running++
			}
		case wanted[p.Key()], slices.Contains(served, reasons[p.Key()]):
			g.served++
		case reasons[p.Key()] == plan.WaitScheduler, reasons[p.Key()] == plan.CoolingDown, reasons[p.Key()] == plan.BoundReached: // it is served now, or will be
			g.left++
		}
	}
	for name, g := range gangs {
		some := g.served > 0 || g.left > 0
		if some && g.running+g.served+g.left < g.min {
			return fmt.Errorf("gang %s: %d run, %d are served, %d have a place, it needs %d", name, g.running, g.served, g.left, g.min)
		}
	}
	return nil
}

// withinRates: nodes added in an hour, nodes removed in ten minutes, the share of a pool removed in one plan, and the
// time between replacements in a pool. A node whose drain waits for its removal was counted before.
func withinRates(s plan.Snapshot, p plan.Policy, made plan.Plan) error {
	drains := map[string]plan.Reason{}
	for _, n := range s.Nodes {
		if n.Drain != nil {
			drains[n.Name] = n.Drain.Reason
		}
	}
	all, sick := 0, map[string]int{}
	for _, a := range made.Actions {
		switch {
		case a.Verb == plan.RemoveNode && drains[a.Node] != plan.NodeEmpty:
			all++
		case a.Verb == plan.Replace && drains[a.Node] != plan.NodeSick:
			sick[a.Pool]++
			if last, known := s.State.LastReplace[a.Pool]; sick[a.Pool] > 1 || known && s.Now.Sub(last) < p.ReplaceInterval || p.SickAfter <= 0 {
				return fmt.Errorf("too early: %s", a)
			}
		}
	}
	if before := s.State.RemovedLately(s.Now); all > 0 && before+all > p.MaxRemovalsPerTenMinutes {
		return fmt.Errorf("%d nodes removed and %d more, %d may be in ten minutes", before, all, p.MaxRemovalsPerTenMinutes)
	}
	for _, q := range s.Pools {
		grown, removed := 0, 0
		for _, g := range s.State.Grown[q.Name] {
			if s.Now.Sub(g.At) < time.Hour {
				grown += g.Nodes
			}
		}
		requested := 0
		for _, a := range made.Actions {
			switch {
			case a.Pool != q.Name:
			case a.Verb == plan.ScaleUp:
				requested += a.To - a.From
			case a.Verb == plan.RemoveNode:
				removed++
			}
		}
		if requested > 0 && grown+requested > p.MaxNodesPerHour {
			return fmt.Errorf("pool %s: %d nodes added and %d more, %d may be in an hour", q.Name, grown, requested, p.MaxNodesPerHour)
		}
		if removed > 1 && float64(removed) > p.MaxRemovalShare*float64(max(q.Size, q.Target)) {
			return fmt.Errorf("pool %s: %d of %d nodes removed at once, the share is %v", q.Name, removed, q.Size, p.MaxRemovalShare)
		}
	}
	return nil
}
