package plan

import (
	"testing"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/quota"
	"github.com/gpuscale/gpuscale/internal/require"
)

// TestScaleCountsGPUsAlike: in every layout of every product the instances together count at most one GPU. The largest
// instance counts a whole GPU, and none counts nothing.
func TestScaleCountsGPUsAlike(t *testing.T) {
	device := quota.Amount{Compute: 7, Memory: 8}
	for _, name := range mig.Models() {
		table, _ := mig.ForModel(name)
		model, _ := gpu.ParseProduct(name)
		scale := NewScale(nil, []gpu.Model{model})
		one := func(p mig.Profile) quota.Amount {
			return scale.Instance(demand.Instances{Name: table.Name(p), Profile: mig.Profile{Compute: p.Compute, Attrs: p.Attrs}})
		}
		for _, p := range table.Profiles() {
			a := one(p)
			if a.Compute < 1 || a.Memory < 1 || p.Compute == table.ComputeSlices() && p.Memory == table.MemorySlices() && a != device {
				t.Errorf("%s: %s counts %s", name, table.Name(p), a)
			}
		}
		for _, l := range table.Maximal() {
			var all quota.Amount
			for _, p := range l {
				all = all.Add(one(p.Profile))
			}
			if !all.Fits(device) {
				t.Errorf("%s: %s counts %s, the GPU is %s", name, table.Format(l), all, device)
			}
		}
	}
}

func TestScaleAmounts(t *testing.T) {
	t4, a100 := gpu.Model{Name: "T4", MemoryMiB: 15360}, gpu.Model{Name: "A100-80GB", MemoryMiB: 81920}
	pro := gpu.Model{Name: "RTX-PRO-6000-Blackwell-96GB", MemoryMiB: 97887}
	mib := func(n int) demand.Demand { return demand.Demand{Fraction: &demand.Fraction{MemoryMiB: n, GPUs: 1}} }
	instance := func(name string) demand.Demand {
		d, err := demand.FromResources(map[string]int64{mig.ResourceName(name): 1})
		require.NoError(t, err)
		return d
	}
	for _, c := range []struct {
		what   string
		models []gpu.Model
		d      demand.Demand
		device int // MiB
		want   quota.Amount
	}{
		{"a part of the only GPU there is", []gpu.Model{t4}, mib(7680), 0, quota.Amount{Compute: 4, Memory: 4}},
		{"of the smallest that has as much", []gpu.Model{a100, t4}, mib(40960), 0, quota.Amount{Compute: 4, Memory: 4}},
		{"of the GPU it is on", []gpu.Model{a100, t4}, mib(7680), 81920, quota.Amount{Compute: 1, Memory: 1}},
		{"of no GPU that is known", nil, mib(40960), 0, quota.Amount{Compute: 4, Memory: 4}},
		{"more than any GPU has", []gpu.Model{t4}, mib(1 << 20), 0, quota.Amount{Compute: 7, Memory: 8}},
		{"a quarter of a GPU of four slices", []gpu.Model{pro}, instance("1g.24gb"), 0, quota.Amount{Compute: 1, Memory: 2}},
		{"half of it", []gpu.Model{pro}, instance("2g.48gb+gfx"), 0, quota.Amount{Compute: 3, Memory: 4}},
		{"the same name on another GPU", []gpu.Model{{Name: "H20"}}, instance("1g.24gb"), 0, quota.Amount{Compute: 1, Memory: 2}},
		{"of a GPU that is not here, by its name", []gpu.Model{t4}, instance("2g.12gb"), 0, quota.Amount{Compute: 2, Memory: 2}},
		{"a profile of no product", []gpu.Model{t4}, instance("3g.999gb"), 0, quota.Amount{Compute: 3, Memory: 4}},
	} {
		if got := NewScale(nil, c.models).Amount(&c.d, c.device); got != c.want {
			t.Errorf("%s: %s counts %s, want %s", c.what, c.d, got, c.want)
		}
	}
}
