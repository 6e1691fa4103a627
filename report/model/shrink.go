package model

import (
	"fmt"
	"math"
	"slices"

	"github.com/gpuscale/gpuscale/report/query"
)

// quantile of the known values, as in PromQL.
func quantile(q float64, values []float64) Number {
	var known []float64
	for i, v := range values {
		if i > 0 && !math.IsNaN(v) {
			known = append(known, v)
		}
	}
	if len(known) == 0 {
		return Unknown("no value in the window")
	}
	slices.Sort(known)
	rank := q * float64(len(known)-1)
	low := int(rank)
	high := min(low+1, len(known)-1)
	part := rank - float64(low)
	return Known(known[low]*(1-part) + known[high]*part)
}

// shrink is about pools whose minimum keeps nodes that were free nearly always.
func (m *maker) shrink() []Action {
	const q = 0.05
	var all []Action
	sizes := m.gpusPerNode()
	for _, p := range m.r.Pools {
		per := Unknown("")
		if n, ok := sizes[p.Pool]; ok {
			per = n
		}
		size, known := per.Get()
		values, expression := m.gauge(p.Pool, "free")
		free, ok := quantile(q, values).Get()
		if !ok || !known || size <= 0 {
			continue
		}
		low, atMin := p.Min.Get()
		nodes := math.Floor(free / size)
		if !atMin || p.Now.Or(0) > low {
			continue // its size was requested, not its minimum
		}
		nodes = min(nodes, low)
		if nodes < 1 {
			continue
		}
		hours := nodes * size * m.r.Window.Hours
		w := m.a.Window
		all = append(all, m.action(Action{
			Kind: "shrink-pool", Effect: frees,
			Title: fmt.Sprintf("Pool %s keeps %.0f %s that no pod needed 95 %% of the time", p.Pool, nodes, plural(nodes, "node", "nodes")),
			Hours: Known(hours), Money: m.money(p.Pool, p.Model, hours),
			Patch: fmt.Sprintf(`kubectl patch gpunodepool %s --type merge -p '{"spec":{"min":%.0f}}'`, shell(p.Pool), low-nodes),
			Risk:  fmt.Sprintf("The next demand is pending until a node is ready: %s at the median.", waitText(p.ReadyP50)),
			Query: fmt.Sprintf("clamp_max(floor(quantile_over_time(%g, %s) / %g), %g) * %g", q, query.Over(expression, w.Length(), w.Coarse), size, low, size*w.Length().Hours()),
		}, p.Pool))
	}
	return all
}

func waitText(n Number) string {
	v, ok := n.Get()
	if !ok {
		return "for an unknown time"
	}
	return fmt.Sprintf("%.3g s", v)
}

func plural(n float64, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}
