package rules

import (
	"fmt"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// pods is what each pod does with what it holds, and how long it lets wait.
func pods() []Rule {
	pod := []string{metric.LabelNamespace, metric.LabelPod}
	return []Rule{
		{
			Record: "pod:gpu_busy_ratio:avg",
			Expr:   aggregate("avg", ofHeld(metric.GPUInstanceBusyRatio.Name, metric.GPUBusyRatio.Name), pod),
			Help:   "Mean share of time in which the cards and slices that a pod holds compute. What has no busy ratio is not in it.", Labels: pod,
		},
		{
			Record: "pod:gpu_memory_used:ratio",
			Expr:   sum(ofHeld(metric.GPUMemoryUsedBytes.Name), pod...) + " / (" + sum(ofHeld(metric.GPUMemoryTotalBytes.Name), pod...) + " > 0)",
			Help:   "Share in use of the memory of what a pod holds.", Labels: pod,
		},
		{
			Record: "pod:llm_first_token_seconds:p95_5m",
			Expr:   firstToken(metric.VLLMFirstToken, metric.SGLangFirstToken, metric.TRTLLMFirstToken),
			Help:   "Time to the first token of a model server: 95 of 100 requests waited less. Absent without requests.", Labels: pod,
		},
	}
}

// ofHeld are the values of cards and instances for everything that is held, with the
// holder's labels. What several pods share has no holder in its own series, and each
// of them in gpu_held.
func ofHeld(names ...string) string {
	by := append([]string{labelCluster}, entity...)
	var all []string
	for _, name := range names {
		all = append(all, largest(name, entity...))
	}
	return fmt.Sprintf("%s * on (%s) group_left () (%s)", largest(own(metric.GPUHeld.Name, holder...), append(append([]string{}, entity...), holder...)...),
		strings.Join(by, ", "), strings.Join(all, " or "))
}

func firstToken(of ...metric.Read) string {
	var all []string
	for _, r := range of {
		all = append(all, "histogram_quantile(0.95, "+sum("rate("+r.Name+"_bucket["+window+"])", metric.LabelNamespace, metric.LabelPod, "le")+") >= 0")
	}
	return strings.Join(all, " or ")
}
