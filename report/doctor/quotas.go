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
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

var quotaChecks = []Check{
	{
		ID: "quota-unsatisfiable", Title: "Every quota admits some pod", Run: quotaUnsatisfiable,
		Fault: "A GPUQuota's limit is less than the smallest part of a GPU of any pool or node, is for a model that none has, contradicts another quota, or names a parent that does not exist or closes a circle.",
		Means: "Its pods are pending forever, or the effective limit differs from the written one.",
		Looks: from(GPUQuotas, Pools, Nodes),
	},
	{
		ID: "resourcequota-names", Title: "ResourceQuotas count what pods request", Run: resourceQuotaNames,
		Fault: "A ResourceQuota counts some GPU resources (`nvidia.com/gpu`), and pods of its namespace request others (`nvidia.com/mig-*`).",
		Means: "It does not limit those.",
		Looks: from(ResourceQuotas), Also: from(Pods),
	},
}

// tables are ours and those that nodes have published. One that cannot be read is left
// out: the autoscaler reports it.
func tables(l *look) mig.Tables {
	var nodes []corev1.Node
	for _, n := range Nodes.in(l) {
		nodes = append(nodes, *n)
	}
	tables, _ := contract.TablesOf(contract.Publications(nodes))
	return tables
}

// smallest part of a GPU of each model that pools and nodes have, as a share of the
// GPU. A model without MIG has whole GPUs only.
func smallest(l *look) map[string]float64 {
	out := map[string]float64{}
	tables := tables(l)
	put := func(product string) {
		name := gpu.ProductName(product)
		if name == "" {
			return
		}
		out[name] = 1
		table, ok := tables.ForModel(name)
		if !ok {
			return
		}
		for _, p := range table.Profiles() {
			share := max(float64(p.Compute)/float64(table.ComputeSlices()), float64(p.Memory)/float64(table.MemorySlices()))
			out[name] = min(out[name], share)
		}
	}
	for _, p := range Pools.in(l) {
		put(p.Spec.Template.Product)
	}
	for _, n := range Nodes.in(l) {
		put(n.Labels[labelProduct])
	}
	return out
}

func quotaUnsatisfiable(l *look) {
	smallest := smallest(l)
	for _, q := range orSkip(l, GPUQuotas.in(l), "there is no GPUQuota") {
		if c := meta.FindStatusCondition(q.Status.Conditions, "Valid"); c != nil && c.Status == metav1.ConditionFalse && c.ObservedGeneration == q.Generation {
			l.fault("GPUQuota "+q.Name, conditionText(c), "Correct what the message names.", l.kubectl("get", "gpuquota", q.Name, "-o", "yaml")).
				Means = "it applies only in part (docs/quotas.md)"
			continue
		}
		for at, a := range q.Spec.Amounts {
			checkAmount(l, q, at, a, smallest)
		}
	}
}

// checkAmount checks one amount of a quota against the GPUs that exist.
func checkAmount(l *look, q *gpuQuota, at int, a v1alpha1.QuotaAmount, smallest map[string]float64) {
	if len(smallest) == 0 || fractional(l) {
		return // no GPU to compare it with, or parts of GPUs of any size
	}
	field, object, show := fmt.Sprintf("spec.amounts[%d]", at), "GPUQuota "+q.Name, l.kubectl("get", "gpuquota", q.Name, "-o", "yaml")
	least, on := 0.0, "any GPU"
	if a.Model == v1alpha1.AnyModel || a.Model == "" {
		least = slices.Min(slices.Collect(maps.Values(smallest)))
	} else {
		name := gpu.ProductName(a.Model)
		share, there := smallest[name]
		if !there {
			l.warn(object, fmt.Sprintf("%s.model is %s, and no pool and no node has such a GPU; there are %s", field, a.Model, several(slices.Sorted(maps.Keys(smallest)))),
				"Name a model that a pool has, or make a pool of it.", show).Means = "its guarantee cannot be met, and pods that request that model are pending"
			return
		}
		least, on = share, name
	}
	if a.Limit == nil || a.Limit.Sign() == 0 { // 0 is intended: no pod may
		return
	}
	if limit := a.Limit.AsApproximateFloat64(); limit < least-1e-9 {
		l.fault(object, fmt.Sprintf("%s.limit is %.3g, and the smallest part of %s is %.3g of a GPU", field, limit, on, least),
			fmt.Sprintf("Raise the limit to at least %.3g, or to 0 to admit no pod.", least), show).Means = "no pod fits under it: its pods are pending forever"
	}
}

// fractional reports whether a node offers parts of GPUs as another resource.
func fractional(l *look) bool {
	return slices.ContainsFunc(Nodes.in(l), func(n *corev1.Node) bool {
		return slices.ContainsFunc(offered(n), func(r string) bool { return r != "nvidia.com/gpu" && !strings.HasPrefix(r, "nvidia.com/mig-") })
	})
}

// gpuResources are the NVIDIA resources that a pod requests, and how many.
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

// isGPUResource reports whether a resource is a device of NVIDIA's.
func isGPUResource(name string) bool {
	return name == "nvidia.com/gpu" || name == "nvidia.com/gpu.shared" || strings.HasPrefix(name, "nvidia.com/mig-")
}

func resourceQuotaNames(l *look) {
	counted := map[string][]string{} // GPU resources by namespace, in any of its quotas
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
					asked["requests."+r] += n
				}
			}
		}
		hard := map[string]string{}
		for name, n := range asked {
			hard[name] = fmt.Sprint(n)
		}
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"hard": hard}})
		if len(hard) == 0 || err != nil {
			continue
		}
		slices.Sort(counts)
		l.warn("ResourceQuota "+q.Namespace+"/"+q.Name, fmt.Sprintf("spec.hard has %s, and pods of the namespace request %s, which it lacks", several(slices.Compact(counts)), several(slices.Sorted(maps.Keys(hard)))),
			"Count those resources too (the command sets each to its use now), or put a GPUQuota over the namespace, which counts slices of GPUs under any name.",
			l.patch(q.Namespace, "resourcequota", q.Name, string(patch)))
	}
}
