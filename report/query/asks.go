package query

import (
	"fmt"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// ID names an answer.
type ID string

// Kind is how an ask is evaluated.
type Kind string

// Kinds. The first three are range queries over the window in its steps.
const (
	Fine     Kind = "fine"
	Ledger   Kind = "ledger"
	Coarse   Kind = "coarse"
	PerPiece Kind = "per piece" // at each piece's end over the piece; the largest counts
	Now      Kind = "now"       // at the window's end
)

// Source is whose series an ask reads. What a source does not have is not asked.
type Source string

// Sources.
const (
	FromExporter   Source = "exporter"
	FromAutoscaler Source = "autoscaler"
	FromServers    Source = "inference servers"
)

// Ask is one question.
type Ask struct {
	ID     ID
	Kind   Kind
	Source Source
	PromQL string // of PerPiece with PIECE for the piece's length
	What   string // for the methods section
}

// The answers. Those of the exporter's ledger are in cards, sick ones left out
// unless they say otherwise.
const (
	Nodes    ID = "nodes"    // cards by node and model, sick ones included
	Sick     ID = "sick"     // sick cards by model
	Dark     ID = "dark"     // cards of which nobody says who holds them, by model
	Held     ID = "held"     // entities held, by namespace, profile and model
	Measured ID = "measured" // the same of those whose use is known
	IdleHeld ID = "idle"     // the same of those that hardly compute
	Busy     ID = "busy"     // cards computing, idle ones left out

	Holders    ID = "holders"    // 1 by card or instance and holder
	IdleFor    ID = "idle-for"   // seconds idle, of what is idle for long
	SickNodes  ID = "sick-nodes" // sick cards by node
	XIDs       ID = "xids"       // counter by node, card and code
	MemoryP99  ID = "memory-p99" // bytes by card or instance and holder
	UseP95     ID = "use-p95"    // ratio of the card
	InstUseP95 ID = "inst-use-p95"

	Cards     ID = "cards"
	Instances ID = "instances"
	HeldNow   ID = "held-now"

	Capacity    ID = "capacity"
	Places      ID = "places"
	GPUs        ID = "gpus"
	Stranded    ID = "stranded"
	Tenants     ID = "tenants"
	PoolNodes   ID = "pool-nodes"
	PoolPrice   ID = "pool-price"
	PoolCost    ID = "pool-cost"
	Waiting     ID = "waiting"
	HPAAtMax    ID = "hpa-at-max"
	HPALimited  ID = "hpa-limited"
	PodWait     ID = "pod-wait"
	NodeReady   ID = "node-ready"
	Decisions   ID = "decisions"
	Actions     ID = "actions"
	Failures    ID = "failures"
	Interrupted ID = "interrupted"
	Backoff     ID = "backoff"
	Refused     ID = "refused"
	Forecasts   ID = "forecasts"
	ForecastErr ID = "forecast-error"

	// Of what Prometheus stores as native histograms, which have no buckets to read.
	PodWaitNative   ID = "pod-wait-native"
	NodeReadyNative ID = "node-ready-native"
	DecisionsNative ID = "decisions-native"

	Tokens ID = "tokens"
)

// IdleAfter is how long something must not compute before its time counts as
// reclaimable, in seconds.
const IdleAfter = 900

// Thresholds of a rate of busy seconds under which a holder is idle: of a card,
// and of an instance, whose rate is its part of the card.
const (
	idleCard     = "0.01"
	idleInstance = "0.0014"
)

// maxAttributionAge is how old the map of holders may be before nobody knows.
const maxAttributionAge = "300"

func (d Dialect) exporterAsks(w Window) []Ask {
	entity := []string{metric.LabelGPUUUID, metric.LabelGPUInstanceID}
	on := "on (" + metric.LabelGPUUUID + ", " + metric.LabelGPUInstanceID + ")"
	holder := []string{d.Namespace(), d.Pod(), d.Container()}
	cards := "max " + by(metric.LabelNode, metric.LabelGPUUUID, metric.LabelModel) + " (" + d.Select(metric.GPUInfo.Name) + ")"
	card := "max " + by(metric.LabelGPUUUID, metric.LabelModel) + " (" + d.Select(metric.GPUInfo.Name) + ")"
	sick := "(min " + by(metric.LabelGPUUUID) + " (" + d.Select(metric.GPUHealthy.Name) + ") == 0)"
	known := "(max " + by(metric.LabelNode) + " (" + d.Select(metric.GPUAttributionAgeSeconds.Name) + ") <= " + maxAttributionAge + ")"
	held := "(max " + by(append(append(entity, metric.LabelProfile), holder...)...) + " (" + d.Select(metric.GPUHeld.Name) + ") unless on (" + metric.LabelGPUUUID + ") " + sick + ")"
	part := "(" + held + " / " + on + " group_left count " + by(entity...) + " (" + held + "))"
	part = "(" + part + " * on (" + metric.LabelGPUUUID + ") group_left (" + metric.LabelModel + ") " + card + ")"
	rate := func(matcher string) string {
		return "max " + by(entity...) + " (rate(" + d.Select(metric.GPUBusySecondsTotal.Name, matcher) + "[" + seconds(w.rate()) + "]))"
	}
	whole, instance := metric.LabelGPUInstanceID+`=""`, metric.LabelGPUInstanceID+`!=""`
	idle := "(" + rate(whole) + " < " + idleCard + " or " + rate(instance) + " < " + idleInstance + ")"
	busy := "(" + rate(whole) + " >= " + idleCard + " or " + rate(instance) + " >= " + idleInstance + ")"
	sum := "sum " + by(d.Namespace(), metric.LabelProfile, metric.LabelModel)
	series := append(append([]string{}, entity...), metric.LabelProfile, metric.LabelModel, d.Namespace(), d.Pod())
	used := func(name string) string {
		return d.Select(name, d.Pod()+`!=""`)
	}
	return []Ask{
		{Nodes, Fine, FromExporter, "count " + by(metric.LabelNode, metric.LabelModel) + " (" + cards + ")", "cards by node and model"},
		{Sick, Fine, FromExporter, "count " + by(metric.LabelModel) + " (" + card + " and on (" + metric.LabelGPUUUID + ") " + sick + ")", "sick cards by model"},
		{Dark, Fine, FromExporter, "count " + by(metric.LabelModel) + " ((" + cards + " unless on (" + metric.LabelNode + ") " + known + ") unless on (" + metric.LabelGPUUUID + ") " + sick + ")",
			"cards of which nobody has said for five minutes who holds them"},
		{Held, Fine, FromExporter, sum + " (" + part + ")", "cards and instances held; one that n containers share counts 1/n for each"},
		{Measured, Fine, FromExporter, sum + " (" + part + " and " + on + " " + rate("") + ")", "those of them whose use is known"},
		{IdleHeld, Fine, FromExporter, sum + " (" + part + " and " + on + " " + idle + ")", "those of them that hardly compute: less than 1 % of a card, 0.14 % for an instance"},
		{Busy, Fine, FromExporter, sum + " (" + part + " * " + on + " group_left () " + busy + ")", "cards computing, of what is held and not idle"},

		{Holders, Coarse, FromExporter, "max " + by(append(append([]string{}, entity...), metric.LabelProfile, d.Namespace(), d.Pod())...) + " (" + d.Select(metric.GPUHeld.Name) + ")", "who holds each card and instance"},
		{IdleFor, Coarse, FromExporter, "max " + by(append(append([]string{}, entity...), metric.LabelProfile, d.Namespace(), d.Pod())...) + " (" + d.Select(metric.GPUIdleSeconds.Name) + fmt.Sprintf(") > %d", IdleAfter),
			"what has been held without computing for 15 minutes or more"},
		{SickNodes, Coarse, FromExporter, "count " + by(metric.LabelNode) + " (" + cards + " and on (" + metric.LabelGPUUUID + ") " + sick + ")", "sick cards by node"},
		{XIDs, Coarse, FromExporter, "max " + by(metric.LabelNode, metric.LabelGPUUUID, metric.LabelXID) + " (" + d.Select(metric.GPUXIDErrorsTotal.Name) + ")", "XID errors"},
		{MemoryP99, PerPiece, FromExporter, "max " + by(series...) + " (quantile_over_time(0.99, " + used(metric.GPUMemoryUsedBytes.Name) + "[PIECE]))", "99th percentile of memory in use; of several pieces of the window the largest"},
		{UseP95, PerPiece, FromExporter, "max " + by(series...) + " (quantile_over_time(0.95, " + used(metric.GPUBusyRatio.Name) + "[PIECE]))", "95th percentile of a card's use"},
		{InstUseP95, PerPiece, FromExporter, "max " + by(series...) + " (quantile_over_time(0.95, " + used(metric.GPUInstanceBusyRatio.Name) + "[PIECE]))", "95th percentile of an instance's use"},

		{Cards, Now, FromExporter, cards, "cards at the end"},
		{Instances, Now, FromExporter, "max " + by(metric.LabelNode, metric.LabelGPU, metric.LabelGPUUUID, metric.LabelGPUInstanceID, metric.LabelProfile, metric.LabelStart, metric.LabelSize) +
			" (" + d.Select(metric.GPUInstanceInfo.Name) + ")", "MIG instances at the end"},
		{HeldNow, Now, FromExporter, "max " + by(append(append([]string{}, entity...), holder...)...) + " (" + d.Select(metric.GPUHeld.Name) + ")", "holders at the end"},
	}
}

// LabelQuantile tells the parts of a native histogram's answer apart: a quantile, or
// QuantileCount.
const (
	LabelQuantile = "quantile"
	QuantileCount = "count"
)

// native asks for quantiles and the count of a native histogram over the window, by
// a label, and of all without it. Where it is stored in buckets the answer is empty.
func (d Dialect) native(desc metric.Desc, w Window, label string) string {
	groups := []string{"by ()"}
	if label != "" {
		groups = append(groups, by(label))
	}
	var parts []string
	for _, group := range groups {
		grown := "sum " + group + " (increase(" + d.Select(desc.Name) + "[" + seconds(w.Length()) + "]))"
		part := func(expression, word string) {
			parts = append(parts, fmt.Sprintf(`label_replace(%s, "%s", "%s", "", "")`, expression, LabelQuantile, word))
		}
		part("histogram_count("+grown+")", QuantileCount)
		for _, q := range []string{"0.5", "0.95", "0.99"} {
			part("histogram_quantile("+q+", "+grown+")", q)
		}
	}
	return strings.Join(parts, " or ")
}

func (d Dialect) autoscalerAsks(w Window) []Ask {
	// The target's own labels tell one replica's counters from another's. A
	// Prometheus' replica label does not: of two that scrape the same, one counts.
	replica := []string{"instance", "pod"}
	max := func(labels []string, desc metric.Desc, matchers ...string) string {
		return "max " + by(labels...) + " (" + d.Select(desc.Name, matchers...) + ")"
	}
	counter := func(desc metric.Desc, suffix string, labels ...string) string {
		return "max " + by(append(append([]string{}, replica...), labels...)...) + " (" + d.Select(desc.Name+suffix) + ")"
	}
	hpa := func(kind string) string {
		return max([]string{d.Holder(), metric.LabelHPA}, metric.AutoscalerHPAReplicas, Equal(metric.LabelKind, kind))
	}
	return []Ask{
		{Capacity, Ledger, FromAutoscaler, counter(metric.AutoscalerCapacityGPUSeconds, "", metric.LabelPool, metric.LabelModel), "GPU time that there was"},
		{Places, Ledger, FromAutoscaler, counter(metric.AutoscalerGPUSeconds, "", metric.LabelPool, metric.LabelModel, metric.LabelTenant, d.Holder(), metric.LabelPlace), "where it went"},
		{GPUs, Coarse, FromAutoscaler, max([]string{metric.LabelPool, metric.LabelModel, metric.LabelState}, metric.AutoscalerGPUs), "cards by state"},
		{Stranded, Coarse, FromAutoscaler, max([]string{metric.LabelPool, metric.LabelCause}, metric.AutoscalerStrandedGPUs), "why free cards serve nobody"},
		{Tenants, Coarse, FromAutoscaler, max([]string{metric.LabelTenant, metric.LabelKind}, metric.AutoscalerTenantGPUs), "quotas and their use"},
		{PoolNodes, Coarse, FromAutoscaler, max([]string{metric.LabelPool, metric.LabelKind}, metric.AutoscalerPoolSize), "nodes by pool"},
		{PoolPrice, Now, FromAutoscaler, max([]string{metric.LabelPool, metric.LabelSpot}, metric.AutoscalerPoolPrice), "price of a node"},
		{PoolCost, Coarse, FromAutoscaler, max([]string{metric.LabelPool}, metric.AutoscalerCost), "cost of the pools"},
		{Waiting, Coarse, FromAutoscaler, max([]string{metric.LabelShape, metric.LabelReason}, metric.AutoscalerWaitingGPUs), "cards that pending pods want in vain"},
		{HPAAtMax, Coarse, FromAutoscaler, hpa("current") + " >= " + hpa("max"), "HPAs that have as many replicas as they may"},
		{HPALimited, Coarse, FromAutoscaler, max([]string{d.Holder(), metric.LabelHPA, metric.LabelReason}, metric.AutoscalerHPALimited), "HPAs that are limited, by reason"},
		{PodWait, Coarse, FromAutoscaler, counter(metric.AutoscalerPodWait, "_bucket", metric.LabelTenant, "le"), "time from a pod's creation until it was bound"},
		{NodeReady, Coarse, FromAutoscaler, counter(metric.AutoscalerNodeReady, "_bucket", metric.LabelPool, "le"), "time until a node was ready"},
		{Decisions, Coarse, FromAutoscaler, counter(metric.AutoscalerDecisionSeconds, "_bucket", "le"), "time until something was done"},
		{PodWaitNative, Now, FromAutoscaler, d.native(metric.AutoscalerPodWait, w, metric.LabelTenant), "the same, where Prometheus stores native histograms"},
		{NodeReadyNative, Now, FromAutoscaler, d.native(metric.AutoscalerNodeReady, w, metric.LabelPool), "the same, where Prometheus stores native histograms"},
		{DecisionsNative, Now, FromAutoscaler, d.native(metric.AutoscalerDecisionSeconds, w, ""), "the same, where Prometheus stores native histograms"},
		{Actions, Coarse, FromAutoscaler, counter(metric.AutoscalerActions, "", metric.LabelVerb, metric.LabelPool, metric.LabelReason, metric.LabelResult), "actions taken"},
		{Failures, Coarse, FromAutoscaler, counter(metric.AutoscalerPoolFailures, "", metric.LabelPool, metric.LabelReason), "failures of pools"},
		{Interrupted, Coarse, FromAutoscaler, counter(metric.AutoscalerInterruptions, "", metric.LabelPool), "spot interruptions"},
		{Backoff, Coarse, FromAutoscaler, max([]string{metric.LabelPool}, metric.AutoscalerPoolBackoff) + " > 0", "pools left alone since they failed to deliver"},
		{Refused, Coarse, FromAutoscaler, max([]string{metric.LabelReason}, metric.AutoscalerVerdicts, Equal(metric.LabelKind, "pod"), Like(metric.LabelReason, "QuotaExceeded|BorrowedWaits")), "pods that a quota keeps waiting"},
		{Forecasts, Now, FromAutoscaler, max([]string{metric.LabelWorkload, metric.LabelKind}, metric.AutoscalerForecastGPUs), "what workloads are expected to need"},
		{ForecastErr, Now, FromAutoscaler, max([]string{metric.LabelWorkload}, metric.AutoscalerForecastError), "how wrong that was before"},
	}
}

func (d Dialect) serverAsks() []Ask {
	labels := by(metric.LabelNamespace, metric.LabelPod, "instance", metric.LabelModelName, metric.LabelEngine, metric.LabelDPRank)
	var all string
	for i, r := range []metric.Read{metric.VLLMGenerationTokens, metric.SGLangGenerationTokens} {
		if i > 0 {
			all += " or "
		}
		all += "max " + labels + " (" + d.Select(r.Name) + ")"
	}
	return []Ask{{Tokens, Coarse, FromServers, all, "tokens written by inference servers"}}
}

// Asks lists what is asked of the sources that are there.
func (d Dialect) Asks(w Window, sources ...Source) []Ask {
	var asks []Ask
	for _, s := range sources {
		switch s {
		case FromExporter:
			asks = append(asks, d.exporterAsks(w)...)
		case FromAutoscaler:
			asks = append(asks, d.autoscalerAsks(w)...)
		case FromServers:
			asks = append(asks, d.serverAsks()...)
		}
	}
	return asks
}
