package query

import (
	"cmp"
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
	PerPiece Kind = "per piece" // over each piece, at its end; the largest value counts
	Now      Kind = "now"       // at the window's end
)

// Source is the program whose series a query reads. Queries of programs without series are not sent.
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
	PromQL string // a PerPiece query has PIECE in place of the piece's length
	What   string // explanation in the methods section
}

// IDs of the answers. The first group is for the exporter's ledger: numbers of GPUs, without sick ones unless
// stated.
const (
	Nodes         ID = "nodes"     // GPUs by node and model, sick ones included
	Sick          ID = "sick"      // sick GPUs by model
	Dark          ID = "dark"      // GPUs of unknown allocation, by model
	Allocated     ID = "allocated" // allocated GPUs and instances, by namespace, profile and model
	Measured      ID = "measured"  // the part of Allocated whose use is known
	IdleAllocated ID = "idle"      // the part of Allocated that hardly computes
	Busy          ID = "busy"      // GPUs computing, without idle ones

	AllocatedTo ID = "allocated-to" // 1 for each GPU or instance and pod
	IdleFor     ID = "idle-for"     // seconds idle, for what has been idle for long
	SickNodes   ID = "sick-nodes"   // sick GPUs by node
	XIDs        ID = "xids"         // counter by node, GPU and code
	MemoryP99   ID = "memory-p99"   // bytes by GPU or instance and pod
	UseP95      ID = "use-p95"      // share of the GPU
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

	Tokens       ID = "tokens"
	TokensBeyond ID = "tokens-beyond" // namespaces with too many series of tokens
)

// MostServing is the maximum number of token series of a namespace. With more, none of them is read: any
// scraped pod may expose any number of series, and an answer must be bounded.
const MostServing = 2000

// IdleAfter is the idle time in seconds after which GPU time counts as reclaimable.
const IdleAfter = 900

// A pod is idle if its rate of busy seconds is below these thresholds: for a whole GPU, and for an instance,
// whose rate is relative to the whole GPU.
const (
	idleGPU      = "0.01"
	idleInstance = "0.0014"
)

// maxAttributionAge is the age in seconds after which a node's allocation is unknown.
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
	// GPUs that had XID errors and whose counters disappeared with a restart of the exporter or the node.
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
		{Allocated, Fine, FromExporter, sum + " (" + part + ")", "GPUs and MIG instances that are allocated; one that n containers share counts 1/n for each"},
		{Measured, Fine, FromExporter, sum + " (" + part + " and " + on + " " + rate("") + ")", "allocated GPUs and MIG instances whose use is known"},
		{IdleAllocated, Fine, FromExporter, sum + " (" + part + " and " + on + " " + idle + ")", "allocated GPUs and MIG instances that hardly compute: less than 1 % of a GPU, 0.14 % of an instance"},
		{Busy, Fine, FromExporter, sum + " (" + part + " * " + on + " group_left () " + busy + ")", "busy ratios of allocated GPUs and MIG instances that are not idle, summed"},

		{AllocatedTo, Coarse, FromExporter, d.Allocations(), "pods that each GPU and MIG instance is allocated to; one that n containers share counts 1/n for each"},
		{IdleFor, Coarse, FromExporter, d.IdleAllocations(), "allocated GPUs and MIG instances that have been idle for 15 minutes or more"},
		{SickNodes, Coarse, FromExporter, "count " + by(metric.LabelNode) + " (" + gpus + " and on (" + metric.LabelGPUUUID + ") " + sick + ")", "sick GPUs by node"},
		{XIDs, Coarse, FromExporter, d.counted(w, metric.GPUXIDErrorsTotal.Name, []string{metric.LabelNode, metric.LabelGPUUUID, metric.LabelXID}) + " or " + unmarred, "XID errors, and without xid the GPUs that had some within a day"},
		{MemoryP99, PerPiece, FromExporter, "max " + by(series...) + " (" + used("0.99", metric.GPUMemoryUsedBytes.Name) + ")", "99th percentile of memory in use, the largest of all pieces of the window"},
		{UseP95, PerPiece, FromExporter, "max " + by(series...) + " (" + used("0.95", metric.GPUBusyRatio.Name) + ")", "95th percentile of the busy ratio of a GPU"},
		{InstUseP95, PerPiece, FromExporter, "max " + by(series...) + " (" + used("0.95", metric.GPUInstanceBusyRatio.Name) + ")", "95th percentile of the busy ratio of a MIG instance"},

		{Devices, Now, FromExporter, gpus, "GPUs at the end"},
		{Instances, Now, FromExporter, "max " + by(metric.LabelNode, metric.LabelGPU, metric.LabelGPUUUID, metric.LabelGPUInstanceID, metric.LabelProfile, metric.LabelStart, metric.LabelSize) +
			" (" + d.Select(metric.GPUInstanceInfo.Name) + ")", "MIG instances at the end"},
	}
}

// counted returns a counter, by labels, at the end of each Coarse step. It is the largest value within the
// step: a pod or node and its series may disappear before the step ends.
func (d Dialect) counted(w Window, name string, labels []string, matchers ...string) string {
	return "max " + by(labels...) + " (" + d.Ranged("max_over_time(%s)", w.span(), name, matchers...) + ")"
}

// span is the range of a Coarse step. It is never shorter than Prometheus' lookback, since scrapes may be
// less frequent than steps.
func (w Window) span() string { return seconds(max(w.Coarse, 5*time.Minute)) }

// Allocations is the share of each GPU or instance that is allocated to each pod: 1, or less if several
// containers share it. The matchers select pods.
func (d Dialect) Allocations(matchers ...string) string {
	entity := []string{metric.LabelGPUUUID, metric.LabelGPUInstanceID}
	pod := append(entity[:2:2], metric.LabelProfile, d.Namespace(), d.Pod())
	containers := func(matchers ...string) string {
		return "(max " + by(append(pod[:5:5], d.Container())...) + " (" + d.Select(metric.GPUHeld.Name, matchers...) + "))"
	}
	return "count " + by(pod...) + " " + containers(matchers...) + " / on (" + strings.Join(entity, ", ") + ") group_left count " + by(entity...) + " " + containers()
}

// IdleAllocations selects the Allocations that have been idle for IdleAfter.
func (d Dialect) IdleAllocations(matchers ...string) string {
	pod := strings.Join([]string{metric.LabelGPUUUID, metric.LabelGPUInstanceID, d.Namespace(), d.Pod()}, ", ")
	return "(" + d.Allocations(matchers...) + ") and on (" + pod + ") " + d.Select(metric.GPUIdleSeconds.Name, matchers...) + fmt.Sprintf(" > %d", IdleAfter)
}

func (d Dialect) autoscalerAsks(w Window) []Ask {
	// The replica label of a Prometheus server is ignored: if two servers scrape one target, it counts once.
	replica := []string{cmp.Or(d.Replica, metric.LabelPod)}
	max := func(labels []string, desc metric.Desc, matchers ...string) string {
		return "max " + by(labels...) + " (" + d.Select(desc.Name, matchers...) + ")"
	}
	of := func(desc metric.Desc, labels ...string) string { return max(append(replica, labels...), desc) }
	counter := func(desc metric.Desc, suffix string, labels ...string) string {
		return d.counted(w, desc.Name+suffix, append(replica, labels...))
	}
	hpa := func(kind string) string {
		return max([]string{d.AutoscalerNamespace(), metric.LabelHPA}, metric.AutoscalerHPAReplicas, Equal(metric.LabelKind, kind))
	}
	return []Ask{
		{Capacity, Ledger, FromAutoscaler, of(metric.AutoscalerCapacityGPUSeconds, metric.LabelPool, metric.LabelModel) + " or 0 * (" + of(metric.AutoscalerLeader) + " == 1)",
			"GPU time of all GPUs; without pool and model 0 while a replica leads, with or without GPUs"},
		{Places, Ledger, FromAutoscaler, of(metric.AutoscalerGPUSeconds, metric.LabelPool, metric.LabelModel, metric.LabelTenant, d.AutoscalerNamespace(), metric.LabelPlace), "GPU time by place"},
		{GPUs, Coarse, FromAutoscaler, max([]string{metric.LabelPool, metric.LabelModel, metric.LabelState}, metric.AutoscalerGPUs), "GPUs by state"},
		{Stranded, Coarse, FromAutoscaler, max([]string{metric.LabelPool, metric.LabelCause}, metric.AutoscalerStrandedGPUs), "free GPUs that serve no pod, by cause"},
		{Tenants, Coarse, FromAutoscaler, max([]string{metric.LabelTenant, metric.LabelKind}, metric.AutoscalerTenantGPUs), "quotas and their use"},
		{PoolNodes, Coarse, FromAutoscaler, max([]string{metric.LabelPool, metric.LabelKind}, metric.AutoscalerPoolSize), "nodes by pool"},
		{PoolPrice, Now, FromAutoscaler, max([]string{metric.LabelPool, metric.LabelSpot}, metric.AutoscalerPoolPrice), "price of a node"},
		{Waiting, Coarse, FromAutoscaler, max([]string{metric.LabelShape, metric.LabelReason}, metric.AutoscalerPendingGPUs), "GPUs that unserved pending pods request"},
		{HPAAtMax, Coarse, FromAutoscaler, hpa("current") + " >= " + hpa("max"), "HPAs at their maximum"},
		{HPAMax, Now, FromAutoscaler, hpa("max"), "maximum of each HPA at the end"},
		{HPALimited, Coarse, FromAutoscaler, max([]string{d.AutoscalerNamespace(), metric.LabelHPA, metric.LabelReason}, metric.AutoscalerHPALimited), "HPAs that are limited, by reason"},
		{PodWait, Coarse, FromAutoscaler, counter(metric.AutoscalerPodPendingSeconds, "_bucket", metric.LabelTenant, "le"), "time from a pod's creation until it was bound"},
		{NodeReady, Coarse, FromAutoscaler, counter(metric.AutoscalerNodeReady, "_bucket", metric.LabelPool, "le"), "time until a node was ready"},
		{Decisions, Coarse, FromAutoscaler, counter(metric.AutoscalerDecisionSeconds, "_bucket", "le"), "time until the autoscaler acted for a pod"},
		{Actions, Coarse, FromAutoscaler, counter(metric.AutoscalerActions, "", metric.LabelVerb, metric.LabelPool, metric.LabelReason, metric.LabelResult), "actions of the autoscaler"},
		{Failures, Coarse, FromAutoscaler, counter(metric.AutoscalerPoolFailures, "", metric.LabelPool, metric.LabelReason), "failed actions on pools"},
		{Interrupted, Coarse, FromAutoscaler, counter(metric.AutoscalerInterruptions, "", metric.LabelPool), "spot interruptions"},
		{Backoff, Coarse, FromAutoscaler, max([]string{metric.LabelPool}, metric.AutoscalerPoolBackoff) + " > 0", "pools in backoff after failures"},
	}
}

// tokens lists the series of generated tokens of inference servers.
var tokens = []metric.Read{metric.VLLMGenerationTokens, metric.SGLangGenerationTokens, metric.LMDeployGenerationTokens, metric.NIMGenerationTokens}

func (d Dialect) serverAsks(w Window) []Ask {
	// Everything by which a server counts separately, including under Ray, in SGLang, and for the servers of a
	// gateway. The Prometheus replica is not among it.
	labels := append([]string{
		metric.LabelNamespace, metric.LabelPod, "instance", metric.LabelReplicaID, metric.LabelWorkerID, metric.LabelStreaming, metric.LabelWorkerAddr,
	}, metric.WithExported(metric.LabelModelName, metric.LabelEngine, metric.LabelDPRank, metric.LabelPriority)...) // pods may have labels of these names
	var each []string
	for _, r := range tokens {
		var marked []string
		if mark := r.Mark(); mark != "" {
			marked = []string{mark + `!=""`}
		}
		for _, name := range metric.Names(r) {
			each = append(each, d.counted(w, name, labels, marked...))
		}
	}
	all := strings.Join(each, " or ")
	series := "count " + by(metric.LabelNamespace) + " (" + all + ")"
	return []Ask{
		{Tokens, Coarse, FromServers, fmt.Sprintf("(%s) and on (%s) (%s <= %d)", all, metric.LabelNamespace, series, MostServing), "tokens written by inference servers"},
		{TokensBeyond, Coarse, FromServers, fmt.Sprintf("%s > %d", series, MostServing), "namespaces whose series of tokens are too many to be read"},
	}
}

// Asks lists the queries for the given sources.
func (d Dialect) Asks(w Window, sources ...Source) []Ask {
	all := slices.Concat(d.exporterAsks(w), d.autoscalerAsks(w), d.serverAsks(w))
	return slices.DeleteFunc(all, func(a Ask) bool { return !slices.Contains(sources, a.Source) })
}
