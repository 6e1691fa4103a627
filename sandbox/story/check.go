package story

import (
	"fmt"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// check finds what no single line shows: names that nothing declares, layouts
// that no card can have.
func (s *Story) check() (errs []error) {
	fail := func(format string, v ...any) { errs = append(errs, fmt.Errorf(format, v...)) }
	pools := map[string]Pool{}
	for _, p := range s.Pools {
		if _, twice := pools[p.Name]; twice {
			fail("pool %s stands twice", p.Name)
		}
		pools[p.Name] = p
		if p.Min > p.Max || p.Cards < 1 {
			fail("pool %s: need min <= max and cards >= 1", p.Name)
		}
		if _, err := Place(p.Product, p.Cards, p.Layout); err != nil {
			fail("pool %s: %v", p.Name, err)
		}
	}
	nodes := map[string]bool{}
	for _, n := range s.Nodes {
		p, ok := pools[n.Pool]
		switch _, err := Place(p.Product, p.Cards, n.Layout); {
		case nodes[n.Name]:
			fail("node %s stands twice", n.Name)
		case !ok:
			fail("node %s: no pool %q", n.Name, n.Pool)
		case err != nil:
			fail("node %s: %v", n.Name, err)
		}
		nodes[n.Name] = true
	}
	served, seen := map[string]bool{}, map[string]bool{}
	for _, w := range s.Workloads {
		key := w.Namespace + "/" + w.Name
		if seen[key] {
			fail("%s stands twice", key)
		}
		seen[key] = true
		served[key] = w.Kind == Serve
		if w.Node != "" && !nodes[w.Node] {
			fail("%s: no node %q", key, w.Node)
		}
		if _, ok := pools[w.Pool]; w.Pool != "" && !ok {
			fail("%s: no pool %q", key, w.Pool)
		}
		if w.Busy > 1 {
			fail("%s: busy is 0 to 1", key)
		}
	}
	for _, h := range s.HPAs {
		if !seen[h.Namespace+"/"+h.Name] || h.Min > h.Max {
			fail("hpa %s/%s: needs a workload and min <= max", h.Namespace, h.Name)
		}
	}
	if t := s.Traffic; t != nil && (!served[t.Namespace+"/"+t.Name] || t.Speed <= 0) {
		fail("traffic %s/%s: needs a workload that serves and a speed above 0", t.Namespace, t.Name)
	}
	for _, f := range s.Faults {
		if node, ok := f.Args["node"]; ok && !nodes[node] {
			fail("fault %s: no node %q", f.What, node)
		}
	}
	return errs
}

// Place resolves a layout by count to placements on a product's cards, as
// mig-parted would: one layout a card, nil where MIG is off.
func Place(product string, cards int, l Layout) ([]mig.Layout, error) {
	model, ok := gpu.ParseProduct(product)
	if !ok {
		return nil, fmt.Errorf("unknown product %q", product)
	}
	if len(l) == 0 {
		return nil, nil
	}
	if len(l) != 1 && len(l) != cards {
		return nil, fmt.Errorf("layouts for %d cards, there are %d", len(l), cards)
	}
	table, ok := mig.ForModel(model.Name)
	if !ok {
		return nil, fmt.Errorf("%s has no MIG", product)
	}
	var out []mig.Layout
	for i := range cards {
		var want []mig.Count
		for name, n := range l[min(i, len(l)-1)] {
			p, ok := table.Exact(name)
			if !ok {
				return nil, fmt.Errorf("%s has no profile %q", model.Name, name)
			}
			want = append(want, mig.Count{Profile: p, N: n})
		}
		layout, ok := table.Arrange(nil, want)
		if !ok {
			return nil, fmt.Errorf("the instances of card %d do not fit on a %s", i, model.Name)
		}
		out = append(out, layout)
	}
	return out, nil
}
