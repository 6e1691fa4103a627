package fleet

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/autoscaler/observe/ledger"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/capacity"
)

// pools adds prices, and what keeps pools from acting.
func (f *Fleet) pools(r *Round) {
	frozen := map[string]bool{}
	for _, v := range r.Plan.Verdicts {
		if v.Kind == plan.KindPool && v.Reason == plan.Frozen {
			frozen[v.Subject] = true
		}
	}
	for i := range r.Pools {
		p := &r.Pools[i]
		f.add(metric.AutoscalerPoolBackoff, flag(p.BackoffUntil.After(r.Now)), p.Name)
		f.add(metric.AutoscalerFrozen, flag(p.Freeze || frozen[p.Name]), p.Name)
		if p.PricePerHour > 0 {
			f.add(metric.AutoscalerPoolPrice, p.PricePerHour, p.Name, strconv.FormatBool(p.Spot))
			f.add(metric.AutoscalerCost, p.PricePerHour*float64(max(p.Size, 0)), p.Name)
		}
	}
}

// tenants adds what each may have and has, as far as there are not too many.
func (f *Fleet) tenants(r *Round) {
	all := ledger.Shares(&r.Snapshot)
	for _, s := range all[:min(len(all), maxNamed)] {
		for _, one := range []struct {
			kind   string
			number float64
		}{{"guaranteed", s.Guaranteed}, {"used", s.Used}, {"borrowed", s.Borrowed}, {"lent", s.Lent}, {"waiting", s.Waiting}} {
			if one.number < endless {
				f.add(metric.AutoscalerTenantGPUs, one.number, s.Tenant, one.kind)
			}
		}
		if s.Limited {
			f.add(metric.AutoscalerTenantGPUs, s.Limit, s.Tenant, "limit")
		}
	}
}

// endless is more cards than there are: a bound that is none.
const endless = 1e9

// served are the verdicts of pods that something is there, or on its way, for.
var served = []plan.Reason{plan.WaitScheduler, plan.WaitUpcomingNode, plan.WaitRepartition, plan.WaitReclaim}

// demand adds what waits and is not served. What nobody can read has no size: its
// pods are counted.
func (f *Fleet) demand(sv *capacity.Survey, r *Round) {
	type key struct{ shape, reason string }
	sums, shapes := map[key]float64{}, map[string]bool{}
	for _, row := range sv.Pending(r.Plan.Verdicts) {
		if slices.Contains(served, row.Reason) {
			continue
		}
		shape, size := row.Shape, max(float64(row.Size.Compute), float64(row.Size.Memory))/capacity.CardShares
		if !row.Readable {
			shape, size = unreadable, float64(row.Pods)
		}
		if !shapes[shape] && len(shapes) >= maxShapes {
			shape = metric.Other
		}
		shapes[shape] = true
		sums[key{shape, string(row.Reason)}] += size
	}
	for _, k := range sortedKeys(sums, func(a, b key) int {
		return cmp.Or(strings.Compare(a.shape, b.shape), strings.Compare(a.reason, b.reason))
	}) {
		f.add(metric.AutoscalerWaitingGPUs, sums[k], k.shape, k.reason)
	}
}

const unreadable = "(unreadable)"

// hpas adds what HPAs want and may. What their controller has not said is absent.
func (f *Fleet) hpas(r *Round) {
	for _, h := range r.HPAs[:min(len(r.HPAs), maxNamed)] {
		f.add(metric.AutoscalerHPAReplicas, float64(h.Min), h.Namespace, h.Name, "min")
		f.add(metric.AutoscalerHPAReplicas, float64(h.Max), h.Namespace, h.Name, "max")
		if h.Seen {
			f.add(metric.AutoscalerHPAReplicas, float64(h.Current), h.Namespace, h.Name, "current")
			f.add(metric.AutoscalerHPAReplicas, float64(h.Desired), h.Namespace, h.Name, "desired")
		}
		for _, reason := range h.Limits {
			f.add(metric.AutoscalerHPALimited, 1, h.Namespace, h.Name, reason)
		}
	}
}

// forecasts adds what is expected, in cards.
func (f *Fleet) forecasts(sv *capacity.Survey, r *Round) {
	for i := range r.Forecasts[:min(len(r.Forecasts), maxNamed)] {
		fc := &r.Forecasts[i]
		if fc.Unsure != "" {
			continue
		}
		size := sv.SizeOf(&fc.Like)
		cards := max(float64(size.Compute), float64(size.Memory)) / capacity.CardShares
		f.add(metric.AutoscalerForecastGPUs, cards*fc.Low, fc.Name, "low")
		f.add(metric.AutoscalerForecastGPUs, cards*fc.Expected, fc.Name, "expected")
		f.add(metric.AutoscalerForecastGPUs, cards*fc.High, fc.Name, "high")
		f.add(metric.AutoscalerForecastError, fc.Error, fc.Name)
	}
}
