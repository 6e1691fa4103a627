package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// TestTidyKeepsEveryInstance adds an instance to every layout of a product that
// lacks one, and removes none.
func TestTidyKeepsEveryInstance(t *testing.T) {
	for _, model := range []string{"A30-24GB", "H100-80GB"} {
		table, ok := mig.ForModel(model)
		if !ok {
			t.Fatal(model)
		}
		tried := 0
		for _, whole := range table.Maximal() {
			for i := range whole {
				part := slices.Delete(slices.Clone(whole), i, i+1)
				made := Make(strandedGPU(table, part), DefaultPolicy())
				if len(made.Actions) != 1 {
					t.Fatalf("%s %s: want one action\n%s", model, table.Format(part), made)
				}
				a := made.Actions[0]
				if a.Verb != Repartition || a.Reason != GPUStranded || len(table.Free(a.Target)) > 0 || table.Legal(a.Target) != nil {
					t.Fatalf("%s %s: %s", model, table.Format(part), a)
				}
				for _, p := range part {
					if !slices.Contains(a.Target, p) {
						t.Fatalf("%s %s is destroyed: %s", model, table.Format(part), a)
					}
				}
				tried++
			}
		}
		if tried == 0 {
			t.Errorf("%s: nothing tried", model)
		}
	}
}

// strandedGPU is a GPU whose first instance is allocated, in a pool where that
// may stay, beside pods elsewhere that run on each of the model's profiles.
func strandedGPU(table *mig.Table, l mig.Layout) Snapshot {
	s := Snapshot{Now: noon, Pools: []Pool{{Name: "p", Min: 1, Max: 1, Size: 1, Target: 1, MIG: PoolMIG{Repartition: true, KeepsBusy: true}}}}
	c := GPU{Device: gpu.Device{Model: gpu.Model{Name: table.Model()}}, MIG: true, AllocationKnown: true, IdleSince: noon.Add(-time.Hour)}
	c.Instances = instances(l, "a/p")
	s.Nodes = []Node{{Name: "n", Pool: "p", Ready: true, GPUs: []GPU{c}}}
	for _, p := range table.Profiles() {
		name := table.Name(p)
		s.Pods = append(s.Pods, Pod{Namespace: "b", Name: fmt.Sprint(p.Compute, p.Memory, p.Attrs), Node: "elsewhere",
			Demand: demand.Demand{MIG: []demand.Instances{{Name: name, Count: 1}}}})
	}
	return s
}
