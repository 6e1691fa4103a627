package signal

import (
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Builtin returns the rules that need no configuration, with the given age
// limit.
func Builtin(maxAge time.Duration) []Rule {
	return []Rule{
		ratio("gpu_busy", Average, maxAge, tiers(
			variants(Source{Metric: metric.GPUBusyRatio.Name}, Source{Metric: metric.GPUInstanceBusyRatio.Name}),
			variants(gauge(metric.DCGMEngineActive)), variants(gauge(metric.DCGMEngineActiveNew)))),
		// A pod's shares add up to the GPUs' worth of computing it does.
		ratio("gpu_share", Sum, maxAge, []Source{{Metric: metric.GPUShareRatio.Name}}),
		ratio("gpu_memory_used_ratio", Average, maxAge,
			[]Source{{Metric: metric.GPUMemoryUsedBytes.Name, Over: metric.GPUMemoryTotalBytes.Name}}),
		inference("queue_depth", Sum, 1e9, maxAge, queues()),
		inference("requests_running", Sum, 1e9, maxAge, running()),
		inference("kv_cache_usage", Average, ratioMaximum, maxAge, cacheUsages()),
		latency("ttft_p95", maxAge, firstTokens(.95)),
		latency("queue_time_p95", maxAge, queueTimes(Quantile, .95)),
		latency("queue_time_mean", maxAge, queueTimes(Mean, 0)),
		ratio("gpu_tensor_active", Average, maxAge, tiers(variants(gauge(metric.DCGMTensorActive)), variants(gauge(metric.DCGMTensorActiveNew)))),
		ratio("gpu_dram_active", Average, maxAge, tiers(variants(gauge(metric.DCGMDRAMActive)), variants(gauge(metric.DCGMDRAMActiveNew)))),
	}
}

const (
	// ratioMaximum accepts counters that read just above full, and rejects a
	// percentage taken for a ratio.
	ratioMaximum = 1.05
	// latencyMaximum is a day in seconds: more is a wrong unit.
	latencyMaximum = 86_400
	// latencyWindow covers at least two scrapes of up to a minute.
	latencyWindow = 2 * time.Minute
)

// ratio is a signal about GPUs, for the pod the GPU is allocated to.
func ratio(name string, perPod Aggregation, maxAge time.Duration, sources []Source) Rule {
	return Rule{
		Name: name, Sources: sources, Subject: Exported,
		// Not the container: two containers that share a GPU make two series
		// of one GPU's use.
		Identity:   []string{metric.LabelGPUUUID, metric.LabelGPUInstanceID},
		Duplicates: Max, PerPod: perPod, PerWorkload: Average,
		Maximum: ratioMaximum, MaxAge: maxAge,
	}
}

// inference is a signal of a model server, for the pod it runs in. A sum is 0
// for a workload scaled to zero.
func inference(name string, aggregation Aggregation, maximum float64, maxAge time.Duration, sources []Source) Rule {
	r := Rule{
		Name: name, Subject: Target, Sources: sources,
		Duplicates: Max, PerPod: aggregation, PerWorkload: aggregation,
		Maximum: maximum, MaxAge: maxAge,
	}
	if aggregation == Sum {
		r.AtZero = new(float64)
	}
	return r
}

// latency is a time in seconds; the highest of several counts.
func latency(name string, maxAge time.Duration, sources []Source) Rule {
	r := inference(name, Max, latencyMaximum, maxAge, sources)
	r.Window, r.Wide = latencyWindow, Lookback
	return r
}

// tiers lays groups of sources out in order of preference. Those of a group are combined.
func tiers(groups ...[][]Source) (all []Source) {
	for tier, group := range slices.Concat(groups...) {
		for _, s := range group {
			s.Tier = &tier
			all = append(all, s)
		}
	}
	return all
}
