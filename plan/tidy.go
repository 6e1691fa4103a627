package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// stranded lists the instances that could be added to a GPU's layout, sorted by place: they
// would use slices that are in no instance. Slices that no further instance can use
// (3g.40gb twice leaves one) do not count, since no repartition helps. A GPU with an
// unplaced instance has none.
func (ms *models) stranded(n *nodeState, c *GPU) []mig.Placement {
	if !n.addable || !c.MIG || n.pool == nil || c.Health == gpu.Sick || !n.pool.MIG.Repartition || c.Model.Name != n.model {
		return nil
	}
	t, ok := ms.table(c.Model.Name)
	if !ok {
		return nil
	}
	if slices.ContainsFunc(c.Instances, func(in Instance) bool { return !in.Placed }) {
		return nil
	}
	return ms.addable(t, layoutOf(c), n.pool.MIG.Allowed)
}

// addable is what can be added to a layout, computed once for each.
func (ms *models) addable(t *mig.Table, l mig.Layout, allowed []mig.Profile) []mig.Placement {
	key := question(0, t.Model(), l, mig.Layout(nil), nil, nil)
	free, known := ms.additions[key]
	if !known {
		if t.Legal(l) == nil {
			free = t.Free(l)
		}
		ms.additions[key] = free
	}
	if len(allowed) == 0 {
		return free
	}
	return slices.DeleteFunc(slices.Clone(free), func(p mig.Placement) bool { return !slices.Contains(allowed, p.Profile) })
}

// strandedText is "2 compute and 4 memory slices are in no GPU instance".
func (ms *models) strandedText(c *GPU) string {
	t, _ := ms.table(c.Model.Name) // there is one, as something could be added
	compute, memory := t.FreeSlices(layoutOf(c))
	return fmt.Sprintf("%d compute and %d memory slices are in no GPU instance", compute, memory)
}

// tidy repartitions one GPU with stranded slices: its instances stay, and the
// profile is added that running, pending and forecast pods request most. It
// acts only where the node has no other action, no other repartition is under
// way, and no pod is disturbed.
func (w *world) tidy() {
	if w.hold != "" || w.repartitioningAnything() {
		return
	}
	best, text := option{}, ""
	for i, n := range w.eachNode() {
		for c := 0; c < len(n.GPUs) && n.addable && n.pool != nil && w.may(n.pool); c++ {
			if o, why := w.tidyGPU(i, c); why == "" && (text == "" || o.repartition.answer.Served > best.repartition.answer.Served) {
				best, text = o, w.tidyText(o)
			}
		}
	}
	if text == "" {
		return
	}
	n := w.touch(best.node)
	w.changeLayout(n, best, text)
	w.actions.list[n.action].Reason = GPUStranded
}

// repartitioningAnything reports a repartition under way, or of this plan.
func (w *world) repartitioningAnything() bool {
	for i := range w.nodes {
		if w.nodes[i].operating() {
			return true
		}
	}
	return slices.ContainsFunc(w.actions.list, func(a Action) bool { return a.Verb == Repartition })
}

// tidyGPU is the repartition of a GPU, or what keeps it as it is.
func (w *world) tidyGPU(node, device int) (option, string) {
	n := &w.nodes[node]
	c := &n.GPUs[device]
	if why := w.keepsUntidy(n, device); why != "" {
		return option{}, why
	}
	must, ok := w.mostRequested(c.Model.Name, w.models.stranded(n, c))
	if !ok {
		return option{}, "no pod requests what would fit"
	}
	layout := layoutOf(c)
	a := w.models.target(n.pool, c.Model.Name, layout, nil, []mig.Count{must}, w.requestedOf(c.Model.Name))
	if !a.ok {
		return option{}, "no layout adds what pods request"
	}
	o := option{node: node, at: w.now, cost: w.policy.DisruptionCost}
	o.repartition = repartition{device: device, before: layout, keep: layout, answer: a.Answer}
	return o, ""
}

// keepsUntidy returns what keeps a GPU from being repartitioned, empty for nothing.
func (cond *conditions) keepsUntidy(n *nodeState, device int) string {
	c := &n.GPUs[device]
	p := n.pool
	again := cond.repartitionAgainAt(n, c.Index)
	switch {
	case cond.hold != "" || p.Freeze:
		return "nothing may be done now"
	case n.tier != tierNow && n.action < 0:
		return "its node is not in service"
	case n.action >= 0 || n.promised > 0:
		return "another action is under way on its node"
	case n.changeAt.After(cond.now):
		return "its node cools down for " + short(n.changeAt.Sub(cond.now))
	case !c.AllocationKnown:
		return "its allocation is unknown"
	case c.allocated() && !p.MIG.KeepsBusy:
		return "it is allocated, and has to be empty to be repartitioned"
	case again.After(cond.now):
		return "its repartition failed, next attempt in " + short(again.Sub(cond.now))
	}
	if reason, _ := cond.emptiness(n); reason == NodeEmpty && !cond.keepsEmpty(p) {
		return "its node is empty and may be removed"
	}
	switch s := cond.splitGPU(n, device, true); {
	case s.why != "":
		return string(s.why)
	case s.at.After(cond.now):
		return "a slice has to be idle for another " + short(s.at.Sub(cond.now))
	}
	return ""
}

func (w *world) tidyText(o option) string {
	c := &w.nodes[o.node].GPUs[o.repartition.device]
	added := slices.DeleteFunc(slices.Clone(o.repartition.answer.Layout), func(p mig.Placement) bool { return slices.Contains(o.repartition.keep, p) })
	return w.models.strandedText(c) + "; adds " + LayoutText(c.Model.Name, added)
}

// requestedOf counts the instances that running, pending and forecast pods
// request, in profiles of the model, the most requested first.
func (w *world) requestedOf(model string) []mig.Count {
	if asked, known := w.models.requested[model]; known {
		return asked
	}
	var out []mig.Count
	add := func(p *Pod, times int) { out = w.models.instances(out, model, p.Demand.MIG, times) }
	for _, r := range w.running {
		add(r.pod, 1)
	}
	for i := range w.pending {
		if !w.pending[i].refused {
			add(w.pending[i].pod, 1)
		}
	}
	for _, f := range w.forecasts {
		if f.Unsure == "" {
			add(&f.Like, min(max(w.policy.replicasFor(f.Forecast)-max(f.Have, 0), 0), maxHeadroom))
		}
	}
	slices.SortFunc(out, func(a, b mig.Count) int {
		return cmp.Or(cmp.Compare(b.N*b.Profile.Compute, a.N*a.Profile.Compute), a.Profile.Compare(b.Profile))
	})
	w.models.requested[model] = out
	return out
}

// mostRequested is one instance of the most requested profile that can be
// added; false where none is requested.
func (w *world) mostRequested(model string, add []mig.Placement) (mig.Count, bool) {
	for _, c := range w.requestedOf(model) {
		if c.N > 0 && slices.ContainsFunc(add, func(p mig.Placement) bool { return p.Profile == c.Profile }) {
			return mig.Count{Profile: c.Profile, N: 1}, true
		}
	}
	return mig.Count{}, false
}
