package alerts

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// A reading is a few seconds old; the autoscaler rejects those of more than 30 s.
// Attribution is read less often, and is valid until a pod comes or goes.
const (
	staleSample = 120
	staleMap    = 300
)

// exporter is about the exporters and what they cannot read.
func exporter() []Alert {
	errs := "increase(" + metric.ExporterAttributionErrors.Name + "[15m]) > 0"
	return []Alert{
		{
			Name: "GpuscaleExporterDown", Severity: Warning, Enabled: true, Program: metric.Exporter, For: 10 * time.Minute,
			Why:     "A node that boots or leaves, and a rollout of the DaemonSet, take minutes.",
			Summary: "No exporter answers on {{ $labels.instance }}",
			Description: "Prometheus has not reached this exporter for ten minutes. Nothing is known of the node's GPUs: HPAs over them do not scale and the autoscaler does not touch them. " +
				"Look first at the exporter's pod on that node: kubectl describe pod, then its log.",
			query: func(p Params) string { return up(p, metric.Exporter) + " == 0" },
		},
		{
			Name: "GpuscaleExporterSourceDown", Severity: Warning, Enabled: true, Program: metric.Exporter, For: 5 * time.Minute,
			Why:     "The exporter reconnects by itself within seconds; five minutes is not a restart.",
			Summary: "The driver does not answer the exporter on {{ $labels.instance }}",
			Description: "The exporter runs and DCGM does not answer it, so the node's GPUs have no values. " +
				"Look first whether nvidia-smi answers on the node; then at the host engine.",
			query: fixed(of(metric.ExporterUp) + " == 0"),
		},
		{
			Name: "GpuscaleSamplesStale", Severity: Warning, Enabled: true, Program: metric.Exporter, Threshold: at(staleSample), For: 5 * time.Minute,
			Why:     "Readings are seconds old. Two minutes is many missed ones and less than Prometheus' lookback of five.",
			Summary: "Values of GPUs on {{ $labels.node }} are {{ $value | humanizeDuration }} old",
			Description: "The exporter answers with old values: a GPU, or the driver's call for it, hangs. " +
				"Look first at gpu_sample_age_seconds by GPU, and at the exporter's log for the GPU.",
			query: func(p Params) string {
				return most(of(metric.GPUSampleAgeSeconds), metric.LabelNode) + " > " + p.Threshold
			},
		},
		{
			Name: "GpuscaleAttributionFailing", Severity: Warning, Enabled: true, Program: metric.Exporter, Threshold: at(staleMap), For: 5 * time.Minute,
			Why:     "The kubelet is read every few seconds; five minutes without an answer is not a restart of it.",
			Summary: "Unknown which pods the GPUs are allocated to on {{ if $labels.node }}{{ $labels.node }}{{ else }}{{ $labels.instance }}{{ end }}",
			Description: "The exporter has not read allocations from the kubelet. Use is then shown for no pod, and the autoscaler treats every GPU of the node as allocated. " +
				"Look first at the exporter's log, and whether the kubelet's pod-resources socket is mounted.",
			query: func(p Params) string {
				return most(of(metric.GPUAttributionAgeSeconds), metric.LabelNode) + " > " + p.Threshold +
					" or " + errs + " unless on (" + on(labelInstance) + ") " + of(metric.GPUAttributionAgeSeconds)
			},
		},
		{
			Name: "GpuscaleSeriesDropped", Severity: Warning, Enabled: true, Program: metric.Exporter, For: 10 * time.Minute,
			Why:     "What is left out is left out at each scrape; a single time needs no attention.",
			Summary: "The exporter on {{ $labels.instance }} leaves {{ $labels.family }} out",
			Description: "The exporter's page would have more series than --max-series allows, so it leaves whole families out. Their readers get nothing. " +
				"Look first at gpuscale_exporter_series; raise the bound or ask for fewer counters.",
			query: fixed(happened(of(metric.ExporterSeriesDropped), "15m", labelInstance, metric.LabelFamily) + " > 0"),
		},
		{
			Name: "GpuscaleConfigRejected", Severity: Warning, Enabled: true, For: 5 * time.Minute,
			Why:     "A file that is being written is read again within seconds.",
			Summary: "{{ $labels.program }} on {{ $labels.instance }} does not use its configuration{{ if $labels.rule }}: rule {{ $labels.rule }}{{ end }}",
			Description: "The current file has an error. The configuration before is still in force, but lost at a restart. " +
				"Look first at the program's log: it names the field. gpuscale-adapter --check and gpuscale-exporter check report the same without a cluster.",
			query: fixed(named(of(metric.ExporterReloadSuccessful)+" == 0", "program", "exporter") +
				" or " + named(of(metric.AdapterReloadGood)+" == 0", "program", "adapter") +
				" or " + named(of(metric.AdapterRuleState, `state=~"kept|rejected"`)+" == 1", "program", "adapter")),
		},
	}
}
