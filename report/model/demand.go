package model

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/report/ledger"
	"github.com/gpuscale/gpuscale/report/query"
)

// Demand is section 2.
type Demand struct {
	Waits    []Wait  `json:"waits" doc:"Time from a pod's creation until it was bound; the first row is all tenants."`
	Decision Wait    `json:"decision" doc:"Time until the autoscaler acted for a pending pod."`
	Unmet    []Unmet `json:"unmet" doc:"Unserved demand by shape and reason, the most hours first."`
	HPAs     []HPA   `json:"hpas" doc:"HPAs at their maximum, the longest first."`
	Missing  string  `json:"missing" doc:"What the section lacks, if anything; without the autoscaler all of it."`
}

// Wait is a distribution of times in seconds.
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

// HPA is one at its maximum.
type HPA struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	AtMax     Number `json:"atMax" doc:"Hours, of the clock."`
	Max       Number `json:"max" doc:"Replicas it may have."`
	Reasons   string `json:"reasons" doc:"Reasons in the HPA's conditions."`
}

func (m *maker) demand() Demand {
	d := Demand{Decision: m.waits(query.Decisions, "")[""]}
	if !m.a.Autoscaler {
		d.Missing = noAutoscaler + ": pending demand is unknown"
		return d
	}
	waits := m.waits(query.PodWait, metric.LabelTenant)
	for _, t := range keys(waits) { // all of them, without a name, come first
		d.Waits = append(d.Waits, waits[t])
	}
	for _, l := range m.a.Lines[query.Waiting] {
		values := m.values(l)
		hours := m.total(values)
		if hours == 0 {
			continue
		}
		peak := slices.Max(known(values))
		d.Unmet = append(d.Unmet, Unmet{Shape: l.Labels.Get(metric.LabelShape), Reason: l.Labels.Get(metric.LabelReason), Hours: Known(hours), Peak: Known(peak)})
	}
	most(d.Unmet, func(u Unmet) Number { return u.Hours }, func(u Unmet) string { return u.Shape + u.Reason })
	d.HPAs = m.hpas()
	d.Missing = lacks(m.open(query.PodWait), m.open(query.Decisions), m.open(query.Waiting), m.open(query.HPAAtMax), m.open(query.HPALimited))
	return d
}

func (m *maker) hpas() []HPA {
	name := func(ls prom.Labels) string {
		return ls.Get(m.a.Dialect.AutoscalerNamespace()) + "\xff" + ls.Get(metric.LabelHPA)
	}
	reasons := map[string][]string{}
	for _, l := range m.a.Lines[query.HPALimited] {
		if m.total(m.values(l)) > 0 {
			reasons[name(l.Labels)] = append(reasons[name(l.Labels)], l.Labels.Get(metric.LabelReason))
		}
	}
	var all []HPA
	for _, l := range m.a.Lines[query.HPAAtMax] {
		at := known(m.values(l))
		if len(at) == 0 {
			continue
		}
		why := reasons[name(l.Labels)]
		slices.Sort(why)
		// At its maximum an HPA has that many replicas.
		all = append(all, HPA{Namespace: l.Labels.Get(m.a.Dialect.AutoscalerNamespace()), Name: l.Labels.Get(metric.LabelHPA),
			AtMax: Known(float64(len(at)) * m.coarse.Step.Hours()), Max: Known(at[len(at)-1]), Reasons: strings.Join(slices.Compact(why), ", ")})
	}
	most(all, func(h HPA) Number { return h.AtMax }, func(h HPA) string { return h.Namespace + "/" + h.Name })
	return all
}

// histogram is the growth of cumulative buckets by their upper bound.
type histogram map[float64]float64

// waits reads the quantiles of a histogram by a label, and under "" those of all of it.
func (m *maker) waits(id query.ID, label string) map[string]Wait {
	histograms, since := map[string]histogram{"": {}}, m.autoscalerSince()
	for _, l := range m.a.Lines[id] {
		bound, err := strconv.ParseFloat(l.Labels.Get("le"), 64)
		if err != nil {
			continue
		}
		grown := ledger.Grown(m.values(l), since)
		for _, of := range slices.Compact([]string{"", l.Labels.Get(label)}) {
			if histograms[of] == nil {
				histograms[of] = histogram{}
			}
			histograms[of][bound] += grown
		}
	}
	all := map[string]Wait{}
	for of, h := range histograms {
		all[of] = m.wait(cmp.Or(of, "all"), h, m.open(id))
	}
	return all
}

// wait reads the quantiles of a histogram. Without a wait it is unknown, for a reason where the
// query has one: it may have been lost.
func (m *maker) wait(of string, h histogram, lost string) Wait {
	why, count := "", h[math.Inf(1)]
	switch {
	case !m.a.Autoscaler:
		why = noAutoscaler
	case count < 0.5:
		why = cmp.Or(lost, "no wait was recorded in the window")
	default:
		return Wait{of, Known(math.Round(count)), h.quantile(0.5), h.quantile(0.95), h.quantile(0.99)}
	}
	none := Unknown(why)
	return Wait{of, none, none, none, none}
}

// quantile interpolates within the bucket, as Prometheus does. In the last bucket it is
// the lower bound.
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
