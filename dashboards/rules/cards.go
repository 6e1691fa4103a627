package rules

import (
	"fmt"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// ofNode tells the cards of a node apart by product.
var ofNode = []string{metric.LabelNode, metric.LabelModel}

// withModel gives a card's series the product, which not every one has.
func withModel(expr string) string {
	return fmt.Sprintf("(%s) * on (cluster, node, gpu) group_left (model) %s", expr, largest(metric.GPUInfo.Name, metric.LabelNode, metric.LabelGPU, metric.LabelModel))
}

// hottest of a node and product by a series in DCGM's names, which knows a card by
// its UUID and calls nodes and products otherwise. Instances repeat their card's.
func hottest(series string) string {
	byUUID := fmt.Sprintf("label_replace(%s, %q, \"$1\", %q, \"(.+)\")", largest(series, metric.LabelUUID), metric.LabelGPUUUID, metric.LabelUUID)
	return largest(fmt.Sprintf("%s * on (cluster, gpu_uuid) group_left (node, model) %s", byUUID,
		largest(metric.GPUInfo.Name, metric.LabelNode, metric.LabelModel, metric.LabelGPUUUID)), ofNode...)
}

// cards is what the exporters say, card by card, added up.
func cards() []Rule {
	share := metric.GPUShareRatio.Name
	sick := "group by (cluster, node, gpu, reason) (" + metric.GPUHealthy.Name + " == 0)"
	return []Rule{
		{
			Record: "model:gpu_info:count",
			Expr:   count(largest(metric.GPUInfo.Name, metric.LabelModel, metric.LabelGPUUUID), metric.LabelModel),
			Help:   "Cards that an exporter shows.", Labels: []string{metric.LabelModel},
		},
		{
			Record: "node:gpu_share_ratio:sum",
			Expr:   sum(largest(share, entity...), metric.LabelNode),
			Help:   "Cards' worth of computing that each node does.", Labels: []string{metric.LabelNode},
		},
		{
			Record: "cluster:gpu_share_ratio:sum",
			Expr:   sum(largest(share, entity...)),
			Help:   "Cards' worth of computing that is done.",
		},
		{
			Record: "namespace:gpu_share_ratio:sum", Expr: sum(held(share), metric.LabelNamespace),
			Help: "Cards' worth of computing that each namespace does with what it holds.", Labels: []string{metric.LabelNamespace},
		},
		{
			Record: "namespace:gpu_held:count",
			Expr: count(largest(own(metric.GPUHeld.Name, metric.LabelNamespace), append(entity[:len(entity):len(entity)], metric.LabelProfile, metric.LabelNamespace)...),
				metric.LabelNamespace, metric.LabelProfile),
			Help:   "Whole cards, without a profile, and MIG instances that each namespace holds or shares.",
			Labels: []string{metric.LabelNamespace, metric.LabelProfile},
		},
		{
			Record: "namespace:gpu_held_idle_1h:count",
			Expr: count(largest(own(metric.GPUIdleSeconds.Name+" > 3600", metric.LabelNamespace), append(entity[:len(entity):len(entity)], metric.LabelNamespace)...),
				metric.LabelNamespace),
			Help: "Cards and instances held for more than an hour without computing. Absent for none.", Labels: []string{metric.LabelNamespace},
		},
		{
			Record: "namespace:gpu_memory_used_bytes:sum", Expr: sum(held(metric.GPUMemoryUsedBytes.Name), metric.LabelNamespace),
			Help: "Memory in use on what each namespace holds.", Labels: []string{metric.LabelNamespace},
		},
		{
			Record: "cluster:gpu_unhealthy:count",
			Expr:   count(largest(metric.GPUHealthy.Name+" == 0", metric.LabelGPUUUID, metric.LabelReason), metric.LabelReason),
			Help:   "Cards that are not healthy. Absent for none.", Labels: []string{metric.LabelReason},
		},
		{
			Record: "cluster:gpu_healthy:count",
			Expr:   count(largest(metric.GPUHealthy.Name+" == 1", metric.LabelGPUUUID)),
			Help:   "Cards that are known to be healthy.",
		},
		{
			Record: "node:gpu_xid_errors:increase1h", Expr: happened(metric.GPUXIDErrorsTotal, "1h", metric.LabelNode, metric.LabelXID),
			Help: "XIDs within the last hour. Absent where a code was never seen.", Labels: []string{metric.LabelNode, metric.LabelXID},
		},
		{
			Record: "node:gpu_info:count",
			Expr:   count(largest(metric.GPUInfo.Name, metric.LabelNode, metric.LabelGPU, metric.LabelModel), ofNode...),
			Help:   "Cards that an exporter shows.", Labels: ofNode,
		},
		{
			Record: "node:gpu_energy_joules:rate5m",
			Expr:   sum(largest(rate(metric.GPUEnergyJoulesTotal), metric.LabelNode, metric.LabelGPU, metric.LabelGPUUUID, metric.LabelModel), ofNode...),
			Help:   "Power drawn by the cards of a node, in watts: the mean of five minutes.", Labels: ofNode,
		},
		{
			Record: "node:gpu_throttle_seconds:rate5m",
			Expr: sum(withModel(largest(rate(metric.GPUThrottleSecondsTotal)+" > 0", metric.LabelNode, metric.LabelGPU, metric.LabelReason)),
				metric.LabelNode, metric.LabelModel, metric.LabelReason),
			Help:   "Cards of a node whose clocks are held down, by reason. Reasons overlap. Absent for none.",
			Labels: []string{metric.LabelNode, metric.LabelModel, metric.LabelReason},
		},
		{
			Record: "gpu:gpu_unhealthy:max",
			Expr:   withModel(sick) + " or " + sick + " unless on (cluster, node, gpu) " + metric.GPUInfo.Name,
			Help:   "1 for each card that is not healthy, and why. Absent for the others. A card that nobody shows any more has no model.",
			Labels: []string{metric.LabelNode, metric.LabelGPU, metric.LabelModel, metric.LabelReason},
		},
		{
			Record: "node:gpu_temperature_celsius:max", Expr: hottest(metric.DCGMTemperature.Name),
			Help: "The hottest card of each product in a node.", Labels: ofNode,
		},
		{
			Record: "node:gpu_memory_temperature_celsius:max", Expr: hottest(metric.DCGMMemoryTemperature.Name + " > 0"),
			Help: "The hottest memory of each product in a node. Absent where cards do not measure it.", Labels: ofNode,
		},
		{
			Record: "cluster:gpu_power_watts:sum",
			Expr:   sum(largest(metric.GPUPowerWatts.Name, metric.LabelGPUUUID)),
			Help:   "Power drawn by all cards.",
		},
		{
			Record: "cluster:gpu_throttle_seconds:rate5m", Expr: sum(rate(metric.GPUThrottleSecondsTotal), metric.LabelReason),
			Help: "Cards whose clocks are held down, by reason. Reasons overlap.", Labels: []string{metric.LabelReason},
		},
		{
			Record: "node:gpu_sample_age_seconds:max",
			Expr:   largest(metric.GPUSampleAgeSeconds.Name, metric.LabelNode),
			Help:   "Age of the oldest value that a node's exporter serves.", Labels: []string{metric.LabelNode},
		},
	}
}

// happened is how much a counter grew whose series begin with the first event, which
// increase alone never sees: one that was not there before counts from 0.
func happened(d metric.Desc, in string, by ...string) string {
	return sum(fmt.Sprintf("increase(%[1]s[%[2]s]) and %[1]s offset %[2]s or %[1]s unless %[1]s offset %[2]s", d.Name, in), by...)
}

// waits is how long things took.
func waits() []Rule {
	out := []Rule{{
		Record: "cluster:gpuscale_exporter_read_seconds:p95_30m", Expr: quantile(0.95, metric.ExporterReadSeconds, "30m"),
		Help: "Time of one pass of an exporter over its source, of half an hour. Absent for none.",
	}}
	for _, q := range []struct {
		name  string
		share float64
	}{{"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}} {
		out = append(out,
			Rule{
				Record: "cluster:gpuscale_pod_wait_seconds:" + q.name + "_30m", Expr: quantile(q.share, metric.AutoscalerPodWait, "30m"),
				Help: "Time that pods waited for a node, of those bound within half an hour. Absent for none.",
			},
			Rule{
				Record: "pool:gpuscale_node_ready_seconds:" + q.name + "_6h", Expr: quantile(q.share, metric.AutoscalerNodeReady, "6h", metric.LabelPool),
				Help:   "Time from the request for a node until it took pods, of those of six hours. Absent for none.",
				Labels: []string{metric.LabelPool},
			},
			Rule{
				Record: "cluster:gpuscale_decision_seconds:" + q.name + "_30m", Expr: quantile(q.share, metric.AutoscalerDecisionSeconds, "30m"),
				Help: "Time from pending to the first action, of half an hour. Absent for none.",
			})
	}
	return out
}
