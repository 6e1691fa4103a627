package doctor

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/gpu"
)

var quotaChecks = []Check{
	{
		ID: "quota-unsatisfiable", Title: "Every GPUQuota can be met", Run: quotaUnsatisfiable,
		Fault: "A GPUQuota is for a model that no pool and no node has, contradicts another quota, names a parent that does not exist, or is its own ancestor.",
		Means: "The guarantee cannot be met, or the quota that applies is not the one that you wrote.",
		Looks: from(GPUQuotas, Pools, Nodes),
	},
	{
		ID: "resourcequota-names", Title: "ResourceQuotas count the GPU resources that pods request", Run: resourceQuotaNames,
		Fault: "A ResourceQuota counts some GPU resources (`nvidia.com/gpu`), and pods of its namespace request others (`nvidia.com/mig-*`).",
		Means: "The ResourceQuota does not limit those other resources.",
		Looks: from(ResourceQuotas), Also: from(Pods),
	},
}

func quotaUnsatisfiable(l *look) {
	models, complete := models(l)
	for _, q := range orSkip(l, GPUQuotas.in(l), "there is no GPUQuota") {
		show := l.kubectl("get", "gpuquota", q.Name, "-o", "yaml")
		if c := meta.FindStatusCondition(q.Status.Conditions, "Valid"); c != nil && c.Status == metav1.ConditionFalse && c.ObservedGeneration == q.Generation {
			l.fault("GPUQuota "+q.Name, conditionText(c), "Correct the quota as the message says.", show).Means = "The quota applies only in part (docs/quotas.md)."
			continue
		}
		for at, a := range q.Spec.Amounts {
			if a.Model != v1alpha1.AnyModel && complete && !slices.Contains(models, gpu.ProductName(a.Model)) {
				l.warn("GPUQuota "+q.Name, fmt.Sprintf("spec.amounts[%d].model is %s, but no pool and no node has this model; they have %s", at, a.Model, several(models)),
					"Use a model that a pool has, or create a pool with this model.", show).Means = "The guarantee cannot be met, and pods that request this model stay pending."
			}
		}
	}
}

// models returns the GPU models of pools and nodes. complete is false if none is known, or if a node's model
// is unknown.
func models(l *look) (all []string, complete bool) {
	complete = true
	for _, p := range Pools.in(l) {
		all = append(all, gpu.ProductName(p.Spec.Template.Product))
	}
	for _, n := range Nodes.in(l) {
		name := gpu.ProductName(n.Labels[labelProduct])
		all, complete = append(all, name), complete && (name != "" || !offers(n))
	}
	all = slices.DeleteFunc(all, func(name string) bool { return name == "" })
	slices.Sort(all)
	return slices.Compact(all), complete && len(all) > 0
}

// gpuResources returns the NVIDIA resources that a pod requests, with their amounts.
func gpuResources(spec *corev1.PodSpec) map[string]int64 {
	out := map[string]int64{}
	for _, c := range spec.Containers {
		for name, q := range c.Resources.Limits {
			if isGPUResource(string(name)) {
				out[string(name)] += q.Value()
			}
		}
	}
	return out
}

// isGPUResource reports whether a resource is an NVIDIA device.
func isGPUResource(name string) bool {
	return name == "nvidia.com/gpu" || name == "nvidia.com/gpu.shared" || strings.HasPrefix(name, "nvidia.com/mig-")
}

func resourceQuotaNames(l *look) {
	counted := map[string][]string{} // GPU resources that a namespace's quotas count
	var first []*corev1.ResourceQuota
	for _, q := range ResourceQuotas.in(l) {
		var some []string
		for name := range q.Spec.Hard {
			if r, ok := strings.CutPrefix(string(name), "requests."); ok && strings.HasPrefix(r, "nvidia.com/") {
				some = append(some, r)
			}
		}
		if len(some) > 0 && len(counted[q.Namespace]) == 0 {
			first = append(first, q)
		}
		counted[q.Namespace] = append(counted[q.Namespace], some...)
	}
	for _, q := range orSkip(l, first, "no ResourceQuota counts a GPU resource") {
		counts, asked := counted[q.Namespace], map[string]int64{}
		for _, p := range Pods.in(l) {
			for r, n := range gpuResources(&p.Spec) {
				if p.Namespace == q.Namespace && !slices.Contains(counts, r) {
					asked[r] += n
				}
			}
		}
		hard := map[string]string{}
		for name, n := range asked {
			hard["requests."+name] = fmt.Sprint(n)
		}
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"hard": hard}})
		if len(hard) == 0 || err != nil {
			continue
		}
		slices.Sort(counts)
		l.warn("ResourceQuota "+q.Namespace+"/"+q.Name, fmt.Sprintf("spec.hard limits %s, but pods of the namespace request %s, which it does not limit", several(slices.Compact(counts)), several(slices.Sorted(maps.Keys(asked)))),
			"Add those resources to the ResourceQuota (the command sets each limit to the present use); or use a GPUQuota, which counts GPUs and slices under any resource name.",
			l.patch(q.Namespace, "resourcequota", q.Name, string(patch)))
	}
}
