package fleet

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gpuscale/gpuscale/autoscaler/observe/ledger"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/plan"
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
			if one.number < ledger.Unlimited {
				f.add(metric.AutoscalerTenantGPUs, one.number, s.Tenant, one.kind)
			}
		}
		if s.Limited {
			f.add(metric.AutoscalerTenantGPUs, s.Limit, s.Tenant, "limit")
		}
	}
}

// demand adds pending demand that is not served, in GPUs. Unreadable demand has no size, so its pods are counted
// instead.
func (f *Fleet) demand(scale *plan.Scale, r *Reconcile) {
	reasons := map[string]plan.Reason{} // of pending pods only: most pods run
	for i := range r.Pods {
		if r.Pods[i].Node == "" {
			reasons[r.Pods[i].Key()] = ""
		}
	}
	for i := range r.Plan.Verdicts {
		v := &r.Plan.Verdicts[i]
		if _, isPending := reasons[v.Subject]; isPending && v.Kind == plan.KindPod {
			reasons[v.Subject] = v.Reason
		}
	}
	type kind struct{ shape, reason string }
	sums := map[kind]float64{}
	for i := range r.Pods {
		p := &r.Pods[i]
		reason := reasons[p.Key()]
		switch {
		case p.Node != "", slices.Contains(plan.Served, reason):
		case p.Unreadable != "":
			sums[kind{unreadable, string(reason)}]++
		case !p.Demand.Zero():
			sums[kind{shapeOf(scale, p.Demand), string(reason)}] += scale.GPUs(p.Demand)
		}
	}
	shapes := map[string]bool{}
	for _, k := range slices.SortedFunc(maps.Keys(sums), func(a, b kind) int {
		return cmp.Or(strings.Compare(a.reason, b.reason), strings.Compare(a.shape, b.shape))
	}) {
		gpus := sums[k]
		if !shapes[k.shape] && len(shapes) >= maxShapes {
			k.shape = metric.Other
		}
		shapes[k.shape] = true
		f.add(metric.AutoscalerPendingGPUs, gpus, k.shape, k.reason)
	}
}

const unreadable = "(unreadable)"

// shapeOf is a request in short: the profiles of a MIG request ("1g.10gb", "1g.10gb*2"), else the number of GPUs ("8",
// "0.5", or "2x0.5" for parts of different GPUs). A vendor other than NVIDIA follows.
func shapeOf(scale *plan.Scale, d demand.Demand) string {
	var words []string
	for _, in := range d.MIG {
		word := in.Name
		if in.Count != 1 {
			word += "*" + strconv.Itoa(in.Count)
		}
		words = append(words, word)
	}
	if len(words) > 0 {
		return strings.Join(words, " ")
	}
	gpus, text := scale.GPUs(d), ""
	if f := d.Fraction; f != nil && f.GPUs > 1 {
		gpus, text = gpus/float64(f.GPUs), strconv.Itoa(f.GPUs)+"x"
	}
	if gpus < 0.005 { // a demand above zero never prints as zero
		text += strconv.FormatFloat(gpus, 'g', 2, 64)
	} else {
		text += strconv.FormatFloat(math.Round(gpus*100)/100, 'f', -1, 64)
	}
	if d.Vendor != "nvidia" && d.Vendor != "" {
		text += " " + d.Vendor
	}
	return text
}

// limiting has the status with which a condition limits an HPA. ScaledToZero, which Kubernetes 1.37 sets on every HPA,
// limits none.
var limiting = map[autoscalingv2.HorizontalPodAutoscalerConditionType]corev1.ConditionStatus{
	autoscalingv2.AbleToScale: corev1.ConditionFalse, autoscalingv2.ScalingActive: corev1.ConditionFalse, autoscalingv2.ScalingLimited: corev1.ConditionTrue,
}

// hpas adds the replicas and limits of HPAs. Values that their controller has not
// published are absent.
func (f *Fleet) hpas(r *Reconcile) {
	for _, h := range r.HPAs[:min(len(r.HPAs), maxNamed)] {
		f.add(metric.AutoscalerHPAReplicas, float64(ptr.Deref(h.Spec.MinReplicas, 1)), h.Namespace, h.Name, "min")
		f.add(metric.AutoscalerHPAReplicas, float64(h.Spec.MaxReplicas), h.Namespace, h.Name, "max")
		if len(h.Status.Conditions) > 0 {
			f.add(metric.AutoscalerHPAReplicas, float64(h.Status.CurrentReplicas), h.Namespace, h.Name, "current")
			f.add(metric.AutoscalerHPAReplicas, float64(h.Status.DesiredReplicas), h.Namespace, h.Name, "desired")
		}
		for _, c := range h.Status.Conditions {
			if c.Status == limiting[c.Type] && c.Reason != "" {
				f.gauges[metric.AutoscalerHPALimited.Name].WithLabelValues(h.Namespace, h.Name, c.Reason).Set(1)
			}
		}
	}
}

// forecasts adds forecast demand, in GPUs.
func (f *Fleet) forecasts(scale *plan.Scale, r *Reconcile) {
	for i := range r.Forecasts[:min(len(r.Forecasts), maxNamed)] {
		fc := &r.Forecasts[i]
		if fc.Unsure != "" {
			continue
		}
		gpus := scale.GPUs(fc.Like.Demand)
		f.add(metric.AutoscalerForecastGPUs, gpus*fc.Low, fc.Name, "low")
		f.add(metric.AutoscalerForecastGPUs, gpus*fc.Expected, fc.Name, "expected")
		f.add(metric.AutoscalerForecastGPUs, gpus*fc.High, fc.Name, "high")
		f.add(metric.AutoscalerForecastError, fc.Error, fc.Name)
	}
}
