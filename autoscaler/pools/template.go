package pools

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// mostOfANode bounds CPU and memory of a node, in bytes; it fits an int64 in thousandths too.
const mostOfANode = 1 << 52

func ofNoNode(q resource.Quantity) bool {
	return q.Sign() < 0 || q.AsApproximateFloat64() > mostOfANode
}

// Template describes a new node of a pool: by the pool's own template, with the GPU labels that the node will have,
// completed by the provider's description in l. tables are those that nodes have published for products that are not
// built in. The error names the wrong field.
func Template(pool *v1alpha1.GPUNodePool, tables mig.Tables, l Listing) (plan.Template, error) {
	t, err := templateOf(pool, tables)
	if err != nil {
		return t, err
	}
	if l.described != nil {
		complete(&t, l.described)
	}
	defaults := map[string]string{corev1.LabelOSStable: "linux", corev1.LabelArchStable: archOf(t.GPUs)}
	if t.Labels[partition.CapableLabel] == "true" {
		defaults[partition.StrategyLabel] = "mixed"
	}
	for key, value := range defaults {
		if _, stated := t.Labels[key]; !stated {
			t.Labels[key] = value
		}
	}
	return t, nil
}

// archOf is the architecture of most machines with such GPUs, until a pool's nodes show theirs.
func archOf(gpus []plan.GPU) string {
	for _, g := range gpus {
		if strings.HasPrefix(g.Model.Name, "GH") || strings.HasPrefix(g.Model.Name, "GB") { // beside Grace CPUs
			return "arm64"
		}
	}
	return "amd64"
}

// complete adds labels, taints and other resources of the provider's node that the pool's own template does not set.
// CPU, memory and GPUs are the template's. The hostname is left out, since each node has its own.
func complete(t *plan.Template, described *corev1.Node) {
	for k, v := range described.Labels {
		if _, set := t.Labels[k]; !set && k != corev1.LabelHostname {
			t.Labels[k] = v
		}
	}
	for _, taint := range described.Spec.Taints {
		as := plan.Taint{Key: taint.Key, Value: taint.Value, Effect: string(taint.Effect)}
		if !PassingTaint(as.Key) && !slices.ContainsFunc(t.Taints, func(have plan.Taint) bool { return have.Key == as.Key && have.Effect == as.Effect }) {
			t.Taints = append(t.Taints, as)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(described.Status.Allocatable)) {
		q, as := described.Status.Allocatable[name], plan.Resource{Name: string(name)}
		counted := strings.Contains(as.Name, "/") && !strings.HasPrefix(as.Name, "nvidia.com/") || strings.HasPrefix(as.Name, corev1.ResourceHugePagesPrefix) ||
			name == corev1.ResourcePods || name == corev1.ResourceEphemeralStorage
		if counted && q.Sign() > 0 && !slices.ContainsFunc(t.Others, func(have plan.Resource) bool { return have.Name == as.Name }) {
			as.Amount = q.Value()
			t.Others = append(t.Others, as)
		}
	}
}

// passingTaints are prefixes of the keys of taints that a new node does not have: those of node conditions, of nodes
// that are being removed, and of nodes that their cloud, medik8s (51f603e) or NVSentinel (3b7f639) repairs or
// interrupts.
var passingTaints = []string{
	"node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "status-taint.cluster-autoscaler.kubernetes.io/", "ToBeDeletedBy", "DeletionCandidateOf", "karpenter.sh/",
	"aws-node-termination-handler/", "NodeWithImpairedVolumes", "cloud.google.com/impending-node-termination", "remediator.kubernetes.azure.com/",
	"remediation.medik8s.io/", "nvsentinel.dgxc.nvidia.com/",
}

// PassingTaint reports whether taints with this key pass: a new node does not have them.
func PassingTaint(key string) bool {
	return slices.ContainsFunc(passingTaints, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

func templateOf(pool *v1alpha1.GPUNodePool, tables mig.Tables) (plan.Template, error) {
	spec := pool.Spec.Template
	model, ok := tables.Model(spec.Product, 0)
	if !ok {
		return plan.Template{}, fmt.Errorf("spec.template.product: %q is an unknown product, and no node has published its MIG table", spec.Product)
	}
	switch {
	case ofNoNode(spec.CPU):
		return plan.Template{}, fmt.Errorf("spec.template.cpu: no node has %s", &spec.CPU)
	case ofNoNode(spec.Memory):
		return plan.Template{}, fmt.Errorf("spec.template.memory: no node has %s", &spec.Memory)
	}
	gpus, err := gpusOf(pool, model, tables)
	if err != nil {
		return plan.Template{}, err
	}
	t := plan.Template{
		Labels:   maps.Clone(spec.Labels),
		CPUMilli: spec.CPU.MilliValue(),
		MemoryMi: spec.Memory.Value() >> 20,
		GPUs:     gpus,
	}
	if t.Labels == nil {
		t.Labels = map[string]string{}
	}
	for _, taint := range spec.Taints {
		t.Taints = append(t.Taints, plan.Taint(taint))
	}
	t.Labels[v1alpha1.NodePoolLabel] = pool.Name
	if t.Others, err = othersOf(spec.Resources); err != nil {
		return plan.Template{}, err
	}
	if model.Vendor != "nvidia" {
		if spec.Sharing != nil {
			return plan.Template{}, fmt.Errorf("spec.template.sharing: is for GPUs of NVIDIA, not of %s", model.Vendor)
		}
		return t, nil
	}
	t.Labels[partition.PresentLabel] = "true"
	t.Labels[partition.ProductLabel] = spec.Product
	t.Labels[partition.CountLabel] = strconv.Itoa(int(spec.GPUs))
	if err := shareTemplate(&t, model, spec.Sharing); err != nil {
		return plan.Template{}, err
	}
	if model.MemoryMiB > 0 {
		t.Labels[partition.MemoryLabel] = strconv.Itoa(model.MemoryMiB)
	}
	if _, ok := tables.ForModel(model.Name); ok {
		t.Labels[partition.CapableLabel] = "true"
	} else {
		t.Labels[partition.CapableLabel] = "false"
	}
	return t, nil
}

// othersOf returns the resources of a template that are no GPUs.
func othersOf(list corev1.ResourceList) ([]plan.Resource, error) {
	var out []plan.Resource
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q := list[name]
		_, divided := demand.Counted(string(name), 0)
		d, err := demand.FromResources(map[string]int64{string(name): 1})
		switch {
		case divided || err != nil || !d.Zero() || name == corev1.ResourceCPU || name == corev1.ResourceMemory:
			return nil, fmt.Errorf("spec.template.resources: %s is given by the template's other fields; remove it", name)
		case ofNoNode(q):
			return nil, fmt.Errorf("spec.template.resources: no node has %s of %s", q.String(), name)
		}
		out = append(out, plan.Resource{Name: string(name), Amount: q.Value()})
	}
	return out, nil
}

// shareTemplate changes a template to GPUs that the device plugin shares: each replica counts as a GPU
// under the name of whole GPUs, and as a share under a name of its own. GFD's labels are those of
// k8s-device-plugin v0.17 (internal/lm/resource.go).
func shareTemplate(t *plan.Template, model gpu.Model, sharing *v1alpha1.GPUSharing) error {
	if sharing == nil {
		return nil
	}
	if strategy := cmp.Or(sharing.Strategy, "time-slicing"); strategy != "time-slicing" && strategy != "mps" {
		return divideTemplate(t, model, strategy)
	}
	t.Labels[partition.ReplicasLabel] = strconv.Itoa(int(sharing.Replicas))
	t.Labels[partition.SharingLabel] = cmp.Or(sharing.Strategy, "time-slicing")
	if sharing.RenameByDefault {
		for i := range t.GPUs {
			t.GPUs[i].Shared = true
		}
		t.Others = append(t.Others, plan.Resource{Name: partition.SharedResource, Amount: int64(len(t.GPUs)) * int64(sharing.Replicas)})
		return nil
	}
	if product := t.Labels[partition.ProductLabel]; !strings.HasSuffix(product, partition.SharedSuffix) {
		t.Labels[partition.ProductLabel] = product + partition.SharedSuffix
	}
	t.GPUs = slices.Repeat(t.GPUs, int(sharing.Replicas))
	for i := range t.GPUs {
		t.GPUs[i].Index = i
	}
	return nil
}

// divideTemplate changes a template to GPUs that another project's scheduler divides.
func divideTemplate(t *plan.Template, model gpu.Model, dialect string) error {
	d, err := demand.Divide(dialect, len(t.GPUs), model.MemoryMiB)
	if err != nil {
		return fmt.Errorf("spec.template.sharing.strategy: %w", err)
	}
	for i := range t.GPUs {
		t.GPUs[i].Shared, t.GPUs[i].Places = !d.Whole, d.Places
	}
	for _, name := range slices.Sorted(maps.Keys(d.Offers)) {
		t.Others = append(t.Others, plan.Resource{Name: name, Amount: d.Offers[name]})
	}
	return nil
}

// gpusOf returns the GPUs of a new node with their boot layout.
func gpusOf(pool *v1alpha1.GPUNodePool, model gpu.Model, tables mig.Tables) ([]plan.GPU, error) {
	n := int(pool.Spec.Template.GPUs)
	gpus := make([]plan.GPU, n)
	for i := range gpus {
		gpus[i] = plan.GPU{Device: gpu.Device{Index: i, Model: model, Health: gpu.Healthy}, AllocationKnown: true}
	}
	if pool.Spec.MIG == nil || len(pool.Spec.MIG.BootLayout) == 0 {
		return gpus, nil
	}
	if pool.Spec.Template.Sharing != nil {
		return nil, errors.New("spec.template.sharing: a GPU with a spec.mig.bootLayout cannot be shared")
	}
	boot := pool.Spec.MIG.BootLayout
	if len(boot) != 1 && len(boot) != n {
		return nil, fmt.Errorf("spec.mig.bootLayout: %d entries for %d GPUs, want 1 or %d", len(boot), n, n)
	}
	table, ok := tables.ForModel(model.Name)
	if !ok {
		return nil, fmt.Errorf("spec.mig.bootLayout: %s has no MIG", model.Name)
	}
	for i := range gpus {
		at := i % len(boot)
		layout, err := arrange(table, boot[at])
		if err != nil {
			return nil, fmt.Errorf("spec.mig.bootLayout[%d]: %w", at, err)
		}
		gpus[i].MIG = true
		for _, p := range layout {
			gpus[i].Instances = append(gpus[i].Instances, plan.Instance{Placement: p, Placed: true})
		}
	}
	return gpus, nil
}

func arrange(table *mig.Table, counts map[string]int32) (mig.Layout, error) {
	var want []mig.Count
	for name, n := range counts {
		p, ok := table.Exact(name)
		if !ok {
			return nil, fmt.Errorf("%q is not a profile of %s", name, table.Model())
		}
		if n < 0 {
			return nil, fmt.Errorf("%s: %d instances", name, n)
		}
		want = append(want, mig.Count{Profile: p, N: int(n)})
	}
	layout, ok := table.Arrange(nil, want)
	if !ok {
		return nil, fmt.Errorf("no GPU of %s can have this layout", table.Model())
	}
	return layout, nil
}
