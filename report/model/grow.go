package model

import (
	"fmt"
	"math"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/metric"
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
			a.Patch, a.Risk = "kubectl get gpuquotas   # raise spec.guarantee or spec.limit of the pending tenant; section 3 has use by tenant", "What one tenant is guaranteed cannot be borrowed by others while it uses it."
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
			lines = append(lines, fmt.Sprintf(`kubectl patch gpunodepool %s --type merge -p '{"spec":{"max":%.0f}}'`, shell(p.Pool), high+1))
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
			return "max by (" + d.AllocatedTo() + ", " + metric.LabelHPA + ") (" + d.Select(metric.AutoscalerHPAReplicas.Name, query.Equal(d.AllocatedTo(), h.Namespace), query.Equal(metric.LabelHPA, h.Name), query.Equal(metric.LabelKind, k)) + ")"
		}
		all = append(all, m.action(Action{
			Kind: "raise-hpa", Effect: serves, Title: fmt.Sprintf("HPA %s/%s ran at its maximum", h.Namespace, h.Name), Hours: h.AtMax,
			Patch: fmt.Sprintf(`kubectl -n %s patch hpa %s --type merge -p '{"spec":{"maxReplicas":%.0f}}'`, shell(h.Namespace), shell(h.Name), math.Ceil(high*1.5)),
			Risk:  "More replicas need more GPUs: look at the quota and the pool first.",
			Query: m.sampled("("+kind("current")+") >= bool ("+kind("max")+")", 1),
		}, h.Namespace, h.Name))
	}
	return all
}
