package boards

import (
	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

var (
	inTenant    = board.In(metric.LabelTenant, "tenant")
	inNamespace = board.In(metric.LabelNamespace, "namespace")
)

func tenantGPUs(kind string) string {
	return board.Sum(board.Of(metric.AutoscalerTenantGPUs, inTenant, board.Is(metric.LabelKind, kind)), metric.LabelTenant)
}

const noQuota = "no quota covers it (GPUQuota, ResourceQuota, Kueue), or no autoscaler leads (see Overview)."

func quotas() []board.Panel {
	by := []string{metric.LabelTenant, metric.LabelNamespace}
	return []board.Panel{
		board.Panel{Kind: board.Table, Title: "Quotas", W: 14, Unit: board.Number, Absent: noQuota,
			About: "GPUs of each tenant. Borrowed: used beyond the guarantee. Lent: guaranteed, and used by other tenants. With policy.reclaimBorrowed the autoscaler reclaims borrowed GPUs for their owner.",
		}.With(board.Column{Label: metric.LabelTenant, Title: "Tenant", Width: 200},
			board.Column{Expr: tenantGPUs("guaranteed"), Title: "Guaranteed"}, board.Column{Expr: tenantGPUs("limit"), Title: "Limit"}, board.Column{Expr: tenantGPUs("used"), Title: "Used", Sort: true},
			board.Column{Expr: tenantGPUs("borrowed"), Title: "Borrowed", Scale: from(0.001, board.Watch)}, board.Column{Expr: tenantGPUs("lent"), Title: "Lent", Scale: from(0.001, board.Plain)},
			board.Column{Expr: tenantGPUs("pending"), Title: "Pending", Scale: from(0.001, board.Bad)}),
		{Kind: board.Bars, Title: "Use of the guarantee", W: 10, Unit: board.Percent, Absent: "the tenant has no guarantee, or " + noQuota,
			About:   "GPUs used, as a share of the guarantee. Above 100 % they are borrowed.",
			Scale:   board.Scale{{Colour: board.Plain}, {From: 1.001, Colour: board.Watch}},
			Queries: []board.Query{{Expr: board.Share(tenantGPUs("used"), tenantGPUs("guaranteed")), Legend: "{{tenant}}"}}},
		{Kind: board.Series, Title: "Pending time, p95", W: 24, Unit: board.Seconds, Absent: notYet,
			About:   "Time from a pod's creation until it was bound: 95th percentile over the interval of each point.",
			Queries: []board.Query{{Expr: board.Quantile(0.95, metric.AutoscalerPodPendingSeconds, []string{inTenant}, "$__rate_interval", metric.LabelTenant), Legend: "{{tenant}}"}}},
		board.Panel{Kind: board.Table, Title: "GPU hours by namespace", Unit: board.Number, Absent: noAutoscaler + noRules,
			About: "GPU-hours in the selected time. Allocated: to pods of the namespace. Computing: GPUs computed. Idle: allocated to pods that hardly compute. Money: cost of the allocated hours at the prices that the pools had. These are sums of five-minute means; the capacity report is exact.",
		}.With(board.Column{Label: metric.LabelTenant, Title: "Tenant", Width: 200},
			board.Column{Label: metric.LabelNamespace, Title: "Namespace", Width: 200, Link: &board.Link{Title: "Open the workloads", UID: WorkloadUID, Set: map[string]string{"namespace": metric.LabelNamespace}}},
			board.Column{Expr: gpuHours(by, allocatedPlaces...), Title: "Allocated, h", Sort: true}, board.Column{Expr: gpuHours(by, "busy"), Title: "Computing, h"},
			board.Column{Expr: gpuHours(by, "idle"), Title: "Idle, h", Scale: from(0.01, board.Warn)},
			board.Column{Expr: board.Share(gpuHours(by, "busy"), gpuHours(by, allocatedPlaces...)), Title: "Computing", Unit: board.Percent, Scale: board.Falling(0.2, 0.5)},
			board.Column{Expr: allocatedMoney(by), Title: "Money"}),
	}
}

// gpuHours returns pods' GPU hours in the selected time. Pods without an allocation have no row.
func gpuHours(by []string, places ...string) string {
	return board.Sum(board.Integral(recorded("namespace:gpuscale_gpu_seconds:rate5m", inTenant, inNamespace, board.Is(metric.LabelPlace, places...))), by...) + " / 3600 > 0"
}

// allocatedMoney sums the cost of allocated GPUs at the prices of each moment.
func allocatedMoney(by []string) string {
	return board.Sum(board.Integral(recorded("namespace:gpuscale_cost_per_hour:sum", inTenant, inNamespace)), by...) + " / 3600 > 0"
}
