package model

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/text"
	"github.com/gpuscale/gpuscale/report/query"
)

// grow is about demand unserved because a pool or a quota was at its limit.
func (m *maker) grow() []Action {
	var all []Action
	for _, u := range m.r.Demand.Unmet {
		a := Action{Effect: serves, Hours: u.Hours}
		switch u.Reason {
		case "PoolAtMax":
			a.Kind, a.Title = "grow-pool", fmt.Sprintf("Pods requesting %s were pending for a pool at its maximum", u.Shape)
			a.Patch, a.Risk = m.raisePools(), "It costs what the nodes cost, for as long as the demand lasts."
		case "QuotaExceeded", "BorrowedWaits":
			a.Kind, a.Title = "raise-quota", fmt.Sprintf("Pods requesting %s were pending for their quota (%s)", u.Shape, u.Reason)
			a.Patch, a.Risk = "kubectl get gpuquotas   # raise spec.amounts[].guaranteed or limit of the pending tenant; section 3 has use by tenant", "What one tenant is guaranteed cannot be borrowed by others while it uses it."
		default:
			continue
		}
		a.Query = m.sampled("max by ("+metric.LabelShape+", "+metric.LabelReason+") ("+m.a.Dialect.Select(metric.AutoscalerPendingGPUs.Name,
			query.Equal(metric.LabelShape, u.Shape), query.Equal(metric.LabelReason, u.Reason))+")", 1)
		all = append(all, m.action(a, u.Shape, u.Reason))
	}
	return all
}

// raisePools names the pools that are at their maximum.
func (m *maker) raisePools() string {
	var lines []string
	for _, p := range m.r.Pools {
		high, ok := p.Max.Get()
		now, also := p.Now.Get()
		if ok && also && now >= high {
			lines = append(lines, fmt.Sprintf(`kubectl patch gpunodepool %s --type merge -p '{"spec":{"max":%.0f}}'`, text.Quote(p.Pool), high+1))
		}
	}
	if len(lines) == 0 {
		return "kubectl get gpunodepools   # raise spec.max of the pool that fits the pods"
	}
	return strings.Join(lines, "\n")
}

func (m *maker) raiseHPAs() []Action {
	var all []Action
	d := m.a.Dialect
	for _, h := range m.r.Demand.HPAs {
		high, ok := h.Max.Get()
		if !ok || h.AtMax.Or(0) < 0.05*m.r.Window.Hours {
			continue
		}
		kind := func(k string) string {
			return "max by (" + d.AutoscalerNamespace() + ", " + metric.LabelHPA + ") (" + d.Select(metric.AutoscalerHPAReplicas.Name, query.Equal(d.AutoscalerNamespace(), h.Namespace), query.Equal(metric.LabelHPA, h.Name), query.Equal(metric.LabelKind, k)) + ")"
		}
		all = append(all, m.action(Action{
			Kind: "raise-hpa", Effect: serves, Title: fmt.Sprintf("HPA %s/%s ran at its maximum", h.Namespace, h.Name), Hours: h.AtMax,
			Patch: fmt.Sprintf(`kubectl -n %s patch hpa %s --type merge -p '{"spec":{"maxReplicas":%.0f}}'`, text.Quote(h.Namespace), text.Quote(h.Name), math.Ceil(high*1.5)),
			Risk:  "More replicas need more GPUs: look at the quota and the pool first.",
			Query: m.sampled("("+kind("current")+") >= bool ("+kind("max")+")", 1),
		}, h.Namespace, h.Name))
	}
	return all
}

// quantile of the known values, as in PromQL.
func quantile(q float64, values []float64) Number {
	known := known(values)
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
		size := sizes[p.Pool].Or(0)
		values, expression := m.gauge(p.Pool, "free")
		free, ok := quantile(q, values).Get()
		low, atMin := p.Min.Get()
		if !ok || size <= 0 || !atMin || p.Now.Or(0) > low {
			continue // its size was requested, not its minimum
		}
		nodes := min(math.Floor(free/size), low)
		if nodes < 1 {
			continue
		}
		hours := nodes * size * m.r.Window.Hours
		w := m.a.Window
		all = append(all, m.action(Action{
			Kind: "shrink-pool", Effect: frees,
			Title: fmt.Sprintf("Pool %s keeps %.0f %s that no pod needed 95 %% of the time", p.Pool, nodes, plural(nodes, "node", "nodes")),
			Hours: Known(hours), Money: m.money(p.Pool, p.Model, hours),
			Patch: fmt.Sprintf(`kubectl patch gpunodepool %s --type merge -p '{"spec":{"min":%.0f}}'`, text.Quote(p.Pool), low-nodes),
			Risk:  fmt.Sprintf("The next demand is pending until a node is ready (median: %s).", Seconds(p.ReadyP50)),
			Query: fmt.Sprintf("clamp_max(floor(quantile_over_time(%g, %s) / %g), %g) * %g", q, query.Over(expression, w.Length(), w.Coarse), size, low, size*w.Length().Hours()),
		}, p.Pool))
	}
	return all
}

// scattered is about free GPUs that fit no pending pod, by pool.
func (m *maker) scattered() []Action {
	var all []Action
	for _, p := range m.r.Pools {
		for _, kind := range []struct{ state, kind, patch, risk string }{
			{"fragmented", "repartition", fmt.Sprintf("gpuscale-autoscaler explain pool %s   # names what blocks a repartition, such as spec.mig.idleAfter or spec.mig.allowedProfiles", text.Quote(p.Pool)),
				"A GPU being repartitioned serves no pod for a minute or so."},
			{"stranded", "strand", fmt.Sprintf("gpuscale-autoscaler explain pool %s   # then lower the CPU and memory that GPU pods request, or use nodes with more", text.Quote(p.Pool)),
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

// replace is about nodes with sick GPUs.
func (m *maker) replace() []Action {
	var all []Action
	d := m.a.Dialect
	for _, n := range m.r.Reliability.Nodes {
		expression := "count (max by (" + metric.LabelGPUUUID + ") (" + d.Select(metric.GPUInfo.Name, query.Equal(metric.LabelNode, n.Node)) + ") and on (" + metric.LabelGPUUUID +
			") (min by (" + metric.LabelGPUUUID + ") (" + d.Select(metric.GPUHealthy.Name) + ") == 0))"
		all = append(all, m.action(Action{
			Kind: "replace", Effect: frees, Title: fmt.Sprintf("Node %s had sick GPUs", n.Node),
			Hours: n.Hours, Money: m.nodeMoney(n.Node, n.Hours.Or(0)),
			Patch: fmt.Sprintf("kubectl drain %s --ignore-daemonsets --delete-emptydir-data   # then return it to its owner", text.Quote(n.Node)),
			Risk:  "Pods on the node's other GPUs are evicted.", Query: m.sampled(expression, 1),
		}, n.Node))
	}
	return all
}

func (m *maker) nodeMoney(node string, hours float64) Number {
	for _, s := range m.a.Vectors[query.Devices] {
		if s.Labels.Get(metric.LabelNode) == node {
			return m.modelMoney(s.Labels.Get(metric.LabelModel), hours)
		}
	}
	return Unknown("the node's model is not known")
}
