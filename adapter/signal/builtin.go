package signal

import (
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Builtin returns the rules that need no configuration, with the given age
// limit.
func Builtin(maxAge time.Duration) []Rule {
	return []Rule{
		ratio("gpu_busy", Average, maxAge,
			Source{Metric: metric.GPUBusyRatio.Name}, Source{Metric: metric.GPUInstanceBusyRatio.Name}),
		// A pod's shares add up to the cards' worth of computing it does.
		ratio("gpu_share", Sum, maxAge, Source{Metric: metric.GPUShareRatio.Name}),
		ratio("gpu_memory_used_ratio", Average, maxAge,
			Source{Metric: metric.GPUMemoryUsedBytes.Name, Over: metric.GPUMemoryTotalBytes.Name}),
		inference("queue_depth", Sum, 1e9, maxAge, metric.VLLMWaiting),
		inference("requests_running", Sum, 1e9, maxAge, metric.VLLMRunning),
		inference("kv_cache_usage", Average, ratioMaximum, maxAge, metric.VLLMCacheUsage, metric.VLLMCacheUsageOld),
	}
}

// ratioMaximum leaves room for what counters read just above full, and none
// for a percentage taken for a ratio.
const ratioMaximum = 1.05

// ratio is a signal of the GPU exporter's, for the pod that holds the card.
func ratio(name string, perPod Aggregation, maxAge time.Duration, sources ...Source) Rule {
	maximum := ratioMaximum
	return Rule{
		Name: name, Sources: sources, Subject: Holder,
		// Not the container: two containers that share a card make two series
		// of one card's use.
		Identity:   []string{metric.LabelGPUUUID, metric.LabelGPUInstanceID},
		Duplicates: Max, PerPod: perPod, PerWorkload: Average,
		Maximum: maximum, MaxAge: maxAge,
	}
}

// inference is a signal of a model server's, for the pod it runs in. Each name
// after the first is an older one; each is also looked for as Ray spells it.
func inference(name string, aggregation Aggregation, maximum float64, maxAge time.Duration, reads ...metric.Read) Rule {
	r := Rule{
		Name: name, Subject: Target, Identity: reads[0].Labels,
		Duplicates: Max, PerPod: aggregation, PerWorkload: aggregation,
		Maximum: maximum, MaxAge: maxAge,
	}
	for _, read := range reads {
		for _, metricName := range []string{read.Name, "ray_" + strings.ReplaceAll(read.Name, ":", "_")} {
			r.Sources = append(r.Sources, Source{Metric: metricName, Tier: len(r.Sources)})
		}
	}
	return r
}
