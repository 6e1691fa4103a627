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
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

var quotaChecks = []Check{
	{
		ID: "quota-cycle", Title: "Parents of quotas exist, without a cycle", Run: quotaCycle,
		Fault: "GPUQuotas are each other's parents, or a parent does not exist.",
		Means: "Each of them has no parent then: it neither lends nor borrows.",
		Looks: []Source{GPUQuotas},
	},
	{
		ID: "quota-unsatisfiable", Title: "Every quota admits some pod", Run: quotaUnsatisfiable,
		Fault: "A GPUQuota's limit is less than the smallest part of a GPU of any pool or node, is for a model that none has, or contradicts another quota.",
		Means: "Its pods are pending forever, or the effective limit differs from the written one.",
		Looks: []Source{GPUQuotas, Pools, Nodes},
	},
	{
		ID: "resourcequota-names", Title: "ResourceQuotas count what pods request", Run: resourceQuotaNames,
		Fault: "A ResourceQuota counts some GPU resources (`nvidia.com/gpu`), and pods of its namespace request others (`nvidia.com/mig-*`).",
		Means: "It does not limit those.",
		Looks: []Source{ResourceQuotas, Pods},
	},
}

// parentMessage begins the autoscaler's message about a parent.
const parentMessage = "spec.parent"

func quotaCycle(l *look) {
	if !l.use(GPUQuotas) {
		return
	}
	if len(l.f.GPUQuotas) == 0 {
		l.skip("there is no GPUQuota")
		return
	}
	parent := map[string]string{}
	for _, q := range l.f.GPUQuotas {
		parent[q.Name] = q.Spec.Parent
	}
	for _, name := range slices.Sorted(maps.Keys(parent)) {
		up := parent[name]
		f := Finding{Object: "GPUQuota " + name, Means: "it has no parent then: it neither lends nor borrows",
			Commands: []string{l.patch("", "gpuquota", name, `{"spec":{"parent":null}}`)}}
		if _, there := parent[up]; up != "" && !there {
			f.Seen, f.Fix = fmt.Sprintf("spec.parent: there is no GPUQuota %s", up), "Create that quota, name another, or name none."
			l.fault(f)
			continue
		}
		circle := circleOf(name, parent)
		if len(circle) == 0 || slices.Min(circle) != name {
			continue // each cycle once, at its first name
		}
		f.Seen = "spec.parent: a circle: " + strings.Join(append(circle, name), " → ")
		f.Means = "each of them has no parent then: it neither lends nor borrows"
		f.Fix = "Remove the parent of the one that is to be the top."
		l.fault(f)
	}
}

// circleOf returns the quotas from name up to itself; none where the parents end, or
// enter a cycle without name.
func circleOf(name string, parent map[string]string) []string {
	var way []string
	for at := name; at != "" && len(way) <= len(parent); at = parent[at] {
		if at == name && len(way) > 0 {
			return way
		}
		way = append(way, at)
	}
	return nil
}

// smallest part of a GPU of each model that pools and nodes have, as a share of the
// GPU. A model without MIG has whole GPUs only.
func (l *look) smallest() map[string]float64 {
	out := map[string]float64{}
	tables := l.tables()
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
	for _, p := range l.f.Pools {
		put(p.Spec.Template.Product)
	}
	for _, n := range l.f.Nodes {
		put(n.Labels[labelProduct])
	}
	return out
}

// annotationTable of a node is the MIG geometry its agent has read, a JSON list of
// mig.Spec lines.
const annotationTable = "gpuscale.io/mig-table"

// maxTable bounds the bytes read of an annotation.
const maxTable = 64 << 10

// tables are ours and those that nodes have published. One that cannot be read is left
// out: the autoscaler reports it.
func (l *look) tables() mig.Tables {
	var specs []mig.Spec
	seen := map[string]bool{}
	for _, n := range l.f.Nodes {
		text := n.Annotations[annotationTable]
		if text == "" || len(text) > maxTable || seen[text] {
			continue
		}
		seen[text] = true
		specs = append(specs, published(text)...)
	}
	tables, err := mig.NewTables(specs...)
	if err != nil {
		tables, _ = mig.NewTables()
	}
	return tables
}

// published reads the annotation; nothing where a line cannot be read.
func published(text string) []mig.Spec {
	var lines []string
	if json.Unmarshal([]byte(text), &lines) != nil {
		return nil
	}
	var specs []mig.Spec
	for _, line := range lines {
		s, err := mig.ParseSpec(line)
		if err != nil {
			return nil
		}
		if _, err := mig.NewTable(s); err != nil {
			return nil
		}
		specs = append(specs, s)
	}
	return specs
}

func quotaUnsatisfiable(l *look) {
	if !l.use(GPUQuotas) || !l.use(Pools) || !l.use(Nodes) {
		return
	}
	if len(l.f.GPUQuotas) == 0 {
		l.skip("there is no GPUQuota")
		return
	}
	smallest := l.smallest()
	for _, q := range l.f.GPUQuotas {
		if c := meta.FindStatusCondition(q.Status.Conditions, "Valid"); c != nil && c.Status == metav1.ConditionFalse && c.ObservedGeneration == q.Generation &&
			!strings.HasPrefix(c.Message, parentMessage) {
			l.fault(Finding{
				Object: "GPUQuota " + q.Name, Seen: fmt.Sprintf("Valid=False, %s: %s", c.Reason, c.Message),
				Means: "it applies only in part (docs/quotas.md)", Fix: "Correct what the message names.",
				Commands: []string{l.kubectl("get", "gpuquota", q.Name, "-o", "yaml")},
			})
			continue
		}
		for at, a := range q.Spec.Amounts {
			l.amount(q, at, a, smallest)
		}
	}
}

// amount checks one amount of a quota against the GPUs that exist.
func (l *look) amount(q *v1alpha1.GPUQuota, at int, a v1alpha1.QuotaAmount, smallest map[string]float64) {
	if len(smallest) == 0 || l.fractional() {
		return // no GPU to compare it with, or parts of GPUs of any size
	}
	field := fmt.Sprintf("spec.amounts[%d]", at)
	f := Finding{Object: "GPUQuota " + q.Name, Commands: []string{l.kubectl("get", "gpuquota", q.Name, "-o", "yaml")}}
	least, on := 0.0, "any GPU"
	if a.Model == v1alpha1.AnyModel || a.Model == "" {
		least = slices.Min(slices.Collect(maps.Values(smallest)))
	} else {
		name := gpu.ProductName(a.Model)
		share, there := smallest[name]
		if !there {
			f.Seen = fmt.Sprintf("%s.model is %s, and no pool and no node has such a GPU; there are %s", field, a.Model, named(slices.Sorted(maps.Keys(smallest))))
			f.Means = "its guarantee cannot be met, and pods that request that model are pending"
			f.Fix = "Name a model that a pool has, or make a pool of it."
			l.warn(f)
			return
		}
		least, on = share, name
	}
	if a.Limit == nil || a.Limit.Sign() == 0 { // 0 is intended: no pod may
		return
	}
	if limit := a.Limit.AsApproximateFloat64(); limit < least-1e-9 {
		f.Seen = fmt.Sprintf("%s.limit is %.3g, and the smallest part of %s is %.3g of a GPU", field, limit, on, least)
		f.Means = "no pod fits under it: its pods are pending forever"
		f.Fix = fmt.Sprintf("Raise the limit to at least %.3g, or to 0 to admit no pod.", least)
		l.fault(f)
	}
}

// fractional reports whether a node offers parts of GPUs as another resource.
func (l *look) fractional() bool {
	for _, n := range l.f.Nodes {
		for name, v := range n.Status.Allocatable {
			r := string(name)
			if v.Sign() <= 0 || r == "nvidia.com/gpu" || strings.HasPrefix(r, "nvidia.com/mig-") {
				continue
			}
			if d, err := demand.FromResources(map[string]int64{r: 1}); err == nil && !d.Zero() {
				return true
			}
		}
	}
	return false
}

// gpuResources are the NVIDIA resources that a pod requests, and how many.
func gpuResources(p *corev1.Pod) map[string]int64 {
	out := map[string]int64{}
	for _, c := range p.Spec.Containers {
		for name, q := range c.Resources.Limits {
			if r := string(name); r == "nvidia.com/gpu" || r == "nvidia.com/gpu.shared" || strings.HasPrefix(r, "nvidia.com/mig-") {
				out[r] += q.Value()
			}
		}
	}
	return out
}

func resourceQuotaNames(l *look) {
	if !l.use(ResourceQuotas) {
		return
	}
	pods := l.pods()
	asked := map[string]map[string]int64{}
	for _, p := range pods {
		for r, n := range gpuResources(p) {
			if asked[p.Namespace] == nil {
				asked[p.Namespace] = map[string]int64{}
			}
			asked[p.Namespace][r] += n
		}
	}
	counted := map[string]map[string]bool{} // of a namespace, by any of its quotas
	for _, q := range l.f.ResourceQuotas {
		for name := range q.Spec.Hard {
			if r, ok := strings.CutPrefix(string(name), "requests."); ok && strings.HasPrefix(r, "nvidia.com/") {
				if counted[q.Namespace] == nil {
					counted[q.Namespace] = map[string]bool{}
				}
				counted[q.Namespace][r] = true
			}
		}
	}
	if len(counted) == 0 {
		if l.has(ResourceQuotas) {
			l.skip("no ResourceQuota counts a GPU resource")
		}
		return
	}
	reported := map[string]bool{}
	for _, q := range l.f.ResourceQuotas {
		if reported[q.Namespace] || len(counted[q.Namespace]) == 0 || !countsGPUs(q) {
			continue
		}
		reported[q.Namespace] = true
		l.uncounted(q, asked[q.Namespace], counted[q.Namespace])
	}
}

func countsGPUs(q *corev1.ResourceQuota) bool {
	for name := range q.Spec.Hard {
		if strings.HasPrefix(string(name), "requests.nvidia.com/") {
			return true
		}
	}
	return false
}

// uncounted reports requests of a namespace's pods that no quota of it counts.
func (l *look) uncounted(q *corev1.ResourceQuota, asked map[string]int64, counted map[string]bool) {
	hard := map[string]string{}
	for r, n := range asked {
		if !counted[r] {
			hard["requests."+r] = fmt.Sprint(n)
		}
	}
	if len(hard) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(hard))
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"hard": hard}})
	if err != nil {
		return
	}
	l.warn(Finding{
		Object: "ResourceQuota " + q.Namespace + "/" + q.Name,
		Seen:   fmt.Sprintf("spec.hard has %s, and pods of the namespace request %s, which it lacks", named(slices.Sorted(maps.Keys(counted))), named(names)),
		Fix:    "Count those resources too (the command sets each to its use now), or put a GPUQuota over the namespace, which counts slices of GPUs under any name.",
		Commands: []string{
			l.patch(q.Namespace, "resourcequota", q.Name, string(patch)),
		},
	})
}
