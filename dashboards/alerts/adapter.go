package alerts

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// An answer is queried every few seconds and valid for a minute or two: after five
// minutes HPAs have had none for long.
const oldAnswer = 300

// noMetric are the HPA controller's reasons for a metric that it could not read.
const noMetric = `reason=~"FailedGetExternalMetric|FailedGetPodsMetric|FailedGetObjectMetric|FailedGetResourceMetric|FailedGetContainerResourceMetric"`

// adapter is about the values that HPAs get.
func adapter() []Alert {
	return []Alert{
		{
			Name: "GpuscaleAdapterDown", Severity: Critical, Program: metric.Adapter, For: 5 * time.Minute,
			Why:     "There are two replicas or more, so a rollout is never without one.",
			Summary: "No replica of the adapter answers",
			Description: "The adapter was scraped within the last day, and no replica answers now. No HPA gets GPU or queue metrics: all keep their replicas. " +
				"Look first at the adapter's pods, then at kubectl get apiservice: the metrics APIs fail with it.",
			query: func(p Params) string {
				return wasThere(up(p, metric.Adapter)) + " unless on (" + on() + ") " + group(up(p, metric.Adapter)+" == 1")
			},
		},
		{
			Name: "GpuscaleAdapterRuleWithoutAnswer", Severity: Warning, Program: metric.Adapter, Threshold: at(oldAnswer), For: 5 * time.Minute,
			Why:     "Rules are queried every few seconds, and an answer expires long before this.",
			Summary: "Rule {{ $labels.rule }} has had no good answer for {{ $value | humanizeDuration }}",
			Description: "HPAs that use the rule get an error, never an old number or a 0, and do not scale. The oldest answer of all replicas counts. " +
				"Look first at the adapter's log for the rule, then run the rule's query in Prometheus: gpuscale-adapter rules prints it.",
			query: func(p Params) string {
				return most(of(metric.AdapterRuleAge), metric.LabelRule) + " > " + p.Threshold
			},
		},
		{
			Name: "GpuscaleHPAWithoutMetric", Severity: Warning, Program: metric.Autoscaler, For: 15 * time.Minute,
			Why:     "An HPA reports this of a new Deployment, too.",
			Summary: "HPA {{ $labels.namespace }}/{{ $labels.hpa }} does not get its metric: {{ $labels.reason }}",
			Description: "The HPA's own condition reports that it cannot read its metric, wherever between the exporter, Prometheus, the adapter and the API server it is lost. It does not scale. " +
				"Look first at gpuscale-adapter explain hpa NAMESPACE/NAME: it shows where the chain ends.",
			query: fixed(most(own(of(metric.AutoscalerHPALimited, noMetric), metric.LabelNamespace),
				metric.LabelNamespace, metric.LabelHPA, metric.LabelReason) + " == 1"),
		},
	}
}
