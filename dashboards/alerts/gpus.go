package alerts

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// gpu are the labels that identify a GPU, also after a new numbering.
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

// GPUs is about GPUs that are broken, or wasted.
func gpus() []Alert {
	index := append([]string{metric.LabelGPU}, device...)
	before, now := group(of(metric.GPUInfo)+" offset 1h", device...), group(of(metric.GPUInfo), device...)
	return []Alert{
		{
			Name: "GPUUnhealthy", Severity: Warning, Enabled: true, Program: metric.Exporter, For: 5 * time.Minute,
			Why:     "A GPU that is reset is unhealthy for a minute.",
			Summary: "GPU {{ $labels.gpu }} of {{ $labels.node }} is broken: {{ $labels.reason }}",
			Description: "The exporter calls the GPU broken: xid_N by that error, row_remap_failure by memory that cannot be repaired any more, health_X by a watch of DCGM. The autoscaler counts it as no supply and " +
				"replaces the node where its pool may. Look first at the reason in docs/exporter.md: reset the GPU, or return it.",
			query: fixed(least(of(metric.GPUHealthy, `reason!="lost"`), append(index, metric.LabelReason)...) + " == 0"),
		},
		{
			Name: "GPULost", Severity: Critical, Enabled: true, Program: metric.Exporter, For: 5 * time.Minute,
			Why:     "A GPU that is repartitioned is released for up to a minute.",
			Summary: "A GPU of {{ $labels.node }} fell off the bus: {{ $labels.gpu_uuid }}",
			Description: "The driver does not see the GPU any more, and what ran on it is dead or hangs. Either the exporter reports so, or a GPU that this node had an hour ago has no series, others have, and none has replaced it. " +
				"Look first at the kernel's log on the node for NVRM and Xid 79; then drain and power-cycle the node.",
			query: fixed(least(of(metric.GPUHealthy, `reason="lost"`), device...) + " == 0" +
				" or (" + before + " unless " + now + ")" +
				// Another GPU in its place, or another machine of the same name, is not a loss.
				" and on (" + on(metric.LabelNode) + ") " + by("count", before, metric.LabelNode) + " > " + by("count", now, metric.LabelNode)),
		},
		{
			Name: "GPUXIDCritical", Severity: Critical, Enabled: true, Program: metric.Exporter,
			Why:     "One is enough: the GPU needs a reset or a technician, and what ran on it is dead.",
			Summary: "XID {{ $labels.xid }} on GPU {{ $labels.gpu }} of {{ $labels.node }}",
			Description: "The driver reported an error after which a GPU needs a reset or a technician, within the last hour. GPUUnhealthy lasts for as long as the GPU is broken. " +
				"Look first at NVIDIA's page for the code, at what ran there, and at whether other GPUs of the node or rack have it.",
			query: fixed(happened(of(metric.GPUXIDErrorsTotal, `xid=~"`+anyOf(CriticalXIDs())+`"`), "1h", append(index, metric.LabelXID)...) + " > 0"),
		},
		{
			Name: "GPUXIDWarning", Severity: Warning, Enabled: true, Program: metric.Exporter,
			Why:     "Codes that are neither a program's own doing nor the end of a GPU are rare, and often the first of several.",
			Summary: "XID {{ $labels.xid }} on GPU {{ $labels.gpu }} of {{ $labels.node }}",
			Description: "The driver reported an error that is neither a program's own doing nor the end of the GPU, within the last hour: contained memory errors (94), rows to be remapped (63), and unlisted codes. " +
				"Look first whether it is always the same GPU; if so, plan its reset.",
			query: fixed(happened(of(metric.GPUXIDErrorsTotal, `xid!~"`+anyOf(CriticalXIDs(), ApplicationXIDs())+`"`), "1h", append(index, metric.LabelXID)...) + " > 0"),
		},
		{
			Name: "GPUThrottled", Severity: Warning, Enabled: true, Program: metric.Exporter, Threshold: at(throttledShare), For: 15 * time.Minute,
			Why:     "A quarter of the time over a quarter of an hour is longer than the start of a job.",
			Summary: "GPU {{ $labels.gpu }} of {{ $labels.node }} is slowed down {{ $value | humanizePercentage }} of the time ({{ $labels.reason }})",
			Description: "Heat or the power supply holds the GPU's clocks down. Every job with a part on this GPU is as slow as this GPU. Power caps do not count here. " +
				"Look first at the temperatures of the node's other GPUs: all warm points to the data centre or the fans, one warm to the GPU.",
			query: func(p Params) string {
				return most("rate("+of(metric.GPUThrottleSecondsTotal, throttled)+"[10m])", append(index, metric.LabelReason)...) + " > " + p.Threshold
			},
		},
		{
			Name: "GPUHeldIdle", Severity: Info, Enabled: true, Program: metric.Exporter, Threshold: at(idleLong), For: 10 * time.Minute,
			Why:     "Two hours is longer than loading a data set or a break. Ten minutes more, since a restart of the exporter resets the idle time.",
			Summary: "{{ $labels.namespace }}/{{ $labels.pod }} has a GPU of {{ $labels.node }} allocated and has not used it for {{ $value | humanizeDuration }}",
			Description: "A pod has a GPU or a slice allocated that no other pod can use, and computes nothing. " +
				"Look first who owns the pod. A quota with reclaimIdle reclaims such GPUs automatically.",
			query: func(p Params) string {
				holder := []string{metric.LabelNamespace, metric.LabelPod}
				return most(own(of(metric.GPUIdleSeconds), holder...), append(append(index, metric.LabelGPUInstanceID), holder...)...) + " > " + p.Threshold
			},
		},
	}
}
