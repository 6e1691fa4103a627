package alerts

import (
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// need is a family that alerts read and what proves that it ought to be there.
type need struct {
	family  metric.Desc
	program metric.Owner // whose absence the alert is blind to without it
	witness func(Params) string
	labels  []string // beside cluster: where it is looked for
}

// needs are the families without which an alert would be silent for ever. What
// begins with its first event cannot be here; a test knows those by name.
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
		// Some products tell neither: then no card of the cluster does.
		{metric.GPUThrottleSecondsTotal, metric.Exporter, fixed(metric.GPUInfo.Name), nil},
		{metric.GPUIdleSeconds, metric.Exporter, fixed(metric.GPUHeld.Name), nil},

		{metric.AdapterRuleAge, metric.Adapter, answers(metric.Adapter), each},
		{metric.AdapterRuleState, metric.Adapter, answers(metric.Adapter), each},
		{metric.AdapterReloadGood, metric.Adapter, answers(metric.Adapter), each},
		{metric.AdapterQueries, metric.Adapter, answers(metric.Adapter), each},

		{metric.AutoscalerRounds, metric.Autoscaler, leader, each},
		{metric.AutoscalerRoundAge, metric.Autoscaler, leader, each},
		{metric.AutoscalerPlannerPanics, metric.Autoscaler, leader, each},
		{metric.AutoscalerSnapshotAge, metric.Autoscaler, leader, each},
		// Without a pool there is none of these, and nothing to say.
		{metric.AutoscalerPoolSize, metric.Autoscaler, fixed(metric.AutoscalerPoolBackoff.Name), nil},
		{metric.AutoscalerPoolBackoff, metric.Autoscaler, fixed(metric.AutoscalerPoolSize.Name), nil},
		{metric.AutoscalerFrozen, metric.Autoscaler, fixed(metric.AutoscalerPoolSize.Name), nil},
		{metric.AutoscalerInterruptions, metric.Autoscaler, fixed(metric.AutoscalerPoolSize.Name), nil},
		{metric.AutoscalerVerdicts, metric.Autoscaler, fixed(metric.AutoscalerPoolSize.Name), nil},
		{metric.AutoscalerTenantGPUs, metric.Autoscaler, fixed(of(metric.AutoscalerGPUSeconds, `tenant!="`+metric.Nobody+`"`)), nil},
		{metric.AutoscalerWaitingGPUs, metric.Autoscaler, fixed(metric.AutoscalerUnservedSlices.Name + " > 0"), nil},
	}
}

// seriesMissing fires for each family that an alert reads and nobody emits. Without
// it an alert whose series was renamed, dropped by a relabelling or never scraped
// would be silent, and look well.
func seriesMissing() Alert {
	return Alert{
		Name: "GpuscaleSeriesMissing", Severity: Warning, Enabled: true, For: 15 * time.Minute,
		Why:     "A program that has just begun has not read everything yet, and families of one round need not be of the same scrape.",
		Summary: "{{ $labels.family }} is missing{{ if $labels.instance }} on {{ $labels.instance }}{{ end }}",
		Description: "An alert reads this series, and nobody emits it though its program answers: the alert cannot fire. " +
			"Look first at the program's own /metrics. If it is there, a relabelling drops it or the scrape is cut short; if it is not, the program's log says why.",
		query: func(p Params) string {
			var arms []string
			for _, n := range needs() {
				arms = append(arms, named(group(n.witness(p), n.labels...)+" unless on ("+on(n.labels...)+") "+n.family.Name, "family", n.family.Name))
			}
			// Nodes that are ready and no target at all: nothing is scraped, or it is
			// called otherwise.
			ready := sum(of(metric.AutoscalerPoolSize, `kind="ready"`)) + " > 0"
			arms = append(arms, named("("+ready+") unless on ("+on()+") "+up(p, metric.Exporter), "family", "up"))
			return strings.Join(arms, "\nor ")
		},
	}
}
