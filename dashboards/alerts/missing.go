package alerts

import (
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// need is a family that alerts read and the evidence that it should exist.
type need struct {
	family  metric.Desc
	program metric.Owner // whose alert cannot fire without it
	witness func(Params) string
	labels  []string // beside cluster: where it is expected
}

// needs are the families without which an alert could never fire. Families that begin
// with their first event cannot be here; a test has those by name.
func needs() []need {
	answers := func(program metric.Owner) func(Params) string {
		return func(p Params) string { return up(p, program) + " == 1" }
	}
	leader := fixed(metric.AutoscalerLeader.Name + " == 1")
	each := []string{labelInstance}
	return []need{
		{metric.ExporterUp, metric.Exporter, answers(metric.Exporter), each},
		{metric.ExporterReloadSuccessful, metric.Exporter, answers(metric.Exporter), each},
		{metric.ExporterAttributionErrors, metric.Exporter, answers(metric.Exporter), each},
		{metric.GPUInfo, metric.Exporter, fixed(metric.ExporterUp.Name + " == 1"), each},
		{metric.GPUHealthy, metric.Exporter, fixed(metric.GPUInfo.Name), each},
		{metric.GPUSampleAgeSeconds, metric.Exporter, fixed(metric.GPUInfo.Name), each},
		{metric.GPUAttributionAgeSeconds, metric.Exporter, fixed(metric.GPUHeld.Name), each},
		// Some products have neither: then no GPU of the cluster has.
		{metric.GPUThrottleSecondsTotal, metric.Exporter, fixed(metric.GPUInfo.Name), nil},
		{metric.GPUIdleSeconds, metric.Exporter, fixed(metric.GPUHeld.Name), nil},

		{metric.AdapterRuleAge, metric.Adapter, answers(metric.Adapter), each},
		{metric.AdapterRuleState, metric.Adapter, answers(metric.Adapter), each},
		{metric.AdapterReloadGood, metric.Adapter, answers(metric.Adapter), each},
		{metric.AdapterQueries, metric.Adapter, answers(metric.Adapter), each},

		{metric.AutoscalerReconciles, metric.Autoscaler, leader, each},
		{metric.AutoscalerReconcileAge, metric.Autoscaler, leader, each},
		{metric.AutoscalerPlannerPanics, metric.Autoscaler, leader, each},
		{metric.AutoscalerSnapshotAge, metric.Autoscaler, leader, each},
		// Without a pool there is none of these.
		{metric.AutoscalerPoolSize, metric.Autoscaler, fixed(metric.AutoscalerPoolBackoff.Name), nil},
		{metric.AutoscalerPoolBackoff, metric.Autoscaler, fixed(metric.AutoscalerPoolSize.Name), nil},
		{metric.AutoscalerFrozen, metric.Autoscaler, fixed(metric.AutoscalerPoolSize.Name), nil},
		{metric.AutoscalerInterruptions, metric.Autoscaler, fixed(metric.AutoscalerPoolSize.Name), nil},
		{metric.AutoscalerVerdicts, metric.Autoscaler, fixed(metric.AutoscalerPoolSize.Name), nil},
		{metric.AutoscalerTenantGPUs, metric.Autoscaler, fixed(of(metric.AutoscalerGPUSeconds, `tenant!="`+metric.NotApplicable+`"`)), nil},
		{metric.AutoscalerPendingGPUs, metric.Autoscaler, fixed(metric.AutoscalerUnservedSlices.Name + " > 0"), nil},
	}
}

// seriesMissing fires for each family that an alert reads and no program emits. Without
// it an alert whose series was renamed, dropped by a relabelling or never scraped would
// never fire, and look healthy.
func seriesMissing() Alert {
	return Alert{
		Name: "GpuscaleSeriesMissing", Severity: Warning, Enabled: true, For: 15 * time.Minute,
		Why:     "A program that has just started has not read everything yet, and families of one reconcile may be of different scrapes.",
		Summary: "{{ $labels.family }} is missing{{ if $labels.instance }} on {{ $labels.instance }}{{ end }}",
		Description: "An alert reads this series, and its program answers without it: the alert cannot fire. " +
			"Look first at the program's own /metrics. If it is there, a relabelling drops it or the scrape is truncated; if it is not, the program's log has the reason.",
		query: func(p Params) string {
			var arms []string
			for _, n := range needs() {
				arms = append(arms, named(group(n.witness(p), n.labels...)+" unless on ("+on(n.labels...)+") "+n.family.Name, "family", n.family.Name))
			}
			// Nodes that are ready and no target at all: nothing is scraped, or under
			// another name.
			ready := sum(of(metric.AutoscalerPoolSize, `kind="ready"`)) + " > 0"
			arms = append(arms, named("("+ready+") unless on ("+on()+") "+up(p, metric.Exporter), "family", "up"))
			return strings.Join(arms, "\nor ")
		},
	}
}
