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
	words := []struct {
		kind, title string
		scale       board.Scale
	}{
		{"guaranteed", "Guaranteed", nil}, {"limit", "Limit", nil}, {"used", "Used", nil},
		{"borrowed", "Borrowed", board.Scale{{Colour: board.Ink}, {From: 0.001, Colour: board.Watch}}},
		{"lent", "Lent", board.Scale{{Colour: board.Ink}, {From: 0.001, Colour: board.Plain}}},
		{"pending", "Pending", board.Scale{{Colour: board.Ink}, {From: 0.001, Colour: board.Bad}}},
	}
	by := []string{metric.LabelTenant, metric.LabelNamespace}
	t := board.Panel{Kind: board.Table, Title: "Quotas", W: 14, Unit: board.Number, Absent: noQuota,
		About:   "GPUs by tenant. Borrowed is beyond the guarantee; lent is of the guarantee. Borrowed GPUs are reclaimed for their owner where policy.reclaimBorrowed is set.",
		Columns: []board.Column{{Label: metric.LabelTenant, Title: "Tenant", Width: 200}}}
	for i, w := range words {
		t.Queries = append(t.Queries, board.Query{Expr: tenantGPUs(w.kind)})
		t.Columns = append(t.Columns, board.Column{Value: i + 1, Title: w.title, Scale: w.scale, Sort: w.kind == "used"})
	}
	return []board.Panel{t,
		{Kind: board.Bars, Title: "Use of the guarantee", W: 10, Unit: board.Percent, Absent: "the tenant is guaranteed nothing, or " + noQuota,
			About:   "GPUs used, of those guaranteed. Beyond 100 % is borrowed.",
			Scale:   board.Scale{{Colour: board.Plain}, {From: 1.001, Colour: board.Watch}},
			Queries: []board.Query{{Expr: board.Share(tenantGPUs("used"), tenantGPUs("guaranteed")), Legend: "{{tenant}}"}}},
		{Kind: board.Series, Title: "Pending time, p95", W: 24, Unit: board.Seconds, Absent: notYet,
			About:   "Time from a pod's creation until it was bound, 95th percentile over the time of one point.",
			Queries: []board.Query{{Expr: board.Quantile(0.95, metric.AutoscalerPodPendingSeconds, "$__rate_interval", metric.LabelTenant), Legend: "{{tenant}}"}}},
		{Kind: board.Table, Title: "GPU hours by namespace", Unit: board.Number, Absent: noAutoscaler + noRules,
			About: "Hours of whole GPUs in the selected time: allocated, of them computing, and of them allocated to something that hardly computes at all. Money is the cost of the allocated hours at the pools' prices of the time. The sums are of means over five minutes; the capacity report is exact.",
			Queries: []board.Query{
				{Expr: gpuHours(by, allocatedPlaces...)}, {Expr: gpuHours(by, "busy")}, {Expr: gpuHours(by, "idle")},
				{Expr: board.Share(gpuHours(by, "busy"), gpuHours(by, allocatedPlaces...))},
				{Expr: allocatedMoney(by)},
			},
			Columns: []board.Column{
				{Label: metric.LabelTenant, Title: "Tenant", Width: 200},
				{Label: metric.LabelNamespace, Title: "Namespace", Width: 200, Link: &board.Link{Title: "Open the workloads", UID: WorkloadUID, Set: map[string]string{"namespace": metric.LabelNamespace}}},
				{Value: 1, Title: "Allocated, h", Sort: true}, {Value: 2, Title: "Computing, h"},
				{Value: 3, Title: "Idle, h", Scale: board.Scale{{Colour: board.Ink}, {From: 0.01, Colour: board.Warn}}},
				{Value: 4, Title: "Computing", Unit: board.Percent, Scale: board.Falling(0.2, 0.5)},
				{Value: 5, Title: "Money"},
			}},
	}
}

// gpuHours of pods in the selected time. Without an allocation there is no row.
func gpuHours(by []string, places ...string) string {
	return board.Sum(board.Integral(recorded("namespace:gpuscale_gpu_seconds:rate5m", inTenant, inNamespace, board.Is(metric.LabelPlace, places...))), by...) + " / 3600 > 0"
}

// allocatedMoney is the cost of allocated GPUs at the prices of the time, added up.
func allocatedMoney(by []string) string {
	return board.Sum(board.Integral(recorded("namespace:gpuscale_cost_per_hour:sum", inTenant, inNamespace)), by...) + " / 3600 > 0"
}
