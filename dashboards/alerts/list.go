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
			Why:     "A node that boots or leaves, and a rollout of the DaemonSet, take minutes. Readings are seconds old: two minutes is many missed ones and less than Prometheus' lookback of five.",
			Summary: "No current values of GPUs from {{ $labels.instance }}",
			Description: "Prometheus does not reach this exporter, the driver does not answer it, or its values are old because a call for a GPU hangs. Nothing is known of the node's GPUs: HPAs over them do not scale and the autoscaler does not touch them. " +
				"Look first at the exporter's pod on that node and its log; then whether nvidia-smi answers there.",
			query: least(up(metric.Exporter), labelInstance) + " == 0 or " + least(of(metric.ExporterUp), labelInstance) + " == 0 or " +
				most(of(metric.GPUSampleAgeSeconds), labelInstance) + " > " + anyThreshold,
		},
		{
			Name: "GpuscaleAttributionFailing", Severity: Warning, Program: metric.Exporter, Threshold: staleMap, For: 5 * time.Minute,
			Why:     "The kubelet is read every few seconds; five minutes without an answer is not a restart of it.",
			Summary: "Unknown which pods the GPUs are allocated to on {{ if $labels.node }}{{ $labels.node }}{{ else }}{{ $labels.instance }}{{ end }}",
			Description: "The exporter has not read allocations from the kubelet. Use is then shown for no pod, and the autoscaler treats every GPU of the node as allocated. " +
				"Look first at the exporter's log, and whether the kubelet's pod-resources socket is mounted.",
			query: most(of(metric.GPUAttributionAgeSeconds), metric.LabelNode) + " > " + anyThreshold +
				// An exporter that is gone together with its node has errors in the range for a while; they do not count.
				" or " + errs + " and on (" + sources.On(labelInstance) + ") " + of(metric.ExporterUp) + " unless on (" + sources.On(labelInstance) + ") " + of(metric.GPUAttributionAgeSeconds),
		},
		{
			Name: "GpuscaleConfigRejected", Severity: Warning, For: 5 * time.Minute,
			Why:     "A file that is being written is read again within seconds.",
			Summary: "{{ $labels.program }} on {{ $labels.instance }} does not use its configuration{{ if $labels.rule }}: rule {{ $labels.rule }}{{ end }}",
			Description: "The current file has an error. The configuration before is still in force, but lost at a restart. " +
				"Look first at the program's log: it names the field. gpuscale-adapter --check and gpuscale-exporter check report the same without a cluster.",
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
			Why:     "A GPU that is reset is unhealthy for a minute, and one that is repartitioned is released for up to a minute.",
			Summary: "GPU {{ $labels.gpu_uuid }} of {{ $labels.node }} is broken: {{ $labels.reason }}",
			Description: "The exporter reports the GPU broken: lost by a GPU that fell off the bus, xid_N by that error, row_remap_failure by memory that cannot be repaired any more, recovery_X by what the driver asks for, health_X by a watch of DCGM. " +
				"Or reason gone: the node had the GPU an hour ago, it has no series now, and no other has replaced it. What ran on it fails or hangs. The autoscaler counts it as no supply and replaces the node where its pool may. " +
				"Look first at the reason in docs/exporter.md: reset the GPU, power-cycle the node, or return the GPU.",
			query: least(of(metric.GPUHealthy), append(device, metric.LabelReason)...) + " == 0" +
				" or on (" + sources.On(device...) + ") " + named("(("+before+" unless "+now+")"+
				// A replaced GPU is not a loss, nor is another machine with the same node name.
				" and on ("+sources.On(metric.LabelNode)+") ("+now+" and "+before+") and on ("+sources.On(metric.LabelNode)+") "+sources.By("count", before, metric.LabelNode)+" > "+sources.By("count", now, metric.LabelNode)+
				" unless on ("+sources.On(metric.LabelNode)+") "+released+")", metric.LabelReason, "gone"),
		},
		{
			Name: "GPUThrottled", Severity: Warning, Program: metric.Exporter, Threshold: throttledShare, For: 15 * time.Minute,
			Why:     "A quarter of the time over a quarter of an hour is longer than the start of a job.",
			Summary: "GPU {{ $labels.gpu }} of {{ $labels.node }} is slowed down {{ $value | humanizePercentage }} of the time ({{ $labels.reason }})",
			Description: "Heat or the power supply holds the GPU's clocks down. Every job with a part on this GPU is as slow as this GPU. Power caps do not count here. " +
				"Look first at the temperatures of the node's other GPUs: all warm points to the data centre or the fans, one warm to the GPU.",
			query: most("rate("+of(metric.GPUThrottleSecondsTotal, throttled)+"[10m])", append(index, metric.LabelReason)...) + " > " + anyThreshold,
		},
		{
			Name: "GPUHeldIdle", Severity: Info, Program: metric.Exporter, Threshold: idleLong, For: 10 * time.Minute,
			Why:     "Two hours is longer than loading a data set or a break. Ten minutes more, since a restart of the exporter resets the idle time.",
			Summary: "{{ $labels.namespace }}/{{ $labels.pod }} has a GPU of {{ $labels.node }} allocated and has not used it for {{ $value | humanizeDuration }}",
			Description: "A pod has a GPU or a slice allocated that no other pod can use, and computes nothing. " +
				"Look first who owns the pod. A quota with reclaimIdle reclaims such GPUs automatically.",
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
			Why:     "There are two replicas or more, so a rollout is never without one.",
			Summary: "No replica of the adapter answers",
			Description: "The adapter was scraped within the last day, and no replica answers now. No HPA gets GPU or queue metrics: all keep their replicas. " +
				"Look first at the adapter's pods, then at kubectl get apiservice: the metrics APIs fail with it.",
			query: wasThere(up(metric.Adapter)) + " unless on (" + sources.On() + ") " + group(up(metric.Adapter)+" == 1"),
		},
		{
			Name: "GpuscaleAdapterRuleWithoutAnswer", Severity: Warning, Program: metric.Adapter, Threshold: oldAnswer, For: 5 * time.Minute,
			Why:     "Rules are queried every few seconds, and an answer expires long before this.",
			Summary: "Rule {{ $labels.rule }} has had no good answer for {{ $value | humanizeDuration }}",
			Description: "HPAs that use the rule get an error, never an old number or a 0, and do not scale. The oldest answer of all replicas counts. " +
				"Look first at the adapter's log for the rule, then run the rule's query in Prometheus: gpuscale-adapter rules prints it.",
			query: most(of(metric.AdapterRuleAge), metric.LabelRule) + " > " + anyThreshold,
		},
		{
			Name: "GpuscaleHPAWithoutMetric", Severity: Warning, Program: metric.Autoscaler, For: 15 * time.Minute,
			Why:     "An HPA reports this of a new Deployment, too.",
			Summary: "HPA {{ $labels.namespace }}/{{ $labels.hpa }} does not get its metric: {{ $labels.reason }}",
			Description: "The HPA's own condition reports that it cannot read its metric, wherever between the exporter, Prometheus, the adapter and the API server it is lost. It does not scale. " +
				"Look first at gpuscale-adapter explain hpa NAMESPACE/NAME: it shows where the chain ends.",
			query: most(sources.Own(of(metric.AutoscalerHPALimited, noMetric), metric.LabelNamespace),
				metric.LabelNamespace, metric.LabelHPA, metric.LabelReason) + " == 1",
		},
	}
}

// A reconcile comes every second, or every ten when idle, on input that is seconds old.
const (
	lateReconcile = 300
	oldSnapshot   = 180
)

// autoscaler returns the alerts about an autoscaler that does not reconcile.
func autoscaler() []Alert {
	return []Alert{
		{
			Name: "GpuscaleAutoscalerDown", Severity: Critical, Program: metric.Autoscaler, Threshold: lateReconcile, For: 5 * time.Minute,
			Why:     "A reconcile comes every second, every ten when idle, and its deadlines are below a minute. A Lease changes its holder within a minute.",
			Summary: "The autoscaler completes no reconcile",
			Description: "The autoscaler was scraped within the last day, and no replica has completed a reconcile for minutes: none runs, none leads, every reconcile fails, or one hangs. Pods are pending and nothing is added, repartitioned or reclaimed. " +
				"Look first at the autoscaler's pods and log, then at its Lease: kubectl -n gpuscale-system get lease.",
			query: wasThere(of(metric.AutoscalerLeader)) + " unless on (" + sources.On() + ") " + group("time() - "+of(metric.AutoscalerReconcileAge)+" < "+anyThreshold),
		},
		{
			Name: "GpuscaleSnapshotStale", Severity: Warning, Program: metric.Autoscaler, Threshold: oldSnapshot, For: 5 * time.Minute,
			Why:     "The cluster is read each reconcile, Prometheus several times within the validity of its answers.",
			Summary: "The autoscaler plans on data of {{ $labels.kind }} that is {{ $value | humanizeDuration }} old",
			Description: "kind cluster: the API server has not been read. kind prometheus: allocation and use are unknown, so nothing idle is reclaimed, repartitioned or scaled down. " +
				"Look first whether Prometheus answers the autoscaler, and whether exporters answer Prometheus.",
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
			Why:     "Backoff comes and goes while a provider fails, so its share of an hour counts.",
			Summary: "Pool {{ $labels.pool }} does not get the nodes it requests",
			Description: "The pool's provider failed to deliver, and the pool was in backoff for {{ $value | humanizePercentage }} of the last hour. Other pools take over where they fit. " +
				"Look first at kubectl describe gpunodepool {{ $labels.pool }}, then at the provider: quota, stock-outs, a broken image.",
			// avg_over_time would divide by the time since the pool or the leader started.
			query: "sum_over_time(" + most(of(metric.AutoscalerPoolBackoff), metric.LabelPool) + "[1h:1m]) / 60 > " + anyThreshold,
		},
		{
			Name: "GpuscalePoolAtMax", Severity: Warning, Program: metric.Autoscaler, For: 30 * time.Minute,
			Why:     "Jobs end; what is pending for half an hour needs a decision.",
			Summary: "{{ $value | humanize }} GPUs' worth of pods are pending (shape {{ $labels.shape }}): the pools that fit are at their maximum",
			Description: "Pods are pending that a pool could serve above its maximum. " +
				"Look first at gpuscale-autoscaler explain pod NAMESPACE/NAME for one of them; raise spec.max of the pool, or inform the pods' owners.",
			query: sum(of(metric.AutoscalerPendingGPUs, `reason="PoolAtMax"`), metric.LabelShape) + " > 0",
		},
		{
			Name: "GpuscaleTenantStarved", Severity: Warning, Program: metric.Autoscaler, For: 30 * time.Minute,
			Why:     "A node is ready within half an hour, and reclaiming ends long before.",
			Summary: "Tenant {{ $labels.tenant }} has {{ $value | humanize }} GPUs pending and less than its guarantee",
			Description: "A guarantee is not met: the tenant's pods are pending while it uses less than its guarantee, so neither scaling up nor, where policy.reclaimBorrowed is set, reclaiming has helped. " +
				"Look first at gpuscale-autoscaler explain pod NAMESPACE/NAME for one of its pods: it gives the reason.",
			query: tenant("pending") + " > 0 and on (" + sources.On(metric.LabelTenant) + ") (" + tenant("used") + " < " + tenant("guaranteed") + ")",
		},
		{
			Name: "GpuscaleHolding", Severity: Critical, Program: metric.Autoscaler, For: 10 * time.Minute,
			Why:     "Nodes of a rack that restarts return within ten minutes.",
			Summary: "The autoscaler holds everything: too many nodes are unready",
			Description: "More nodes are unready than the policy tolerates, so the observed state is not trusted and nothing is done, not even scaling up. " +
				"Look first for a failed network or control plane; then bring the nodes back or delete them.",
			query: sum(of(metric.AutoscalerVerdicts, `kind="pool"`, `reason="TooManyUnready"`)) + " > 0",
		},
		{
			Name: "GpuscaleRepartitionFailed", Severity: Warning, Program: metric.Autoscaler,
			Why:     "A GPU that could not be repartitioned is retried after its cooldown, so one is enough to look.",
			Summary: "A repartition in pool {{ $labels.pool }} was undone: {{ $labels.reason }}",
			Description: "A GPU could not be repartitioned within the last hour. RepartitionOverdue: no answer before the deadline. RepartitionFailed: mig-manager or the agent reported a failure. " +
				"Look first at the events of the node, then at the agent's or mig-manager's log there; often a process on the host still uses the GPU.",
			// If Prometheus had no autoscaler series an hour ago, it is unknown which failures are new.
			query: happened(of(metric.AutoscalerActions, `reason=~"RepartitionOverdue|RepartitionFailed"`), "1h", metric.LabelPool, metric.LabelReason) +
				" > 0 and on (" + sources.On() + ") " + group("last_over_time("+of(metric.AutoscalerLeader)+"[1d] offset 1h)"),
		},
	}
}
