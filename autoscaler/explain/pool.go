package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/plan"
)

// Pool is a pool of the snapshot.
type Pool struct {
	Min         int      `json:"min"`
	Max         int      `json:"max"`
	Target      int      `json:"target"`
	Size        int      `json:"size"`
	CostPerHour float64  `json:"pricePerHour"` // of one node
	Spot        bool     `json:"spot,omitempty"`
	Fixed       bool     `json:"fixed,omitempty"` // without a provider; min and max are its size
	Frozen      bool     `json:"frozen,omitempty"`
	Model       string   `json:"model,omitempty"`
	Nodes       []Group  `json:"nodes,omitempty"`
	GPUs        []Group  `json:"gpus,omitempty"`
	WaitingFor  []string `json:"servesPods,omitempty"` // pods that the plan's actions on it are for
}

// Group counts nodes or GPUs that have the same verdict.
type Group struct {
	Reason  string `json:"reason"`
	Count   int    `json:"count"`
	Example string `json:"example"`
	Detail  string `json:"detail,omitempty"` // the example's
}

// ForPool explains a pool by name.
func ForPool(s plan.Snapshot, p plan.Policy, name string) (Document, error) {
	i := slices.IndexFunc(s.Pools, func(q plan.Pool) bool { return q.Name == name })
	if i < 0 {
		var names []string
		for _, q := range s.Pools {
			names = append(names, q.Name)
		}
		return Document{}, fmt.Errorf("pool %s: %w in the autoscaler's last snapshot: there is no such GPUNodePool, or its spec is not valid "+
			"(\"kubectl describe gpunodepool %s\" shows it)%s", name, ErrNotFound, name, list("; it has: ", names))
	}
	made := plan.Make(s, p)
	pool := &s.Pools[i]
	v, _ := verdictOf(made, plan.KindPool, name)
	d := Document{APIVersion: Version, Kind: "Pool", Subject: name, At: s.Now.UTC(), Answer: answer(v.Reason, v.Detail)}
	d.Pool = &Pool{
		Min: pool.Min, Max: pool.Max, Target: pool.Target, Size: pool.Size, CostPerHour: pool.PricePerHour,
		Spot: pool.Spot, Fixed: pool.Fixed, Frozen: pool.Freeze || p.Freeze,
	}
	if len(pool.Template.GPUs) > 0 {
		d.Pool.Model = pool.Template.GPUs[0].Model.Name
	}
	of := map[string]bool{}
	for _, n := range s.Nodes {
		of[n.Name] = n.Pool == name
	}
	d.Pool.Nodes = groups(made, plan.KindNode, func(subject string) bool { return of[subject] })
	d.Pool.GPUs = groups(made, plan.KindGPU, func(subject string) bool {
		return of[subject[:max(0, strings.LastIndexByte(subject, '/'))]]
	})
	d.Actions = actionsWhere(made, func(a plan.Action) bool { return a.Pool == name })
	for _, a := range made.Actions {
		if a.Pool == name {
			d.Pool.WaitingFor = append(d.Pool.WaitingFor, a.For...)
		}
	}
	return d, nil
}

// groups counts verdicts by reason, the most frequent first.
func groups(p plan.Plan, kind plan.Kind, of func(subject string) bool) []Group {
	var out []Group
	for _, v := range p.Verdicts {
		if v.Kind != kind || !of(v.Subject) {
			continue
		}
		at := slices.IndexFunc(out, func(g Group) bool { return g.Reason == string(v.Reason) })
		if at < 0 {
			at, out = len(out), append(out, Group{Reason: string(v.Reason), Example: v.Subject, Detail: v.Detail})
		}
		out[at].Count++
	}
	slices.SortStableFunc(out, func(a, b Group) int { return b.Count - a.Count })
	return out
}
