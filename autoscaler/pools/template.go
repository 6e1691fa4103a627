package pools

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// GFD's node labels, which the template gives to a node in advance.
const (
	labelPresent    = "nvidia.com/gpu.present"
	labelProduct    = "nvidia.com/gpu.product"
	labelCount      = "nvidia.com/gpu.count"
	labelMemory     = "nvidia.com/gpu.memory"
	labelMIGCapable = "nvidia.com/mig.capable"
	labelStrategy   = "nvidia.com/mig.strategy"
)

// mostOfANode is more CPU or memory, in bytes, than any node has, and still one number
// in thousandths.
const mostOfANode = 1 << 52

// templateOf turns a pool's template into the planner's, with GPU labels as the
// node will have them; tables are what nodes have published of products that
// nobody else knows. The error names the field that is wrong.
func templateOf(pool *v1alpha1.GPUNodePool, tables mig.Tables) (plan.Template, error) {
	spec := pool.Spec.Template
	model, ok := tables.Model(spec.Product, 0)
	if !ok {
		return plan.Template{}, fmt.Errorf("spec.template.product: %q is no product we know, and no node has published its MIG table", spec.Product)
	}
	for _, f := range []struct {
		name string
		q    *resource.Quantity
	}{{"cpu", &spec.CPU}, {"memory", &spec.Memory}} {
		if f.q.Sign() < 0 || f.q.AsApproximateFloat64() > mostOfANode {
			return plan.Template{}, fmt.Errorf("spec.template.%s: no node has %s", f.name, f.q)
		}
	}
	cards, err := cardsOf(pool, model, tables)
	if err != nil {
		return plan.Template{}, err
	}
	t := plan.Template{
		Labels:   map[string]string{},
		CPUMilli: spec.CPU.MilliValue(),
		MemoryMi: spec.Memory.Value() >> 20,
		Cards:    cards,
	}
	for key, value := range spec.Labels {
		t.Labels[key] = value
	}
	for _, taint := range spec.Taints {
		t.Taints = append(t.Taints, plan.Taint{Key: taint.Key, Value: taint.Value, Effect: taint.Effect})
	}
	t.Labels[v1alpha1.NodePoolLabel] = pool.Name
	t.Labels[labelPresent] = "true"
	t.Labels[labelProduct] = spec.Product
	t.Labels[labelCount] = strconv.Itoa(len(cards))
	if model.MemoryMiB > 0 {
		t.Labels[labelMemory] = strconv.Itoa(model.MemoryMiB)
	}
	if _, ok := tables.ForModel(model.Name); ok {
		t.Labels[labelMIGCapable] = "true"
		t.Labels[labelStrategy] = "mixed"
	} else {
		t.Labels[labelMIGCapable] = "false"
	}
	return t, nil
}

// cardsOf returns the cards of a new node with the layout they boot with.
func cardsOf(pool *v1alpha1.GPUNodePool, model gpu.Model, tables mig.Tables) ([]plan.Card, error) {
	n := int(pool.Spec.Template.Cards)
	cards := make([]plan.Card, n)
	for i := range cards {
		cards[i] = plan.Card{Device: gpu.Device{Index: i, Model: model, Health: gpu.Healthy}, HoldersKnown: true}
	}
	if pool.Spec.MIG == nil || len(pool.Spec.MIG.BootLayout) == 0 {
		return cards, nil
	}
	boot := pool.Spec.MIG.BootLayout
	if len(boot) != 1 && len(boot) != n {
		return nil, fmt.Errorf("spec.mig.bootLayout: %d entries for %d cards, want 1 or %d", len(boot), n, n)
	}
	table, ok := tables.ForModel(model.Name)
	if !ok {
		return nil, fmt.Errorf("spec.mig.bootLayout: %s has no MIG", model.Name)
	}
	for i := range cards {
		at := i % len(boot)
		layout, err := arrange(table, boot[at])
		if err != nil {
			return nil, fmt.Errorf("spec.mig.bootLayout[%d]: %w", at, err)
		}
		cards[i].MIG = true
		for _, p := range layout {
			cards[i].Instances = append(cards[i].Instances, plan.Instance{Placement: p, Placed: true})
		}
	}
	return cards, nil
}

func arrange(table *mig.Table, counts map[string]int32) (mig.Layout, error) {
	var want []mig.Count
	for name, n := range counts {
		p, ok := table.Exact(name)
		if !ok {
			return nil, fmt.Errorf("%q is no profile of %s", name, table.Model())
		}
		if n < 0 {
			return nil, fmt.Errorf("%s: %d instances", name, n)
		}
		want = append(want, mig.Count{Profile: p, N: int(n)})
	}
	layout, ok := table.Arrange(nil, want)
	if !ok {
		return nil, fmt.Errorf("no card of %s can hold this", table.Model())
	}
	return layout, nil
}

// layoutOf is partition.LayoutOf for a template, nil where no card is in MIG
// mode: such nodes need no config.
func layoutOf(tables mig.Tables, t plan.Template) (partition.NodeLayout, error) {
	for _, c := range t.Cards {
		if c.MIG {
			return partition.LayoutOf(tables, t.Cards)
		}
	}
	return nil, nil
}
