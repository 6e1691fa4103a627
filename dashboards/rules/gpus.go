package rules

import (
	"fmt"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// ofNode are the labels of a node and product.
var ofNode = []string{metric.LabelNode, metric.LabelModel}

// withModel adds the product to a GPU's series.
func withModel(expr string) string {
	return fmt.Sprintf("(%s) * on (cluster, node, gpu) group_left (model) %s", expr, largest(metric.GPUInfo.Name, metric.LabelNode, metric.LabelGPU, metric.LabelModel))
}

// hottest is the hottest of a node and product by a series of DCGM's names, which
// identifies a GPU by its UUID and has other names for nodes and products. Instances
// repeat their GPU's value.
func hottest(series string) string {
	byUUID := fmt.Sprintf("label_replace(%s, %q, \"$1\", %q, \"(.+)\")", largest(series, metric.LabelUUID), metric.LabelGPUUUID, metric.LabelUUID)
	return largest(fmt.Sprintf("%s * on (cluster, gpu_uuid) group_left (node, model) %s", byUUID,
		largest(metric.GPUInfo.Name, metric.LabelNode, metric.LabelModel, metric.LabelGPUUUID)), ofNode...)
}

// gpus adds up the exporters' series of GPUs.
func gpus() []Rule {
	sick := "group by (cluster, node, gpu, reason) (" + metric.GPUHealthy.Name + " == 0)"
	return []Rule{
		{
			Record: "node:gpu_info:count",
			Expr:   count(largest(metric.GPUInfo.Name, metric.LabelNode, metric.LabelGPU, metric.LabelModel), ofNode...),
			Help:   "GPUs that an exporter reports.", Labels: ofNode,
		},
		{
			Record: "node:gpu_energy_joules:rate5m",
			Expr:   sum(largest(rate(metric.GPUEnergyJoulesTotal), metric.LabelNode, metric.LabelGPU, metric.LabelGPUUUID, metric.LabelModel), ofNode...),
			Help:   "Power drawn by the GPUs of a node, in watts: the mean of five minutes.", Labels: ofNode,
		},
		{
			Record: "node:gpu_throttle_seconds:rate5m",
			Expr: sum(withModel(largest(rate(metric.GPUThrottleSecondsTotal)+" > 0", metric.LabelNode, metric.LabelGPU, metric.LabelReason)),
				metric.LabelNode, metric.LabelModel, metric.LabelReason),
			Help:   "GPUs of a node whose clocks are throttled, by reason. Reasons overlap. Absent for none.",
			Labels: []string{metric.LabelNode, metric.LabelModel, metric.LabelReason},
		},
		{
			Record: "gpu:gpu_unhealthy:max",
			Expr:   withModel(sick) + " or " + sick + " unless on (cluster, node, gpu) " + metric.GPUInfo.Name,
			Help:   "1 for each GPU that is not healthy, and why. Absent for the others. A GPU that is no longer reported has no model.",
			Labels: []string{metric.LabelNode, metric.LabelGPU, metric.LabelModel, metric.LabelReason},
		},
		{
			Record: "node:gpu_temperature_celsius:max", Expr: hottest(metric.DCGMTemperature.Name),
			Help: "The hottest GPU of each product in a node.", Labels: ofNode,
		},
		{
			Record: "node:gpu_memory_temperature_celsius:max", Expr: hottest(metric.DCGMMemoryTemperature.Name + " > 0"),
			Help: "The hottest memory of each product in a node. Absent where GPUs do not measure it.", Labels: ofNode,
		},
	}
}
