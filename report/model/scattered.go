package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/report/query"
)

// scattered is about free GPUs that fit no pending pod, by pool.
func (m *maker) scattered() []Action {
	var all []Action
	for _, p := range m.r.Pools {
		for _, kind := range []struct{ state, kind, patch, risk string }{
			{"fragmented", "repartition", fmt.Sprintf(`kubectl patch gpunodepool %s --type merge -p '{"spec":{"mig":{"idleAfter":"5m"}}}'   # repartition sooner; "gpuscale-autoscaler explain pool %s" names what blocks it`, shell(p.Pool), shell(p.Pool)),
				"A GPU being repartitioned serves no pod for a minute or so."},
			{"stranded", "strand", fmt.Sprintf("gpuscale-autoscaler explain pool %s   # then lower the CPU and memory that GPU pods request, or use nodes with more", shell(p.Pool)),
				"Pods with less CPU may start slower."},
		} {
			values, expression := m.gauge(p.Pool, kind.state)
			hours := m.total(values)
			if hours == 0 {
				continue
			}
			because := m.causes(p.Pool, kind.state)
			if because != "" {
				because = "causes: " + because
			}
			all = append(all, m.action(Action{
				Kind: kind.kind, Effect: frees, Title: fmt.Sprintf("Pool %s has GPUs that are %s", p.Pool, kind.state),
				Hours: Known(hours), Money: m.money(p.Pool, p.Model, hours), Patch: kind.patch, Risk: kind.risk, Because: because,
				Query: m.sampled(expression, 1),
			}, p.Pool))
		}
	}
	return all
}

// causes lists the reasons, the most hours first.
func (m *maker) causes(pool, state string) string {
	fragments := []string{"odd", "unpartitioned", "shape", "scattered"}
	type cause struct {
		name  string
		hours Number
	}
	var all []cause
	for _, l := range m.a.Lines[query.Stranded] {
		name := l.Labels.Get(metric.LabelCause)
		if l.Labels.Get(metric.LabelPool) == pool && slices.Contains(fragments, name) == (state == "fragmented") {
			if h := m.total(m.values(l)); h > 0 {
				all = append(all, cause{name, Known(h)})
			}
		}
	}
	most(all, func(c cause) Number { return c.hours }, func(c cause) string { return c.name })
	var words []string
	for _, c := range all {
		words = append(words, fmt.Sprintf("%s %.3g h", c.name, c.hours.Or(0)))
	}
	return strings.Join(words, ", ")
}
