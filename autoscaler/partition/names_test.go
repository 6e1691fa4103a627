package partition

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// TestOffers: the driver's rounding of a profile's name does not matter; the number of instances
// does.
func TestOffers(t *testing.T) {
	for name, test := range map[string]struct {
		a, b map[string]int64
		same bool
	}{
		"equal":           {map[string]int64{"nvidia.com/mig-3g.40gb": 2}, map[string]int64{"nvidia.com/mig-3g.40gb": 2}, true},
		"rounded":         {map[string]int64{"nvidia.com/mig-3g.39gb": 2}, map[string]int64{"nvidia.com/mig-3g.40gb": 2}, true},
		"fewer":           {map[string]int64{"nvidia.com/mig-3g.39gb": 1}, map[string]int64{"nvidia.com/mig-3g.40gb": 2}, false},
		"another size":    {map[string]int64{"nvidia.com/mig-1g.20gb": 2}, map[string]int64{"nvidia.com/mig-1g.10gb": 2}, false},
		"with attributes": {map[string]int64{"nvidia.com/mig-1g.10gb.me": 1}, map[string]int64{"nvidia.com/mig-1g.10gb": 1}, false},
		"one more kind":   {map[string]int64{"nvidia.com/gpu": 1}, map[string]int64{"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 1}, false},
		"nothing":         {nil, map[string]int64{}, true},
	} {
		if SameOffer(test.a, test.b) != test.same || SameOffer(test.b, test.a) != test.same {
			t.Errorf("%s: want %v both ways", name, test.same)
		}
	}
	n, r := agentNode()
	n.Annotations[contract.AgentAnnotation] = contract.Answer{ID: r.ID, State: contract.AgentDone}.String()
	offer(n, "nvidia.com/mig-3g.39gb")
	if op := OperationOf(n); op.Phase != "succeeded" {
		t.Errorf("an older driver's name: %+v", op)
	}
}

// offering is a node with GPUs of some memory ("" for no label) that advertises these profiles.
func offering(memory string, profiles map[string]string) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{}, Annotations: map[string]string{}},
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{}},
	}
	if memory != "" {
		node.Labels[MemoryLabel] = memory
	}
	for name, n := range profiles {
		node.Status.Allocatable[corev1.ResourceName(mig.ResourceName(name))] = resource.MustParse(n)
	}
	return node
}

// TestNamesAreTheNodes: the layouts of all GPUs have the names that the node advertises, and a
// profile that it does not offer has a name only if that is certain.
func TestNamesAreTheNodes(t *testing.T) {
	for name, test := range map[string]struct {
		model, memory string
		offered       map[string]string
		own           string // the node's mig-table
		busy, target  string // layouts of GPU 0, and for GPU 1
		want          map[string]int
		why           string // of a refusal
	}{
		"the other GPU keeps an advertised alias": {
			model: "GB200-186GB", offered: map[string]string{"3g.95gb": "2", "1g.24gb": "7"}, busy: "3g@0 3g@4", target: "3g@0",
			want: map[string]int{"3g.95gb": 1},
		},
		"attributes": {
			model: "H100-80GB", offered: map[string]string{"1g.10gb+me": "1", "1g.10gb": "6"}, busy: "1g.10gb+me@0", target: "1g.10gb+me@0 1g@1",
			want: map[string]int{"1g.10gb+me": 1, "1g.10gb": 1},
		},
		"two names of one profile": {
			model: "GB200-186GB", offered: map[string]string{"3g.95gb": "1", "3g.93gb": "1"}, busy: "3g@0", target: "empty",
			why: "3g.93gb and 3g.95gb",
		},
		"a vanished name is none": {
			model: "GB200-186GB", offered: map[string]string{"3g.95gb": "1", "3g.93gb": "0"}, busy: "3g@0", target: "3g@0 3g@4",
			want: map[string]int{"3g.95gb": 2},
		},
		"one of two names, not offered": {
			model: "GB200-186GB", offered: map[string]string{"1g.24gb": "1"}, busy: "1g@0", target: "3g@0",
			why: "no label " + MemoryLabel,
		},
		"the memory decides": {
			model: "GB200-186GB", memory: "193536", offered: map[string]string{"1g.24gb": "1"}, busy: "1g@0", target: "3g@0",
			want: map[string]int{"3g.95gb": 1},
		},
		"the memory contradicts the offer": {
			model: "GB200-186GB", memory: "189471", offered: map[string]string{"1g.24gb": "1"}, busy: "1g@0", target: "3g@0",
			why: "its memory gives 1g.23gb",
		},
		"the memory gives a name that the product has not": {
			model: "H100-80GB", memory: "90112", offered: nil, busy: "empty", target: "3g@0",
			why: "its memory gives 3g.44gb",
		},
		"the only name": {
			model: "H100-80GB", offered: map[string]string{"1g.10gb": "1"}, busy: "1g@0", target: "3g@0",
			want: map[string]int{"3g.40gb": 1},
		},
		"the only name beside an unknown one": {
			model: "H100-80GB", offered: map[string]string{"1g.11gb": "1"}, busy: "1g@0", target: "3g@0",
			why: "no label " + MemoryLabel,
		},
		"the node's agent": {
			model: "GB200-186GB", offered: map[string]string{"1g.24gb": "1"}, busy: "1g@0", target: "3g@0",
			own:  `["GB200-186GB 7 8 189471 0 1g.24gb:0,1,2,3,4,5,6:1:7 3g.95gb:0,4:4:2 7g.189gb:0:8:1"]`,
			want: map[string]int{"3g.95gb": 1},
		},
		"an agent of an earlier driver": {
			model: "GB200-186GB", offered: map[string]string{"1g.23gb": "1"}, busy: "1g@0", target: "3g@0",
			own: `["GB200-186GB 7 8 189471 0 1g.24gb:0,1,2,3,4,5,6:1:7 3g.95gb:0,4:4:2 7g.189gb:0:8:1"]`,
			why: "no label " + MemoryLabel,
		},
	} {
		t.Run(name, func(t *testing.T) {
			node := offering(test.memory, test.offered)
			if test.own != "" {
				node.Annotations[contract.TableAnnotation] = test.own
			}
			names := NamesOn(node)
			product, _ := gpu.ParseProduct(test.model)
			table, _ := mig.ForModel(test.model)
			parse := func(text string) mig.Layout {
				l, err := mig.ParseLayout(table, text)
				if err != nil {
					t.Fatal(err)
				}
				return l
			}
			var after NodeLayout
			before, err := names.LayoutOf(nil, []plan.GPU{ofLayout(0, product, parse(test.busy)), ofLayout(1, product, nil)})
			if err == nil {
				for profile := range before[0].Counts {
					if test.offered[profile] == "" {
						t.Errorf("the busy GPU has %s, the node offers %v", profile, test.offered)
					}
				}
				after, err = before.With(nil, names, 1, test.model, parse(test.target))
			}
			if test.why != "" {
				if err == nil || !strings.Contains(err.Error(), test.why) {
					t.Errorf("%v, %v: want %q", after, err, test.why)
				}
				return
			}
			if err != nil || !maps.Equal(after[1].Counts, test.want) {
				t.Errorf("%v, %v: want %v", after, err, test.want)
			}
		})
	}
}

// TestMemoryGivesTheNames: for each product the derived names are the table's.
func TestMemoryGivesTheNames(t *testing.T) {
	for _, model := range mig.Models() {
		table, _ := mig.ForModel(model)
		memory := table.Spec().MemoryMiB
		if memory == 0 {
			t.Errorf("%s: no memory", model)
		}
		names := NamesOn(offering(strconv.Itoa(memory), nil))
		for _, p := range table.Profiles() {
			if name, err := names.of(table, p); err != nil || name != table.Name(p) {
				t.Errorf("%s: %s, %v: want %s", model, name, err, table.Name(p))
			}
		}
	}
}

func ofLayout(index int, model gpu.Model, l mig.Layout) plan.GPU {
	c := plan.GPU{Device: gpu.Device{Index: index, Model: model}, AllocationKnown: true, MIG: true}
	for _, p := range slices.Backward(l) {
		c.Instances = append(c.Instances, plan.Instance{Placement: p, Placed: true})
	}
	return c
}
