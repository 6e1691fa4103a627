package model

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/report/query"
)

// Demand is section 2.
type Demand struct {
	Waits    []Wait  `json:"waits" doc:"Time from a pod's creation until it was bound; the first row is all tenants."`
	Decision Wait    `json:"decision" doc:"Time until the autoscaler acted for a pending pod."`
	Unmet    []Unmet `json:"unmet" doc:"Unserved demand by shape and reason, the most hours first."`
	HPAs     []HPA   `json:"hpas" doc:"HPAs at their maximum, the longest first."`
	Missing  string  `json:"missing" doc:"Why the section is empty without the autoscaler."`
}

// Wait is a distribution of waiting times in seconds.
type Wait struct {
	Of    string `json:"of"`
	Count Number `json:"count"`
	P50   Number `json:"p50"`
	P95   Number `json:"p95"`
	P99   Number `json:"p99"`
}

// Unmet is unserved demand of one shape.
type Unmet struct {
	Shape  string `json:"shape" doc:"What one pod requests: GPUs, a MIG profile or a fraction."`
	Reason string `json:"reason" doc:"The autoscaler's reason: see docs/reasons.md."`
	Hours  Number `json:"hours" doc:"GPU-hours of unserved demand."`
	Peak   Number `json:"peak" doc:"GPUs, at the most."`
}

// HPA is an HPA at its maximum.
type HPA struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	AtMax     Number `json:"atMax" doc:"Hours, of the clock."`
	Max       Number `json:"max" doc:"Replicas it may have."`
	Reasons   string `json:"reasons" doc:"Reasons in the HPA's conditions."`
}

// demandOf makes section 2.
func demandOf(a answers) Demand {
	d := Demand{Decision: a.waits(query.Decisions, "")[""]}
	if !a.Autoscaler {
		d.Missing = noAutoscaler + ": pending demand is unknown"
		return d
	}
	waits := a.waits(query.PodWait, metric.LabelTenant)
	for _, t := range keys(waits) { // "" is first: all tenants together
		d.Waits = append(d.Waits, waits[t])
	}
	for _, l := range a.Lines[query.Waiting] {
		values := a.values(l)
		hours := a.total(values)
		if hours == 0 {
			continue
		}
		peak := slices.Max(known(values))
		d.Unmet = append(d.Unmet, Unmet{Shape: l.Labels.Get(metric.LabelShape), Reason: l.Labels.Get(metric.LabelReason), Hours: Known(hours), Peak: Known(peak)})
	}
	most(d.Unmet, func(u Unmet) Number { return u.Hours }, func(u Unmet) string { return u.Shape + u.Reason })
	d.HPAs = hpasAtMax(a)
	return d
}

func hpasAtMax(a answers) []HPA {
	name := func(ls prom.Labels) string {
		return ls.Get(a.Dialect.AutoscalerNamespace()) + "\xff" + ls.Get(metric.LabelHPA)
	}
	reasons := map[string][]string{}
	for _, l := range a.Lines[query.HPALimited] {
		if a.total(a.values(l)) > 0 {
			reasons[name(l.Labels)] = append(reasons[name(l.Labels)], l.Labels.Get(metric.LabelReason))
		}
	}
	var all []HPA
	for _, l := range a.Lines[query.HPAAtMax] {
		at := known(a.values(l))
		if len(at) == 0 {
			continue
		}
		why := reasons[name(l.Labels)]
		slices.Sort(why)
		// An HPA at its maximum has that many replicas.
		all = append(all, HPA{Namespace: l.Labels.Get(a.Dialect.AutoscalerNamespace()), Name: l.Labels.Get(metric.LabelHPA),
			AtMax: Known(float64(len(at)) * a.coarse.Step.Hours()), Max: Known(at[len(at)-1]), Reasons: strings.Join(slices.Compact(why), ", ")})
	}
	most(all, func(h HPA) Number { return h.AtMax }, func(h HPA) string { return h.Namespace + "/" + h.Name })
	return all
}

// histogram maps upper bounds of cumulative buckets to their growth.
type histogram map[float64]float64

// quantile interpolates within a bucket, as Prometheus does. In the last bucket it is the bucket's lower
// bound.
func (h histogram) quantile(q float64) Number {
	type bucket struct{ bound, count float64 }
	var all []bucket
	for bound, count := range h {
		all = append(all, bucket{bound, count})
	}
	slices.SortFunc(all, func(a, b bucket) int { return cmp.Compare(a.bound, b.bound) })
	rank := q * h[math.Inf(1)]
	lower, below := 0.0, 0.0
	for _, b := range all {
		if b.count >= rank && b.count > below {
			if math.IsInf(b.bound, 1) {
				return Known(lower)
			}
			return Known(lower + (b.bound-lower)*(rank-below)/(b.count-below))
		}
		lower, below = b.bound, max(below, b.count)
	}
	return Unknown("the buckets do not add up")
}
