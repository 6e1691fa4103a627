package alerts

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// card tells one card from all others, and survives a new numbering.
var card = []string{metric.LabelNode, metric.LabelGPUUUID}

// throttled are the reasons that say that something is wrong around the card. Power
// caps are not among them: a card that trains runs at its cap by design.
const throttled = `reason=~"hw_slowdown|hw_thermal|sw_thermal|hw_power_brake"`

// A card slowed down for a quarter of the time loses work that people notice; one
// that idles for two hours idles no longer by accident.
const (
	throttledShare = 0.25
	idleLong       = 2 * 3600
)

// cards is about cards that are broken, or wasted.
func cards() []Alert {
	index := append([]string{metric.LabelGPU}, card...)
	before, now := group(of(metric.GPUInfo)+" offset 1h", card...), group(of(metric.GPUInfo), card...)
	return []Alert{
		{
			Name: "GPUUnhealthy", Severity: Warning, Enabled: true, Program: metric.Exporter, For: 5 * time.Minute,
			Why:     "A card that is reset is unwell for a minute.",
			Summary: "Card {{ $labels.gpu }} of {{ $labels.node }} is broken: {{ $labels.reason }}",
			Description: "The exporter calls the card broken: xid_N by that error, row_remap_failure by memory that cannot be repaired any more, health_X by a watch of DCGM. The autoscaler counts it as no supply and " +
				"replaces the node where its pool may. Look first at the reason in docs/exporter.md: reset the card, or return it.",
			query: fixed(least(of(metric.GPUHealthy, `reason!="lost"`), append(index, metric.LabelReason)...) + " == 0"),
		},
		{
			Name: "GPULost", Severity: Critical, Enabled: true, Program: metric.Exporter, For: 5 * time.Minute,
			Why:     "A card that is cut anew is let go of for up to a minute.",
			Summary: "A card of {{ $labels.node }} fell off the bus: {{ $labels.gpu_uuid }}",
			Description: "The driver does not see the card any more, and what ran on it is dead or hangs. Either the exporter says so, or a card of this node that was there an hour ago is not told of, others are, and none has come in its place. " +
				"Look first at the kernel's log on the node for NVRM and Xid 79; then drain and power-cycle the node.",
			query: fixed(least(of(metric.GPUHealthy, `reason="lost"`), card...) + " == 0" +
				" or (" + before + " unless " + now + ")" +
				// Another card in its place, or another machine of the same name, is no loss.
				" and on (" + on(metric.LabelNode) + ") " + by("count", before, metric.LabelNode) + " > " + by("count", now, metric.LabelNode)),
		},
		{
			Name: "GPUXIDCritical", Severity: Critical, Enabled: true, Program: metric.Exporter,
			Why:     "One is enough: the card needs a reset or a technician, and what ran on it is dead.",
			Summary: "XID {{ $labels.xid }} on card {{ $labels.gpu }} of {{ $labels.node }}",
			Description: "The driver reported an error after which a card needs a reset or a technician, within the last hour. GPUUnhealthy lasts for as long as the card is broken. " +
				"Look first at NVIDIA's page for the code, at what ran there, and at whether other cards of the node or rack have it.",
			query: fixed(happened(of(metric.GPUXIDErrorsTotal, `xid=~"`+anyOf(CriticalXIDs())+`"`), "1h", append(index, metric.LabelXID)...) + " > 0"),
		},
		{
			Name: "GPUXIDWarning", Severity: Warning, Enabled: true, Program: metric.Exporter,
			Why:     "Codes that are neither a program's own doing nor the end of a card are rare, and often the first of several.",
			Summary: "XID {{ $labels.xid }} on card {{ $labels.gpu }} of {{ $labels.node }}",
			Description: "The driver reported an error that is neither a program's own doing nor the end of the card, within the last hour: contained memory errors (94), rows to be remapped (63), and codes nobody has listed. " +
				"Look first whether it is always the same card; if so, plan its reset.",
			query: fixed(happened(of(metric.GPUXIDErrorsTotal, `xid!~"`+anyOf(CriticalXIDs(), ApplicationXIDs())+`"`), "1h", append(index, metric.LabelXID)...) + " > 0"),
		},
		{
			Name: "GPUThrottled", Severity: Warning, Enabled: true, Program: metric.Exporter, Threshold: at(throttledShare), For: 15 * time.Minute,
			Why:     "A quarter of the time over a quarter of an hour is not the moment in which a job begins.",
			Summary: "Card {{ $labels.gpu }} of {{ $labels.node }} is slowed down {{ $value | humanizePercentage }} of the time ({{ $labels.reason }})",
			Description: "Heat or the power supply holds the card's clocks down. Every job with a part on this card is as slow as this card. Power caps do not count here. " +
				"Look first at the temperatures of the node's other cards: all warm is the room or the fans, one warm is the card.",
			query: func(p Params) string {
				return most("rate("+of(metric.GPUThrottleSecondsTotal, throttled)+"[10m])", append(index, metric.LabelReason)...) + " > " + p.Threshold
			},
		},
		{
			Name: "GPUHeldIdle", Severity: Info, Enabled: true, Program: metric.Exporter, Threshold: at(idleLong), For: 10 * time.Minute,
			Why:     "Two hours is longer than a data set loads or people eat. Ten minutes more, since a restart of the exporter forgets.",
			Summary: "{{ $labels.namespace }}/{{ $labels.pod }} holds a card of {{ $labels.node }} and has not used it for {{ $value | humanizeDuration }}",
			Description: "A pod holds a card or a slice that nobody else can have, and computes nothing. " +
				"Look first who owns the pod. A quota with reclaimIdle takes such cards back by itself.",
			query: func(p Params) string {
				holder := []string{metric.LabelNamespace, metric.LabelPod}
				return most(own(of(metric.GPUIdleSeconds), holder...), append(append(index, metric.LabelGPUInstanceID), holder...)...) + " > " + p.Threshold
			},
		},
	}
}
