package alerts

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// A reading is a few seconds old; the autoscaler believes none of more than 30 s. The
// map of holders is made less often, and holds until a pod comes or goes.
const (
	staleSample = 120
	staleMap    = 300
)

// exporter is about the exporters and what they cannot say.
func exporter() []Alert {
	errs := "increase(" + metric.ExporterAttributionErrors.Name + "[15m]) > 0"
	return []Alert{
		{
			Name: "GpuscaleExporterDown", Severity: Warning, Enabled: true, Program: metric.Exporter, For: 10 * time.Minute,
			Why:     "A node that boots or leaves, and a rollout of the DaemonSet, take minutes.",
			Summary: "No exporter answers on {{ $labels.instance }}",
			Description: "Prometheus has not reached this exporter for ten minutes. Nothing is known of the node's cards: HPAs over them stand still and the autoscaler keeps its hands off. " +
				"Look first at the exporter's pod on that node: kubectl describe pod, then its log.",
			query: func(p Params) string { return up(p, metric.Exporter) + " == 0" },
		},
		{
			Name: "GpuscaleExporterSourceDown", Severity: Warning, Enabled: true, Program: metric.Exporter, For: 5 * time.Minute,
			Why:     "The exporter connects anew by itself within seconds; five minutes is not a restart.",
			Summary: "The driver does not answer the exporter on {{ $labels.instance }}",
			Description: "The exporter runs and DCGM does not answer it, so the node's cards have no values. " +
				"Look first whether nvidia-smi answers on the node; then at the host engine.",
			query: fixed(of(metric.ExporterUp) + " == 0"),
		},
		{
			Name: "GpuscaleSamplesStale", Severity: Warning, Enabled: true, Program: metric.Exporter, Threshold: at(staleSample), For: 5 * time.Minute,
			Why:     "Readings are seconds old. Two minutes is many missed ones and less than Prometheus' five, after which they would be gone.",
			Summary: "Values of cards on {{ $labels.node }} are {{ $value | humanizeDuration }} old",
			Description: "The exporter answers with old values: a card, or the driver's call for it, hangs. " +
				"Look first at gpu_sample_age_seconds by card, and at the exporter's log for the card.",
			query: func(p Params) string {
				return most(of(metric.GPUSampleAgeSeconds), metric.LabelNode) + " > " + p.Threshold
			},
		},
		{
			Name: "GpuscaleAttributionFailing", Severity: Warning, Enabled: true, Program: metric.Exporter, Threshold: at(staleMap), For: 5 * time.Minute,
			Why:     "The kubelet is asked every few seconds; five minutes without an answer is not a restart of it.",
			Summary: "Nobody says which pods hold the cards of {{ if $labels.node }}{{ $labels.node }}{{ else }}{{ $labels.instance }}{{ end }}",
			Description: "The kubelet has not told the exporter which pod holds what. Use is then shown for nobody, and the autoscaler treats every card of the node as held. " +
				"Look first at the exporter's log, and whether the kubelet's pod-resources socket is mounted.",
			query: func(p Params) string {
				return most(of(metric.GPUAttributionAgeSeconds), metric.LabelNode) + " > " + p.Threshold +
					" or " + errs + " unless on (" + on(labelInstance) + ") " + of(metric.GPUAttributionAgeSeconds)
			},
		},
		{
			Name: "GpuscaleSeriesDropped", Severity: Warning, Enabled: true, Program: metric.Exporter, For: 10 * time.Minute,
			Why:     "What is left out is left out at each scrape, so one moment of it is no reason to look.",
			Summary: "The exporter on {{ $labels.instance }} leaves {{ $labels.family }} out",
			Description: "The exporter's page would have more series than --max-series allows, so it leaves whole families out. What reads them sees nothing. " +
				"Look first at gpuscale_exporter_series; raise the bound or ask for fewer counters.",
			query: fixed(happened(of(metric.ExporterSeriesDropped), "15m", labelInstance, metric.LabelFamily) + " > 0"),
		},
		{
			Name: "GpuscaleConfigRejected", Severity: Warning, Enabled: true, For: 5 * time.Minute,
			Why:     "A file that is being written is read again within seconds.",
			Summary: "{{ $labels.program }} on {{ $labels.instance }} does not use its configuration{{ if $labels.rule }}: rule {{ $labels.rule }}{{ end }}",
			Description: "The file that is there now has a mistake. What was in force before still serves; a restart would not have it any more. " +
				"Look first at the program's log: it names the field. gpuscale-adapter --check and gpuscale-exporter check say the same without a cluster.",
			query: fixed(named(of(metric.ExporterReloadSuccessful)+" == 0", "program", "exporter") +
				" or " + named(of(metric.AdapterReloadGood)+" == 0", "program", "adapter") +
				" or " + named(of(metric.AdapterRuleState, `state=~"kept|rejected"`)+" == 1", "program", "adapter")),
		},
	}
}
