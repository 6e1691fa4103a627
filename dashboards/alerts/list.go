package alerts

import (
	"time"

	"github.com/gpuscale/gpuscale/dashboards/sources"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// A reading is a few seconds old, and the autoscaler rejects readings older than 30 s. Attribution is read
// less often. It stays valid until a pod starts or ends on the node.
const (
	staleSample = 120
	staleMap    = 300
)

// exporter returns the alerts about exporters and what they cannot read.
func exporter() []Alert {
	errs := "increase(" + metric.ExporterAttributionErrors.Name + "[15m]) > 0"
	return []Alert{
		{
			Name: "GpuscaleExporterDown", Severity: Warning, Program: metric.Exporter, Threshold: staleSample, For: 10 * time.Minute,
			Why:     "A node that starts or leaves takes minutes, and so does a rollout of the DaemonSet. Values are normally seconds old; two minutes is less than Prometheus' lookback of five.",
			Summary: "The exporter {{ $labels.instance }} has no current values of its GPUs",
			Description: "Prometheus cannot scrape the exporter, the driver does not answer it, or its values are old because a call to a GPU hangs. HPAs on the GPUs of this node do not scale, and the autoscaler does not repartition or reclaim them. " +
				"First read the log of the exporter's pod on the node; then run nvidia-smi there.",
			query: least(up(metric.Exporter), labelInstance) + " == 0 or " + least(of(metric.ExporterUp), labelInstance) + " == 0 or " +
				most(of(metric.GPUSampleAgeSeconds), labelInstance) + " > " + anyThreshold,
		},
		{
			Name: "GpuscaleAttributionFailing", Severity: Warning, Program: metric.Exporter, Threshold: staleMap, For: 5 * time.Minute,
			Why:     "The exporter reads the kubelet every few seconds, and a restart of the kubelet takes less than five minutes.",
			Summary: "The exporter on {{ if $labels.node }}{{ $labels.node }}{{ else }}{{ $labels.instance }}{{ end }} does not know which pods have its GPUs",
			Description: "The exporter has not read from the kubelet which pod each GPU is allocated to. The use of the GPUs is shown for no pod, and the autoscaler treats every GPU of the node as allocated. " +
				"First read the exporter's log; then check that the kubelet's pod-resources socket is mounted into its pod.",
			query: most(of(metric.GPUAttributionAgeSeconds), metric.LabelNode) + " > " + anyThreshold +
				// An exporter that is gone together with its node has errors in the range for a while; they do not count.
				" or " + errs + " and on (" + sources.On(labelInstance) + ") " + of(metric.ExporterUp) + " unless on (" + sources.On(labelInstance) + ") " + of(metric.GPUAttributionAgeSeconds),
		},
		{
			Name: "GpuscaleConfigRejected", Severity: Warning, For: 5 * time.Minute,
			Why:     "A file that is half written is read again within seconds.",
			Summary: "{{ $labels.program }} on {{ $labels.instance }} rejects its configuration{{ if $labels.rule }}: rule {{ $labels.rule }}{{ end }}",
			Description: "The configuration file has an error. The program still uses the former configuration, and loses it when it restarts. " +
				"First read the program's log: it names the field. gpuscale-adapter --check and gpuscale-exporter check report the same without a cluster.",
			query: named(of(metric.ExporterReloadSuccessful)+" == 0", "program", "exporter") +
				" or " + named(of(metric.AdapterReloadGood)+" == 0", "program", "adapter") +
				" or " + named(of(metric.AdapterRuleState, `state="rejected"`)+" == 1", "program", "adapter"),
		},
	}
}

// device lists the labels that identify a GPU, also after the driver has renumbered the GPUs.
var device = []string{metric.LabelNode, metric.LabelGPUUUID}

// throttled are the reasons that indicate a fault. Power caps are not among them: a GPU
// that trains runs at its cap by design.
const throttled = `reason=~"hw_slowdown|hw_thermal|sw_thermal|hw_power_brake"`

// A GPU throttled for a quarter of the time loses noticeable work; one that is idle for
// two hours is not idle by accident.
const (
	throttledShare = 0.25
	idleLong       = 2 * 3600
)

// gpus returns the alerts about broken and wasted GPUs.
func gpus() []Alert {
	index := append([]string{metric.LabelGPU}, device...)
	holder := []string{metric.LabelNamespace, metric.LabelPod}
	// A GPU that was released on request has no series until it is reacquired, an hour later at the most.
	released := group(of(metric.GPUInfo)+" and on ("+sources.On(labelInstance)+") "+of(metric.ExporterQuiesced)+" > 0", metric.LabelNode)
	before, now := group(of(metric.GPUInfo)+" offset 1h", device...), group(of(metric.GPUInfo), device...)
	return []Alert{
		{
			Name: "GPUUnhealthy", Severity: Warning, Program: metric.Exporter, For: 5 * time.Minute,
			Why:     "A reset makes a GPU unhealthy for a minute, and a repartition releases it for up to a minute.",
			Summary: "GPU {{ $labels.gpu_uuid }} of node {{ $labels.node }} is broken: {{ $labels.reason }}",
			Description: "The reason is lost (the GPU fell off the bus), xid_N (that XID error), row_remap_failure (memory that cannot be repaired any more), recovery_X (the driver requests that recovery), health_X (a health watch of DCGM), " +
				"or gone (the node had the GPU an hour ago, it has no series now, and no other GPU replaced it). Programs on the GPU fail or hang. The autoscaler does not count the GPU as capacity, and replaces the node if its pool allows that. " +
				"First look up the reason in docs/exporter.md: it says whether to reset the GPU, to power-cycle the node or to return the GPU.",
			query: least(of(metric.GPUHealthy), append(device, metric.LabelReason)...) + " == 0" +
				" or on (" + sources.On(device...) + ") " + named("(("+before+" unless "+now+")"+
				// A replaced GPU is not a loss, nor is another machine with the same node name.
				" and on ("+sources.On(metric.LabelNode)+") ("+now+" and "+before+") and on ("+sources.On(metric.LabelNode)+") "+sources.By("count", before, metric.LabelNode)+" > "+sources.By("count", now, metric.LabelNode)+
				" unless on ("+sources.On(metric.LabelNode)+") "+released+")", metric.LabelReason, "gone"),
		},
		{
			Name: "GPUThrottled", Severity: Warning, Program: metric.Exporter, Threshold: throttledShare, For: 15 * time.Minute,
			Why:     "A quarter of the time over a quarter of an hour is longer than the start of a job.",
			Summary: "GPU {{ $labels.gpu }} of node {{ $labels.node }} is slowed down {{ $value | humanizePercentage }} of the time ({{ $labels.reason }})",
			Description: "Heat or the power supply lowers the GPU's clocks. Every job with a part on this GPU is as slow as this GPU. Power caps do not count. " +
				"First compare the temperatures of the node's GPUs: if all are hot, check the fans and the data centre; if one is hot, check that GPU.",
			query: most("rate("+of(metric.GPUThrottleSecondsTotal, throttled)+"[10m])", append(index, metric.LabelReason)...) + " > " + anyThreshold,
		},
		{
			Name: "GPUHeldIdle", Severity: Info, Program: metric.Exporter, Threshold: idleLong, For: 10 * time.Minute,
			Why:     "Two hours is longer than loading a data set or a break. Ten minutes more, because a restart of the exporter resets the idle time.",
			Summary: "Pod {{ $labels.namespace }}/{{ $labels.pod }} has a GPU of node {{ $labels.node }} allocated and has not used it for {{ $value | humanizeDuration }}",
			Description: "The pod computes nothing, and no other pod can use its GPU or slice. " +
				"First ask the owner of the pod. A GPUQuota with reclaimIdle reclaims such GPUs automatically.",
			query: most(sources.Own(of(metric.GPUIdleSeconds), holder...), append(append(index, metric.LabelGPUInstanceID), holder...)...) + " > " + anyThreshold,
		},
	}
}

// Prometheus is queried every few seconds, and an answer is valid for a minute or two. After five minutes
// HPAs have had no value for a long time.
const oldAnswer = 300

// noMetric are the HPA controller's reasons for a metric that it could not read.
const noMetric = `reason=~"FailedGetExternalMetric|FailedGetPodsMetric|FailedGetObjectMetric|FailedGetResourceMetric|FailedGetContainerResourceMetric"`

// adapter returns the alerts about the values that HPAs get.
func adapter() []Alert {
	return []Alert{
		{
			Name: "GpuscaleAdapterDown", Severity: Critical, Program: metric.Adapter, For: 5 * time.Minute,
			Why:     "There are at least two replicas, so one of them runs during a rollout.",
			Summary: "No replica of gpuscale-adapter answers Prometheus",
			Description: "Prometheus scraped the adapter within the last day, and can scrape no replica now. HPAs get no GPU or queue metrics and keep their replicas. " +
				"First run kubectl -n gpuscale-system get pods -l app.kubernetes.io/name=gpuscale-adapter; then kubectl get apiservices: without the adapter the metrics APIs are not available.",
			query: wasThere(up(metric.Adapter)) + " unless on (" + sources.On() + ") " + group(up(metric.Adapter)+" == 1"),
		},
		{
			Name: "GpuscaleAdapterRuleWithoutAnswer", Severity: Warning, Program: metric.Adapter, Threshold: oldAnswer, For: 5 * time.Minute,
			Why:     "Rules are queried every few seconds, and an answer expires long before this.",
			Summary: "Rule {{ $labels.rule }} of the adapter has had no valid answer from Prometheus for {{ $value | humanizeDuration }}",
			Description: "HPAs that use the rule get an error, never an old number or a 0, and do not scale. The replica with the oldest answer counts. " +
				"First search the adapter's log for the rule; then run the rule's query in Prometheus: gpuscale-adapter rules prints it.",
			query: most(of(metric.AdapterRuleAge), metric.LabelRule) + " > " + anyThreshold,
		},
		{
			Name: "GpuscaleHPAWithoutMetric", Severity: Warning, Program: metric.Autoscaler, For: 15 * time.Minute,
			Why:     "The HPA of a new Deployment reports this for some minutes, too.",
			Summary: "HPA {{ $labels.namespace }}/{{ $labels.hpa }} cannot read its metric: {{ $labels.reason }}",
			Description: "The HPA reports this in its conditions, and does not scale. The value may be lost in the exporter, Prometheus, the adapter or the API server. " +
				"First run gpuscale-adapter explain hpa {{ $labels.namespace }}/{{ $labels.hpa }}: it shows where the value is lost.",
			query: most(sources.Own(of(metric.AutoscalerHPALimited, noMetric), metric.LabelNamespace),
				metric.LabelNamespace, metric.LabelHPA, metric.LabelReason) + " == 1",
		},
	}
}

// A reconcile comes every second, on input that is seconds old. When idle it comes every ten seconds, or every
// thirty where no provider gives notices of interruptions.
const (
	lateReconcile = 300
	oldSnapshot   = 180
)

// autoscaler returns the alerts about an autoscaler that does not reconcile.
func autoscaler() []Alert {
	return []Alert{
		{
			Name: "GpuscaleAutoscalerDown", Severity: Critical, Program: metric.Autoscaler, Threshold: lateReconcile, For: 5 * time.Minute,
			Why:     "The autoscaler reconciles every second, or every 10 to 30 s when idle, and its deadlines are below a minute. Another replica takes over the Lease within a minute.",
			Summary: "No replica of gpuscale-autoscaler completes a reconcile",
			Description: "Prometheus scraped the autoscaler within the last day, and no replica has completed a reconcile for minutes: none runs, none leads, every reconcile fails, or one hangs. No node is added for pending pods, and nothing is repartitioned or reclaimed. " +
				"First run kubectl -n gpuscale-system get pods -l app.kubernetes.io/name=gpuscale-autoscaler, and read the log; then check the Lease: kubectl -n gpuscale-system get lease.",
			query: wasThere(of(metric.AutoscalerLeader)) + " unless on (" + sources.On() + ") " + group("time() - "+of(metric.AutoscalerReconcileAge)+" < "+anyThreshold),
		},
		{
			Name: "GpuscaleSnapshotStale", Severity: Warning, Program: metric.Autoscaler, Threshold: oldSnapshot, For: 5 * time.Minute,
			Why:     "The cluster is read in each reconcile, and Prometheus several times before an answer expires.",
			Summary: "The autoscaler plans with data of {{ $labels.kind }} that is {{ $value | humanizeDuration }} old",
			Description: "kind cluster: it cannot read the API server. kind prometheus: it does not know the allocation and use of GPUs, so nothing idle is reclaimed, repartitioned or scaled down. " +
				"First check whether Prometheus answers the autoscaler, and whether it scrapes the exporters.",
			query: most(leads(of(metric.AutoscalerSnapshotAge)), metric.LabelKind) + " > " + anyThreshold,
		},
	}
}

// A pool whose provider fails is in backoff for 1 to 30 minutes, with requests in between. Half of the last
// hour in backoff means that the provider does not deliver.
const backoffShare = 0.5

// capacity returns the alerts about demand that the fleet cannot serve.
func capacity() []Alert {
	tenant := func(kind string) string {
		return most(of(metric.AutoscalerTenantGPUs, `kind="`+kind+`"`), metric.LabelTenant)
	}
	return []Alert{
		{
			Name: "GpuscalePoolBackingOff", Severity: Warning, Program: metric.Autoscaler, Threshold: backoffShare, For: 10 * time.Minute,
			Why:     "A pool enters and leaves backoff while its provider fails, so its share of an hour counts.",
			Summary: "Pool {{ $labels.pool }} does not get the nodes it requests",
			Description: "The pool's provider failed to deliver nodes, and the pool was in backoff for {{ $value | humanizePercentage }} of the last hour. Pods that fit other pools get nodes there. " +
				"First run kubectl describe gpunodepool {{ $labels.pool }}; then check the provider: quota, stock, image of the nodes.",
			query: "sum_over_time(" + most(of(metric.AutoscalerPoolBackoff), metric.LabelPool) + "[1h:1m]) / 60 > " + anyThreshold,
		},
		{
			Name: "GpuscalePoolAtMax", Severity: Warning, Program: metric.Autoscaler, For: 30 * time.Minute,
			Why:     "Jobs end by themselves; pods that are pending for half an hour need a decision.",
			Summary: "Pods that request {{ $value | humanize }} GPUs (shape {{ $labels.shape }}) are pending: the pools that fit them are at their maximum",
			Description: "A pool could serve these pods if its maximum were higher. " +
				"First run gpuscale-autoscaler explain pod NAMESPACE/NAME for one of them. Then raise spec.max of the pool, or tell the owners of the pods.",
			query: sum(of(metric.AutoscalerPendingGPUs, `reason="PoolAtMax"`), metric.LabelShape) + " > 0",
		},
		{
			Name: "GpuscaleTenantStarved", Severity: Warning, Program: metric.Autoscaler, For: 30 * time.Minute,
			Why:     "A node is ready within half an hour, and GPUs are reclaimed long before.",
			Summary: "Tenant {{ $labels.tenant }} has {{ $value | humanize }} GPUs pending and uses less than its guarantee",
			Description: "The tenant does not get its guarantee: its pods are pending, and neither new nodes nor, with policy.reclaimBorrowed, reclaimed GPUs have helped. " +
				"First run gpuscale-autoscaler explain pod NAMESPACE/NAME for one of its pods: it gives the reason.",
			query: tenant("pending") + " > 0 and on (" + sources.On(metric.LabelTenant) + ") (" + tenant("used") + " < " + tenant("guaranteed") + ")",
		},
		{
			Name: "GpuscaleHolding", Severity: Critical, Program: metric.Autoscaler, For: 10 * time.Minute,
			Why:     "Nodes of a rack that restarts return within ten minutes.",
			Summary: "The autoscaler does nothing: too many nodes are unready",
			Description: "More nodes are unready than policy.maxUnready allows. The autoscaler does not trust such a state, so it takes no action and adds no nodes either. " +
				"First look for a failed network or control plane. Then bring the nodes back, or delete those that will not return.",
			query: sum(of(metric.AutoscalerVerdicts, `kind="pool"`, `reason="TooManyUnready"`)) + " > 0",
		},
		{
			Name: "GpuscaleRepartitionFailed", Severity: Warning, Program: metric.Autoscaler,
			Why:     "A GPU that could not be repartitioned is retried after its cooldown, so one failure is enough to look.",
			Summary: "A repartition in pool {{ $labels.pool }} failed and is rolled back: {{ $labels.reason }}",
			Description: "A GPU could not be repartitioned within the last hour. RepartitionOverdue: there was no answer before the deadline. RepartitionFailed: mig-manager or the agent reported a failure. " +
				"First read the events of the node; then the log of mig-manager or of the agent there. Often a process on the host still uses the GPU.",
			query: happened(of(metric.AutoscalerActions, `reason=~"RepartitionOverdue|RepartitionFailed"`), "1h", metric.LabelPool, metric.LabelReason) +
				" > 0 and on (" + sources.On() + ") " + group("last_over_time("+of(metric.AutoscalerLeader)+"[1d] offset 1h)"),
		},
	}
}
