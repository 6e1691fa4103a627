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
			Name: "GPUUnhealthy", Severity: Warning, Program: metric.Exporter, For: 5 * time.Minute,
			Why:     "A GPU that is reset is unhealthy for a minute, and one that is repartitioned is released for up to a minute.",
			Summary: "GPU {{ $labels.gpu_uuid }} of {{ $labels.node }} is broken: {{ $labels.reason }}",
			Description: "The exporter reports the GPU broken: lost by a GPU that fell off the bus, xid_N by that error, row_remap_failure by memory that cannot be repaired any more, recovery_X by what the driver asks for, health_X by a watch of DCGM. " +
				"Or reason gone: the node had the GPU an hour ago, it has no series now, and no other has replaced it. What ran on it fails or hangs. The autoscaler counts it as no supply and replaces the node where its pool may. " +
				"Look first at the reason in docs/exporter.md: reset the GPU, power-cycle the node, or return the GPU.",
			query: fixed(least(of(metric.GPUHealthy), append(device, metric.LabelReason)...) + " == 0" +
				" or on (" + on(device...) + ") " + named("(("+before+" unless "+now+")"+
				// Another GPU in its place, or another machine of the same name, is not a loss.
				" and on ("+on(metric.LabelNode)+") "+by("count", before, metric.LabelNode)+" > "+by("count", now, metric.LabelNode)+")", metric.LabelReason, "gone")),
		},
		{
			Name: "GPUThrottled", Severity: Warning, Program: metric.Exporter, Threshold: at(throttledShare), For: 15 * time.Minute,
			Why:     "A quarter of the time over a quarter of an hour is longer than the start of a job.",
			Summary: "GPU {{ $labels.gpu }} of {{ $labels.node }} is slowed down {{ $value | humanizePercentage }} of the time ({{ $labels.reason }})",
			Description: "Heat or the power supply holds the GPU's clocks down. Every job with a part on this GPU is as slow as this GPU. Power caps do not count here. " +
				"Look first at the temperatures of the node's other GPUs: all warm points to the data centre or the fans, one warm to the GPU.",
			query: func(p Params) string {
				return most("rate("+of(metric.GPUThrottleSecondsTotal, throttled)+"[10m])", append(index, metric.LabelReason)...) + " > " + p.Threshold
			},
		},
		{
			Name: "GPUHeldIdle", Severity: Info, Program: metric.Exporter, Threshold: at(idleLong), For: 10 * time.Minute,
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
