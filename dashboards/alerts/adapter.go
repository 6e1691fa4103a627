package alerts

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// An answer is queried every few seconds and valid for a minute or two: after five
// minutes HPAs have had none for long. A fifth of all queries failing is more than a
// single slow one.
const (
	oldAnswer    = 300
	failingShare = 0.2
)

// noMetric are the HPA controller's reasons for a metric that it could not read.
const noMetric = `reason=~"FailedGetExternalMetric|FailedGetPodsMetric|FailedGetObjectMetric|FailedGetResourceMetric|FailedGetContainerResourceMetric"`

// adapter is about the values that HPAs get.
func adapter() []Alert {
	return []Alert{
		{
			Name: "GpuscaleAdapterDown", Severity: Critical, Enabled: true, Program: metric.Adapter, For: 5 * time.Minute,
			Why:     "There are two replicas or more, so a rollout is never without one.",
			Summary: "No replica of the adapter answers",
			Description: "No HPA gets GPU or queue metrics: all keep their replicas. " +
				"Look first at the adapter's pods, then at kubectl get apiservice: the metrics APIs fail with it.",
			query: func(p Params) string {
				return "absent(" + up(p, metric.Adapter) + ") or " + most(up(p, metric.Adapter)) + " == 0"
			},
		},
		{
			Name: "GpuscaleAdapterRuleWithoutAnswer", Severity: Warning, Enabled: true, Program: metric.Adapter, Threshold: at(oldAnswer), For: 5 * time.Minute,
			Why:     "Rules are queried every few seconds, and an answer expires long before this.",
			Summary: "Rule {{ $labels.rule }} has had no good answer for {{ $value | humanizeDuration }}",
			Description: "HPAs that use the rule get an error, never an old number or a 0, and do not scale. The oldest answer of all replicas counts. " +
				"Look first at the adapter's log for the rule, then run the rule's query in Prometheus: gpuscale-adapter rules prints it.",
			query: func(p Params) string {
				return most(of(metric.AdapterRuleAge), metric.LabelRule) + " > " + p.Threshold
			},
		},
		{
			Name: "GpuscaleAdapterQueryErrors", Severity: Warning, Enabled: true, Program: metric.Adapter, Threshold: at(failingShare), For: 10 * time.Minute,
			Why:     "Single queries fail whenever Prometheus restarts. A fifth of them for ten minutes is more than a restart.",
			Summary: "{{ $value | humanizePercentage }} of the adapter's queries to {{ $labels.backend }} fail",
			Description: "The metrics backend answers the adapter with errors, or marks its answers as incomplete. Rules lose their answers one after the other. " +
				"Look first at the adapter's log for the backend's error: credentials, a limit, a timeout, an unreachable store.",
			query: func(p Params) string {
				all := func(m ...string) string {
					return sum("rate("+of(metric.AdapterQueries, m...)+"[10m])", metric.LabelBackend)
				}
				return all(`result!="ok"`) + " / " + all() + " > " + p.Threshold
			},
		},
		{
			Name: "GpuscaleHPAWithoutMetric", Severity: Warning, Enabled: true, Program: metric.Autoscaler, For: 15 * time.Minute,
			Why:     "An HPA reports this of a new Deployment, too.",
			Summary: "HPA {{ $labels.namespace }}/{{ $labels.hpa }} does not get its metric: {{ $labels.reason }}",
			Description: "The HPA's own condition reports that it cannot read its metric, wherever between the exporter, Prometheus, the adapter and the API server it is lost. It does not scale. " +
				"Look first at gpuscale-adapter explain hpa NAMESPACE/NAME: it shows where the chain ends.",
			query: fixed(most(own(of(metric.AutoscalerHPALimited, noMetric), metric.LabelNamespace),
				metric.LabelNamespace, metric.LabelHPA, metric.LabelReason) + " == 1"),
		},
	}
}
