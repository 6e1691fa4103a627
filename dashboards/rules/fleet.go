package rules

import (
	"fmt"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// fleet is what the autoscaler says of all cards.
func fleet() []Rule {
	return []Rule{
		{
			Record: "pool:gpuscale_gpus:sum", Expr: sum(metric.AutoscalerGPUs.Name, metric.LabelPool, metric.LabelModel, metric.LabelState),
			Help: "Cards in each state.", Labels: []string{metric.LabelPool, metric.LabelModel, metric.LabelState},
		},
		{
			Record: "cluster:gpuscale_gpus:sum", Expr: sum(metric.AutoscalerGPUs.Name, metric.LabelState),
			Help: "Cards in each state.", Labels: []string{metric.LabelState},
		},
		{
			Record: "pool:gpuscale_gpu_seconds:rate5m", Expr: sum(rate(metric.AutoscalerGPUSeconds), metric.LabelPool, metric.LabelModel, metric.LabelPlace),
			Help: "Where GPU time goes: cards' worth of it in each place.", Labels: []string{metric.LabelPool, metric.LabelModel, metric.LabelPlace},
		},
		{
			Record: "cluster:gpuscale_gpu_seconds:rate5m", Expr: sum(rate(metric.AutoscalerGPUSeconds), metric.LabelPlace),
			Help: "Where GPU time goes: cards' worth of it in each place.", Labels: []string{metric.LabelPlace},
		},
		{
			Record: "pool:gpuscale_capacity_gpu_seconds:rate5m", Expr: sum(rate(metric.AutoscalerCapacityGPUSeconds), metric.LabelPool, metric.LabelModel),
			Help: "GPU time there is: cards' worth of it.", Labels: []string{metric.LabelPool, metric.LabelModel},
		},
		{
			Record: "cluster:gpuscale_capacity_gpu_seconds:rate5m", Expr: sum(rate(metric.AutoscalerCapacityGPUSeconds)),
			Help: "GPU time there is: cards' worth of it.",
		},
		{
			Record: "cluster:gpuscale_busy:ratio_rate5m",
			Expr: sum("rate("+metric.AutoscalerGPUSeconds.Name+"{place=\"busy\"}["+window+"])") + " / " +
				"(" + sum(rate(metric.AutoscalerCapacityGPUSeconds)) + " > 0)",
			Help: "Share of all GPU time that computes. Absent without cards.",
		},
		{
			Record: "pool:gpuscale_stranded_gpus:sum", Expr: sum(metric.AutoscalerStrandedGPUs.Name, metric.LabelPool, metric.LabelCause),
			Help: "Cards that nobody holds and that serve nobody as things are.", Labels: []string{metric.LabelPool, metric.LabelCause},
		},
		{
			Record: "pool:gpuscale_pool_nodes:sum", Expr: sum(metric.AutoscalerPoolSize.Name, metric.LabelPool, metric.LabelKind),
			Help: "Nodes of each kind.", Labels: []string{metric.LabelPool, metric.LabelKind},
		},
		{
			Record: "cluster:gpuscale_cost_per_hour:sum", Expr: sum(metric.AutoscalerCost.Name),
			Help: "What the nodes of all pools with a price cost in an hour.",
		},
	}
}

// tenants is what the autoscaler says of those who use cards.
func tenants() []Rule {
	places := []string{metric.LabelTenant, metric.LabelNamespace, metric.LabelPlace}
	return []Rule{
		{
			Record: "namespace:gpuscale_gpu_seconds:rate5m", Expr: sum(own(rate(metric.AutoscalerGPUSeconds), metric.LabelNamespace), places...),
			Help:   "Where GPU time goes, by who holds it: cards' worth of it. tenant and namespace are \"(none)\" for what nobody holds.",
			Labels: places,
		},
		{
			Record: "namespace:gpuscale_cost_per_hour:sum",
			Expr: sum(fmt.Sprintf("%s * on (cluster, pool) group_left () (%s / (%s > 0))",
				own("rate("+metric.AutoscalerGPUSeconds.Name+"{place=~\"busy|slack|idle|unmeasured\"}["+window+"])", metric.LabelNamespace),
				sum(metric.AutoscalerCost.Name, metric.LabelPool), sum(metric.AutoscalerGPUs.Name, metric.LabelPool)), metric.LabelTenant, metric.LabelNamespace),
			Help:   "What the cards that each namespace holds cost in an hour. Absent where the pool has no price.",
			Labels: []string{metric.LabelTenant, metric.LabelNamespace},
		},
		{
			Record: "tenant:gpuscale_tenant_gpus:sum", Expr: sum(metric.AutoscalerTenantGPUs.Name, metric.LabelTenant, metric.LabelKind),
			Help: "Quota and use in cards.", Labels: []string{metric.LabelTenant, metric.LabelKind},
		},
		{
			Record: "cluster:gpuscale_waiting_gpus:sum", Expr: sum(metric.AutoscalerWaitingGPUs.Name, metric.LabelShape, metric.LabelReason),
			Help: "Cards that pending pods want and that nothing is on its way for.", Labels: []string{metric.LabelShape, metric.LabelReason},
		},
		{
			Record: "cluster:gpuscale_actions:increase1h", Expr: happened(metric.AutoscalerActions, "1h", metric.LabelVerb, metric.LabelReason, metric.LabelResult),
			Help: "Actions of the last hour.", Labels: []string{metric.LabelVerb, metric.LabelReason, metric.LabelResult},
		},
	}
}
