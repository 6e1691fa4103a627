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
			Name: "GpuscaleExporterDown", Severity: Warning, Program: metric.Exporter, Threshold: at(staleSample), For: 10 * time.Minute,
			Why:     "A node that boots or leaves, and a rollout of the DaemonSet, take minutes. Readings are seconds old: two minutes is many missed ones and less than Prometheus' lookback of five.",
			Summary: "No current values of GPUs from {{ $labels.instance }}",
			Description: "Prometheus does not reach this exporter, the driver does not answer it, or its values are old because a call for a GPU hangs. Nothing is known of the node's GPUs: HPAs over them do not scale and the autoscaler does not touch them. " +
				"Look first at the exporter's pod on that node and its log; then whether nvidia-smi answers there.",
			query: func(p Params) string {
				return least(up(p, metric.Exporter), labelInstance) + " == 0 or " + least(of(metric.ExporterUp), labelInstance) + " == 0 or " +
					most(of(metric.GPUSampleAgeSeconds), labelInstance) + " > " + p.Threshold
			},
		},
		{
			Name: "GpuscaleAttributionFailing", Severity: Warning, Program: metric.Exporter, Threshold: at(staleMap), For: 5 * time.Minute,
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
			Name: "GpuscaleConfigRejected", Severity: Warning, For: 5 * time.Minute,
			Why:     "A file that is being written is read again within seconds.",
			Summary: "{{ $labels.program }} on {{ $labels.instance }} does not use its configuration{{ if $labels.rule }}: rule {{ $labels.rule }}{{ end }}",
			Description: "The current file has an error. The configuration before is still in force, but lost at a restart. " +
				"Look first at the program's log: it names the field. gpuscale-adapter --check and gpuscale-exporter check report the same without a cluster.",
			query: fixed(named(of(metric.ExporterReloadSuccessful)+" == 0", "program", "exporter") +
				" or " + named(of(metric.AdapterReloadGood)+" == 0", "program", "adapter") +
				" or " + named(of(metric.AdapterRuleState, `state="rejected"`)+" == 1", "program", "adapter")),
		},
	}
}
