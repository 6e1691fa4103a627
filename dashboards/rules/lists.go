package rules

import (
	"fmt"
	"strings"

	"github.com/gpuscale/gpuscale/dashboards/sources"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// fleet records the autoscaler's series of all GPUs.
func fleet() []Rule {
	return []Rule{
		{
			Record: "pool:gpuscale_gpu_seconds:rate5m", Expr: sum(rate(metric.AutoscalerGPUSeconds), metric.LabelPool, metric.LabelModel, metric.LabelPlace),
			Help: "GPU time by place, in GPUs.", Labels: []string{metric.LabelPool, metric.LabelModel, metric.LabelPlace},
		},
		{
			Record: "pool:gpuscale_capacity_gpu_seconds:rate5m", Expr: sum(rate(metric.AutoscalerCapacityGPUSeconds), metric.LabelPool, metric.LabelModel),
			Help: "Capacity of GPU time, in GPUs.", Labels: []string{metric.LabelPool, metric.LabelModel},
		},
	}
}

// tenants records the autoscaler's series by tenant.
func tenants() []Rule {
	places := []string{metric.LabelTenant, metric.LabelNamespace, metric.LabelPlace}
	return []Rule{
		{
			Record: "namespace:gpuscale_gpu_seconds:rate5m", Expr: sum(sources.Own(rate(metric.AutoscalerGPUSeconds), metric.LabelNamespace), places...),
			Help:   "GPU time by place, tenant and namespace, in GPUs. tenant and namespace are \"(none)\" for what is not allocated.",
			Labels: places,
		},
		{
			Record: "namespace:gpuscale_cost_per_hour:sum",
			Expr: sum(fmt.Sprintf("%s * on (cluster, pool) group_left () (%s / (%s > 0))",
				sources.Own("rate("+metric.AutoscalerGPUSeconds.Name+"{place=~\"busy|slack|idle|unmeasured\"}["+window+"])", metric.LabelNamespace),
				sum(metric.AutoscalerCost.Name, metric.LabelPool), sum(metric.AutoscalerGPUs.Name, metric.LabelPool)), metric.LabelTenant, metric.LabelNamespace),
			Help:   "Cost per hour of the GPUs allocated to each namespace. Absent where the pool has no price.",
			Labels: []string{metric.LabelTenant, metric.LabelNamespace},
		},
	}
}

// ofNode are the labels of a node and product.
var ofNode = []string{metric.LabelNode, metric.LabelModel}

// withModel adds the product label to a GPU's series.
func withModel(expr string) string {
	return fmt.Sprintf("(%s) * on (cluster, node, gpu) group_left (model) %s", expr, largest(metric.GPUInfo.Name, metric.LabelNode, metric.LabelGPU, metric.LabelModel))
}

// hottest returns the highest value for each node and product, from a series with DCGM's names. That series
// identifies a GPU by its UUID and names nodes and products differently. Instances repeat their GPU's value.
func hottest(series string) string {
	byUUID := fmt.Sprintf("label_replace(%s, %q, \"$1\", %q, \"(.+)\")", largest(series, metric.LabelUUID), metric.LabelGPUUUID, metric.LabelUUID)
	return largest(fmt.Sprintf("%s * on (cluster, gpu_uuid) group_left (node, model) %s", byUUID,
		largest(metric.GPUInfo.Name, metric.LabelNode, metric.LabelModel, metric.LabelGPUUUID)), ofNode...)
}

// gpus records sums of the exporters' GPU series.
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
			Record: "node:gpu_temperature_celsius:max", Expr: hottest(metric.DCGMTemperature.Name + " or " + metric.DCGMTemperatureNew.Name),
			Help: "The hottest GPU of each product in a node.", Labels: ofNode,
		},
		{
			Record: "node:gpu_memory_temperature_celsius:max", Expr: hottest("(" + metric.DCGMMemoryTemperature.Name + " or " + metric.DCGMMemoryTemperatureNew.Name + ") > 0"),
			Help: "The hottest memory of each product in a node. Absent where GPUs do not measure it.", Labels: ofNode,
		},
	}
}

// pods records each pod's use of what is allocated to it, and its latency.
func pods() []Rule {
	pod := []string{metric.LabelNamespace, metric.LabelPod}
	return []Rule{
		{
			Record: "pod:gpu_busy_ratio:avg",
			Expr:   sources.By("avg", ofAllocated(metric.GPUInstanceBusyRatio.Name, metric.GPUBusyRatio.Name), pod...),
			Help:   "Mean share of time in which the GPUs and slices allocated to a pod compute. What has no busy ratio is not in it.", Labels: pod,
		},
		{
			Record: "pod:gpu_memory_used:ratio",
			Expr:   sum(ofAllocated(metric.GPUMemoryUsedBytes.Name), pod...) + " / (" + sum(ofAllocated(metric.GPUMemoryTotalBytes.Name), pod...) + " > 0)",
			Help:   "Share in use of the memory allocated to a pod.", Labels: pod,
		},
		{
			Record: "pod:llm_first_token_seconds:p95_5m",
			Expr:   firstToken(FirstTokens...),
			Help:   "Time to the first token of a model server, 95th percentile. Absent without requests.", Labels: pod,
		},
	}
}

// ofAllocated returns the values of allocated GPUs and instances with the pod's labels. Where several pods
// share a GPU, its own series has no pod, but gpu_held has one series for each pod.
func ofAllocated(names ...string) string {
	var all []string
	for _, name := range names {
		all = append(all, largest(name, entity...))
	}
	return fmt.Sprintf("%s * on (%s) group_left () (%s)", largest(sources.Own(metric.GPUHeld.Name, podLabels...), append(append([]string{}, entity...), podLabels...)...),
		sources.On(entity...), strings.Join(all, " or "))
}

// FirstTokens are model servers' own histograms of the time to the first token, in seconds.
var FirstTokens = []metric.Read{metric.VLLMFirstToken, metric.SGLangFirstToken, metric.LMDeployFirstToken, metric.TRTLLMFirstToken, metric.TRTLLMFirstTokenOld, metric.NIMFirstToken}

func firstToken(of ...metric.Read) string {
	var all []string
	for _, r := range of {
		matcher := ""
		if mark := r.Mark(); mark != "" {
			matcher = "{" + mark + `!=""}`
		}
		for _, name := range metric.Names(r) {
			all = append(all, "histogram_quantile(0.95, "+sum("rate("+name+"_bucket"+matcher+"["+window+"])", metric.LabelNamespace, metric.LabelPod, "le")+") >= 0")
		}
	}
	return strings.Join(all, " or ")
}
