package node

import (
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/require"
)

func TestIdentitiesAreStableAndUnique(t *testing.T) {
	table, _ := mig.ForModel("H100-80GB")
	layout, err := mig.ParseLayout(table, "3g@0 2g@4 1g@6")
	require.NoError(t, err)
	spec := Spec{Name: "a", Product: "NVIDIA-H100-80GB-HBM3", GPUs: 4, Layouts: []mig.Layout{layout}}
	seen := map[string]bool{}
	m, err := New(spec, time.Time{})
	require.NoError(t, err)
	again, _ := New(spec, time.Time{})
	for i, c := range m.GPUs() {
		for _, id := range append([]string{c.UUID, c.PCIBusID}, c.Instances[0].UUID, c.Instances[1].UUID, c.Instances[2].UUID) {
			if seen[id] {
				t.Errorf("%s is there twice", id)
			}
			seen[id] = true
		}
		if again.GPUs()[i].UUID != c.UUID {
			t.Error("the same machine has other GPUs the next time")
		}
	}
}

func TestEveryLegalLayoutHasUniqueInstanceIDs(t *testing.T) {
	table, _ := mig.ForModel("H100-80GB")
	for _, l := range table.Maximal() {
		seen := map[int]bool{}
		for _, p := range l {
			if id := instanceID(p); seen[id] {
				t.Errorf("%s: instance id %d twice", l, id)
			} else {
				seen[id] = true
			}
		}
	}
}

func TestNewRefusesNonsense(t *testing.T) {
	table, _ := mig.ForModel("H100-80GB")
	layout, _ := mig.ParseLayout(table, "3g@0")
	for name, s := range map[string]Spec{
		"unknown product": {Product: "Voodoo 2", GPUs: 1},
		"no GPUs":         {Product: "NVIDIA-L40S"},
		"MIG on an L40S":  {Product: "NVIDIA-L40S", GPUs: 1, Layouts: []mig.Layout{layout}},
		"too few layouts": {Product: "NVIDIA-H100-80GB-HBM3", GPUs: 3, Layouts: []mig.Layout{layout, layout}},
	} {
		if _, err := New(s, time.Time{}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
