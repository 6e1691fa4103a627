package query

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// ID names a query and its answer.
type ID string

// Kind is how a query is evaluated.
type Kind string

// Kinds. The first three are range queries over the window in its steps.
const (
	Fine     Kind = "fine"
	Ledger   Kind = "ledger"
	Coarse   Kind = "coarse"
	PerPiece Kind = "per piece" // at each piece's end over the piece; the largest counts
	Now      Kind = "now"       // at the window's end
)

// Source is the program whose series a query reads. Queries of absent sources are not sent.
type Source string

// Sources.
const (
	FromExporter   Source = "exporter"
	FromAutoscaler Source = "autoscaler"
	FromServers    Source = "inference servers"
)

// Ask is one query.
type Ask struct {
	ID     ID
	Kind   Kind
	Source Source
	PromQL string // of PerPiece with PIECE for the piece's length
	What   string // for the methods section
}

// The answers. Those of the exporter's ledger are in GPUs, sick ones left out
// unless they say otherwise.
const (
	Nodes         ID = "nodes"     // GPUs by node and model, sick ones included
	Sick          ID = "sick"      // sick GPUs by model
	Dark          ID = "dark"      // GPUs of unknown allocation, by model
	Allocated     ID = "allocated" // entities allocated, by namespace, profile and model
	Measured      ID = "measured"  // the same of those whose use is known
	IdleAllocated ID = "idle"      // the same of those that hardly compute
	Busy          ID = "busy"      // GPUs computing, idle ones left out

	AllocatedTo ID = "allocated-to" // 1 by GPU or instance and pod
	IdleFor     ID = "idle-for"     // seconds idle, of what is idle for long
	SickNodes   ID = "sick-nodes"   // sick GPUs by node
	XIDs        ID = "xids"         // counter by node, GPU and code
	MemoryP99   ID = "memory-p99"   // bytes by GPU or instance and pod
	UseP95      ID = "use-p95"      // ratio of the GPU
	InstUseP95  ID = "inst-use-p95"

	Devices   ID = "devices"
	Instances ID = "instances"

	Capacity    ID = "capacity"
	Places      ID = "places"
	GPUs        ID = "gpus"
	Stranded    ID = "stranded"
	Tenants     ID = "tenants"
	PoolNodes   ID = "pool-nodes"
	PoolPrice   ID = "pool-price"
	Waiting     ID = "waiting"
	HPAAtMax    ID = "hpa-at-max"
	HPAMax      ID = "hpa-max"
	HPALimited  ID = "hpa-limited"
	PodWait     ID = "pod-wait"
	NodeReady   ID = "node-ready"
	Decisions   ID = "decisions"
	Actions     ID = "actions"
	Failures    ID = "failures"
	Interrupted ID = "interrupted"
	Backoff     ID = "backoff"
	Forecasts   ID = "forecasts"
	ForecastErr ID = "forecast-error"

	Tokens       ID = "tokens"
	TokensBeyond ID = "tokens-beyond" // series of namespaces that have too many of them
)

// MostServing is how many series of tokens a namespace may have: beyond it they are not
// read. Any pod that is scraped may expose any number of them, and an answer has a bound.
const MostServing = 2000

// IdleAfter is the idle time after which time counts as reclaimable, in seconds.
const IdleAfter = 900

// Thresholds of a rate of busy seconds under which a pod is idle: on a GPU, and on an
// instance, whose rate is its part of the GPU's.
const (
	idleGPU      = "0.01"
	idleInstance = "0.0014"
)

// maxAttributionAge is the age from which a node's allocation is unknown, in seconds.
const maxAttributionAge = "300"

func (d Dialect) exporterAsks(w Window) []Ask {
	entity := []string{metric.LabelGPUUUID, metric.LabelGPUInstanceID}
	on := "on (" + metric.LabelGPUUUID + ", " + metric.LabelGPUInstanceID + ")"
	gpus := "max " + by(metric.LabelNode, metric.LabelGPUUUID, metric.LabelModel) + " (" + d.Select(metric.GPUInfo.Name) + ")"
	device := "max " + by(metric.LabelGPUUUID, metric.LabelModel) + " (" + d.Select(metric.GPUInfo.Name) + ")"
	sick := "(min " + by(metric.LabelGPUUUID) + " (" + d.Select(metric.GPUHealthy.Name) + ") == 0)"
	known := "(max " + by(metric.LabelNode) + " (" + d.Select(metric.GPUAttributionAgeSeconds.Name) + ") <= " + maxAttributionAge + ")"
	part := "((" + d.Allocations() + " unless on (" + metric.LabelGPUUUID + ") " + sick + ") * on (" + metric.LabelGPUUUID + ") group_left (" + metric.LabelModel + ") " + device + ")"
	rate := func(matcher string) string {
		return "max " + by(entity...) + " (" + d.Ranged("rate(%s)", seconds(w.rate()), metric.GPUBusySecondsTotal.Name, matcher) + ")"
	}
	whole, instance := metric.LabelGPUInstanceID+`=""`, metric.LabelGPUInstanceID+`!=""`
	idle := "(" + rate(whole) + " < " + idleGPU + " or " + rate(instance) + " < " + idleInstance + ")"
	busy := "(" + rate(whole) + " >= " + idleGPU + " or " + rate(instance) + " >= " + idleInstance + ")"
	sum := "sum " + by(d.Namespace(), metric.LabelProfile, metric.LabelModel)
	// The counters of a GPU that had XIDs are gone after a restart of its exporter, or of its node.
	unmarred := "0 * max " + by(metric.LabelNode, metric.LabelGPUUUID) + " (" + d.Ranged("present_over_time(%s)", w.span(), metric.GPUInfo.Name) +
		" and on (" + metric.LabelGPUUUID + ") " + d.Ranged("present_over_time(%s)", "1d", metric.GPUXIDErrorsTotal.Name) + ")"
	series := append(append([]string{}, entity...), metric.LabelProfile, metric.LabelModel, d.Namespace(), d.Pod())
	used := func(quantile, name string) string {
		return d.Ranged("quantile_over_time("+quantile+", %s)", "PIECE", name, d.Pod()+`!=""`)
	}
	return []Ask{
		{Nodes, Fine, FromExporter, "count " + by(metric.LabelNode, metric.LabelModel) + " (" + gpus + ")", "GPUs by node and model"},
		{Sick, Fine, FromExporter, "count " + by(metric.LabelModel) + " (" + device + " and on (" + metric.LabelGPUUUID + ") " + sick + ")", "sick GPUs by model"},
		{Dark, Fine, FromExporter, "count " + by(metric.LabelModel) + " ((" + gpus + " unless on (" + metric.LabelNode + ") " + known + ") unless on (" + metric.LabelGPUUUID + ") " + sick + ")",
			"GPUs whose allocation has been unknown for five minutes"},
		{Allocated, Fine, FromExporter, sum + " (" + part + ")", "GPUs and instances allocated; one that n containers share counts 1/n for each"},
		{Measured, Fine, FromExporter, sum + " (" + part + " and " + on + " " + rate("") + ")", "those of them whose use is known"},
		{IdleAllocated, Fine, FromExporter, sum + " (" + part + " and " + on + " " + idle + ")", "those of them that hardly compute: less than 1 % of a GPU, 0.14 % for an instance"},
		{Busy, Fine, FromExporter, sum + " (" + part + " * " + on + " group_left () " + busy + ")", "GPUs computing, of what is allocated and not idle"},

		{AllocatedTo, Coarse, FromExporter, d.Allocations(), "the pods that each GPU and instance is allocated to; one that n containers share counts 1/n for each"},
		{IdleFor, Coarse, FromExporter, d.IdleAllocations(), "those that have not computed for 15 minutes or more"},
		{SickNodes, Coarse, FromExporter, "count " + by(metric.LabelNode) + " (" + gpus + " and on (" + metric.LabelGPUUUID + ") " + sick + ")", "sick GPUs by node"},
		{XIDs, Coarse, FromExporter, d.counted(w, metric.GPUXIDErrorsTotal.Name, metric.LabelNode, metric.LabelGPUUUID, metric.LabelXID) + " or " + unmarred, "XID errors, and without xid the GPUs that had some within a day"},
		{MemoryP99, PerPiece, FromExporter, "max " + by(series...) + " (" + used("0.99", metric.GPUMemoryUsedBytes.Name) + ")", "99th percentile of memory in use; of several pieces of the window the largest"},
		{UseP95, PerPiece, FromExporter, "max " + by(series...) + " (" + used("0.95", metric.GPUBusyRatio.Name) + ")", "95th percentile of a GPU's use"},
		{InstUseP95, PerPiece, FromExporter, "max " + by(series...) + " (" + used("0.95", metric.GPUInstanceBusyRatio.Name) + ")", "95th percentile of an instance's use"},

		{Devices, Now, FromExporter, gpus, "GPUs at the end"},
		{Instances, Now, FromExporter, "max " + by(metric.LabelNode, metric.LabelGPU, metric.LabelGPUUUID, metric.LabelGPUInstanceID, metric.LabelProfile, metric.LabelStart, metric.LabelSize) +
			" (" + d.Select(metric.GPUInstanceInfo.Name) + ")", "MIG instances at the end"},
	}
}

// counted is a counter at the ends of steps of Coarse, by labels: its largest value in each, since what
// counts may be gone, with a pod or a node, before the step ends.
func (d Dialect) counted(w Window, name string, labels ...string) string {
	return "max " + by(labels...) + " (" + d.Ranged("max_over_time(%s)", w.span(), name) + ")"
}

// span is a step of Coarse as a range, or Prometheus' lookback where that is longer: scrapes may be rarer than
// the steps.
func (w Window) span() string { return seconds(max(w.Coarse, 5*time.Minute)) }

// Allocations is the part of each GPU or instance that is allocated to each pod: 1, or less where
// several containers share it. The matchers choose pods.
func (d Dialect) Allocations(matchers ...string) string {
	entity := []string{metric.LabelGPUUUID, metric.LabelGPUInstanceID}
	pod := append(entity[:2:2], metric.LabelProfile, d.Namespace(), d.Pod())
	containers := func(matchers ...string) string {
		return "(max " + by(append(pod[:5:5], d.Container())...) + " (" + d.Select(metric.GPUHeld.Name, matchers...) + "))"
	}
	return "count " + by(pod...) + " " + containers(matchers...) + " / on (" + strings.Join(entity, ", ") + ") group_left count " + by(entity...) + " " + containers()
}

// IdleAllocations is those Allocations that have been idle for IdleAfter.
func (d Dialect) IdleAllocations(matchers ...string) string {
	pod := strings.Join([]string{metric.LabelGPUUUID, metric.LabelGPUInstanceID, d.Namespace(), d.Pod()}, ", ")
	return "(" + d.Allocations(matchers...) + ") and on (" + pod + ") " + d.Select(metric.GPUIdleSeconds.Name, matchers...) + fmt.Sprintf(" > %d", IdleAfter)
}

func (d Dialect) autoscalerAsks(w Window) []Ask {
	// The target's labels identify a replica's counters. The replica label of Prometheus
	// is ignored: of two servers that scrape the same target, one counts.
	replica := slices.Clip([]string{"instance", "pod"})
	max := func(labels []string, desc metric.Desc, matchers ...string) string {
		return "max " + by(labels...) + " (" + d.Select(desc.Name, matchers...) + ")"
	}
	of := func(desc metric.Desc, labels ...string) string { return max(append(replica, labels...), desc) }
	counter := func(desc metric.Desc, suffix string, labels ...string) string {
		return d.counted(w, desc.Name+suffix, append(replica, labels...)...)
	}
	hpa := func(kind string) string {
		return max([]string{d.AutoscalerNamespace(), metric.LabelHPA}, metric.AutoscalerHPAReplicas, Equal(metric.LabelKind, kind))
	}
	return []Ask{
		{Capacity, Ledger, FromAutoscaler, of(metric.AutoscalerCapacityGPUSeconds, metric.LabelPool, metric.LabelModel), "GPU time of the capacity"},
		{Places, Ledger, FromAutoscaler, of(metric.AutoscalerGPUSeconds, metric.LabelPool, metric.LabelModel, metric.LabelTenant, d.AutoscalerNamespace(), metric.LabelPlace), "the same by place"},
		{GPUs, Coarse, FromAutoscaler, max([]string{metric.LabelPool, metric.LabelModel, metric.LabelState}, metric.AutoscalerGPUs), "GPUs by state"},
		{Stranded, Coarse, FromAutoscaler, max([]string{metric.LabelPool, metric.LabelCause}, metric.AutoscalerStrandedGPUs), "why free GPUs serve no pod"},
		{Tenants, Coarse, FromAutoscaler, max([]string{metric.LabelTenant, metric.LabelKind}, metric.AutoscalerTenantGPUs), "quotas and their use"},
		{PoolNodes, Coarse, FromAutoscaler, max([]string{metric.LabelPool, metric.LabelKind}, metric.AutoscalerPoolSize), "nodes by pool"},
		{PoolPrice, Now, FromAutoscaler, max([]string{metric.LabelPool, metric.LabelSpot}, metric.AutoscalerPoolPrice), "price of a node"},
		{Waiting, Coarse, FromAutoscaler, max([]string{metric.LabelShape, metric.LabelReason}, metric.AutoscalerPendingGPUs), "GPUs that unserved pending pods request"},
		{HPAAtMax, Coarse, FromAutoscaler, hpa("current") + " >= " + hpa("max"), "HPAs at their maximum"},
		{HPAMax, Now, FromAutoscaler, hpa("max"), "maxima of HPAs at the end"},
		{HPALimited, Coarse, FromAutoscaler, max([]string{d.AutoscalerNamespace(), metric.LabelHPA, metric.LabelReason}, metric.AutoscalerHPALimited), "HPAs that are limited, by reason"},
		{PodWait, Coarse, FromAutoscaler, counter(metric.AutoscalerPodPendingSeconds, "_bucket", metric.LabelTenant, "le"), "time from a pod's creation until it was bound"},
		{NodeReady, Coarse, FromAutoscaler, counter(metric.AutoscalerNodeReady, "_bucket", metric.LabelPool, "le"), "time until a node was ready"},
		{Decisions, Coarse, FromAutoscaler, counter(metric.AutoscalerDecisionSeconds, "_bucket", "le"), "time until an action"},
		{Actions, Coarse, FromAutoscaler, counter(metric.AutoscalerActions, "", metric.LabelVerb, metric.LabelPool, metric.LabelReason, metric.LabelResult), "actions taken"},
		{Failures, Coarse, FromAutoscaler, counter(metric.AutoscalerPoolFailures, "", metric.LabelPool, metric.LabelReason), "failures of pools"},
		{Interrupted, Coarse, FromAutoscaler, counter(metric.AutoscalerInterruptions, "", metric.LabelPool), "spot interruptions"},
		{Backoff, Coarse, FromAutoscaler, max([]string{metric.LabelPool}, metric.AutoscalerPoolBackoff) + " > 0", "pools backed off from after failures"},
		{Forecasts, Now, FromAutoscaler, max([]string{metric.LabelWorkload, metric.LabelKind}, metric.AutoscalerForecastGPUs), "expected demand of workloads"},
		{ForecastErr, Now, FromAutoscaler, max([]string{metric.LabelWorkload}, metric.AutoscalerForecastError), "past error of that forecast"},
	}
}

// tokens are the series of what inference servers write.
var tokens = []metric.Read{metric.VLLMGenerationTokens, metric.SGLangGenerationTokens, metric.LMDeployGenerationTokens, metric.NIMGenerationTokens}

func (d Dialect) serverAsks(w Window) []Ask {
	// All that a server counts apart, under Ray and as SGLang does, and the servers of a gateway; the replica of Prometheus is not among it.
	labels := []string{
		metric.LabelNamespace, metric.LabelPod, "instance", metric.LabelModelName, metric.LabelEngine, metric.LabelDPRank,
		metric.LabelReplicaID, metric.LabelWorkerID, metric.LabelPriority, metric.LabelStreaming, metric.LabelWorkerAddr,
	}
	var each []string
	for _, name := range metric.Names(tokens...) {
		each = append(each, d.counted(w, name, labels...))
	}
	all := strings.Join(each, " or ")
	series := "count " + by(metric.LabelNamespace) + " (" + all + ")"
	return []Ask{
		{Tokens, Coarse, FromServers, fmt.Sprintf("(%s) and on (%s) (%s <= %d)", all, metric.LabelNamespace, series, MostServing), "tokens written by inference servers"},
		{TokensBeyond, Coarse, FromServers, fmt.Sprintf("%s > %d", series, MostServing), "namespaces with so many series of tokens that they are not read"},
	}
}

// Asks lists the queries of the sources present.
func (d Dialect) Asks(w Window, sources ...Source) []Ask {
	all := slices.Concat(d.exporterAsks(w), d.autoscalerAsks(w), d.serverAsks(w))
	return slices.DeleteFunc(all, func(a Ask) bool { return !slices.Contains(sources, a.Source) })
}
