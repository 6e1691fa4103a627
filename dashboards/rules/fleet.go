package rules

import (
	"fmt"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// fleet has the autoscaler's series of all GPUs.
func fleet() []Rule {
	return []Rule{
		{
			Record: "pool:gpuscale_gpu_seconds:rate5m", Expr: sum(rate(metric.AutoscalerGPUSeconds), metric.LabelPool, metric.LabelModel, metric.LabelPlace),
			Help: "GPU time by place, in GPUs.", Labels: []string{metric.LabelPool, metric.LabelModel, metric.LabelPlace},
		},
		{
			Record: "pool:gpuscale_capacity_gpu_seconds:rate5m", Expr: sum(rate(metric.AutoscalerCapacityGPUSeconds), metric.LabelPool, metric.LabelModel),
			Help: "Capacity of GPU time, in GPUs.", Labels: []string{metric.LabelPool, metric.LabelModel},
		},
	}
}

// tenants has the autoscaler's series by tenant.
func tenants() []Rule {
	places := []string{metric.LabelTenant, metric.LabelNamespace, metric.LabelPlace}
	return []Rule{
		{
			Record: "namespace:gpuscale_gpu_seconds:rate5m", Expr: sum(own(rate(metric.AutoscalerGPUSeconds), metric.LabelNamespace), places...),
			Help:   "GPU time by place, tenant and namespace, in GPUs. tenant and namespace are \"(none)\" for what is not allocated.",
			Labels: places,
		},
		{
			Record: "namespace:gpuscale_cost_per_hour:sum",
			Expr: sum(fmt.Sprintf("%s * on (cluster, pool) group_left () (%s / (%s > 0))",
				own("rate("+metric.AutoscalerGPUSeconds.Name+"{place=~\"busy|slack|idle|unmeasured\"}["+window+"])", metric.LabelNamespace),
				sum(metric.AutoscalerCost.Name, metric.LabelPool), sum(metric.AutoscalerGPUs.Name, metric.LabelPool)), metric.LabelTenant, metric.LabelNamespace),
			Help:   "Cost per hour of the GPUs allocated to each namespace. Absent where the pool has no price.",
			Labels: []string{metric.LabelTenant, metric.LabelNamespace},
		},
	}
}
