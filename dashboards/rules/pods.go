package rules

import (
	"fmt"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// pods has each pod's use of what is allocated to it, and its latency.
func pods() []Rule {
	pod := []string{metric.LabelNamespace, metric.LabelPod}
	return []Rule{
		{
			Record: "pod:gpu_busy_ratio:avg",
			Expr:   aggregate("avg", ofAllocated(metric.GPUInstanceBusyRatio.Name, metric.GPUBusyRatio.Name), pod),
			Help:   "Mean share of time in which the GPUs and slices allocated to a pod compute. What has no busy ratio is not in it.", Labels: pod,
		},
		{
			Record: "pod:gpu_memory_used:ratio",
			Expr:   sum(ofAllocated(metric.GPUMemoryUsedBytes.Name), pod...) + " / (" + sum(ofAllocated(metric.GPUMemoryTotalBytes.Name), pod...) + " > 0)",
			Help:   "Share in use of the memory allocated to a pod.", Labels: pod,
		},
		{
			Record: "pod:llm_first_token_seconds:p95_5m",
			Expr:   firstToken(metric.VLLMFirstToken, metric.SGLangFirstToken, metric.TRTLLMFirstToken),
			Help:   "Time to the first token of a model server, 95th percentile. Absent without requests.", Labels: pod,
		},
	}
}

// ofAllocated are the values of GPUs and instances for everything that is allocated,
// with the pod's labels. What several pods share has no pod in its own series, and each
// of them in gpu_held.
func ofAllocated(names ...string) string {
	by := append([]string{labelCluster}, entity...)
	var all []string
	for _, name := range names {
		all = append(all, largest(name, entity...))
	}
	return fmt.Sprintf("%s * on (%s) group_left () (%s)", largest(own(metric.GPUHeld.Name, podLabels...), append(append([]string{}, entity...), podLabels...)...),
		strings.Join(by, ", "), strings.Join(all, " or "))
}

func firstToken(of ...metric.Read) string {
	var all []string
	for _, r := range of {
		all = append(all, "histogram_quantile(0.95, "+sum("rate("+r.Name+"_bucket["+window+"])", metric.LabelNamespace, metric.LabelPod, "le")+") >= 0")
	}
	return strings.Join(all, " or ")
}
