package fleet

import (
	"slices"
	"strconv"

	"github.com/gpuscale/gpuscale/autoscaler/observe/ledger"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/capacity"
)

// pools adds prices, backoffs and freezes.
func (f *Fleet) pools(r *Reconcile) {
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

// tenants adds quotas and their usage, of at most maxNamed tenants.
func (f *Fleet) tenants(r *Reconcile) {
	all := ledger.Shares(&r.Snapshot)
	for _, s := range all[:min(len(all), maxNamed)] {
		for _, one := range []struct {
			kind   string
			number float64
		}{{"guaranteed", s.Guaranteed}, {"used", s.Used}, {"borrowed", s.Borrowed}, {"lent", s.Lent}, {"pending", s.Pending}} {
			if one.number < unlimited {
				f.add(metric.AutoscalerTenantGPUs, one.number, s.Tenant, one.kind)
			}
		}
		if s.Limited {
			f.add(metric.AutoscalerTenantGPUs, s.Limit, s.Tenant, "limit")
		}
	}
}

// unlimited is a number of GPUs that stands for no limit.
const unlimited = 1e9

// served are the verdicts of pods for which capacity is free or upcoming.
var served = []plan.Reason{plan.WaitScheduler, plan.WaitUpcomingNode, plan.WaitRepartition, plan.WaitReclaim}

// demand adds pending demand that is not served, in GPUs. Unreadable demand has no size:
// its pods are counted.
func (f *Fleet) demand(sv *capacity.Survey, r *Reconcile) {
	shapes := map[string]bool{}
	for _, row := range sv.Pending(r.Plan.Verdicts) {
		if slices.Contains(served, row.Reason) {
			continue
		}
		shape, size := row.Shape, max(float64(row.Size.Compute), float64(row.Size.Memory))/capacity.GPUShares
		if !row.Readable {
			shape, size = unreadable, float64(row.Pods)
		}
		if !shapes[shape] && len(shapes) >= maxShapes {
			shape = metric.Other
		}
		shapes[shape] = true
		f.add(metric.AutoscalerPendingGPUs, size, shape, string(row.Reason))
	}
}

const unreadable = "(unreadable)"

// hpas adds the replicas and limits of HPAs. Values that their controller has not
// published are absent.
func (f *Fleet) hpas(r *Reconcile) {
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

// forecasts adds forecast demand, in GPUs.
func (f *Fleet) forecasts(sv *capacity.Survey, r *Reconcile) {
	for i := range r.Forecasts[:min(len(r.Forecasts), maxNamed)] {
		fc := &r.Forecasts[i]
		if fc.Unsure != "" {
			continue
		}
		size := sv.SizeOf(&fc.Like)
		gpus := max(float64(size.Compute), float64(size.Memory)) / capacity.GPUShares
		f.add(metric.AutoscalerForecastGPUs, gpus*fc.Low, fc.Name, "low")
		f.add(metric.AutoscalerForecastGPUs, gpus*fc.Expected, fc.Name, "expected")
		f.add(metric.AutoscalerForecastGPUs, gpus*fc.High, fc.Name, "high")
		f.add(metric.AutoscalerForecastError, fc.Error, fc.Name)
	}
}
