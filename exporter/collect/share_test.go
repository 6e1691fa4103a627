package collect

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/gpuscale/gpuscale/exporter/collect/counters"
)

// virtual is a compiler in virtual GPUs mode, with each quantity once.
func virtual() *Compiler {
	return NewCompiler(Options{Node: "n", Interval: time.Second, Compat: CompatOptions{
		Mode: CompatOnce, VirtualGPUs: true, Counters: []counters.Field{
			{ID: fieldGPUUtil, Name: "DCGM_FI_DEV_GPU_UTIL", Kind: counters.Gauge},
			{ID: fieldFBUsed, Name: "DCGM_FI_DEV_FB_USED", Kind: counters.Gauge},
			{ID: fieldPowerWatts, Name: "DCGM_FI_DEV_POWER_USAGE", Kind: counters.Gauge},
		},
	}})
}

func sharedGPU(busy, usedMiB, watts float64) Entity {
	return Entity{Kind: GPU, UUID: "GPU-a", Model: "L40S", Values: []Value{
		{Field: fieldPowerWatts, Number: watts, Time: start}, {Field: fieldGPUUtil, Number: 100 * busy, Time: start},
		{Field: fieldFBUsed, Number: usedMiB, Time: start},
	}}
}

// sums returns a family's sum over all its series and over those of pods.
func sums(f *dto.MetricFamily) (all, ofPods float64) {
	for _, m := range f.GetMetric() {
		v := m.GetGauge().GetValue() + m.GetUntyped().GetValue()
		all += v
		if labelOf(m, "pod") != "" {
			ofPods += v
		}
	}
	return all, ofPods
}

// Whatever the driver reports of processes, the sum over pods never exceeds the GPU, and the sum over all series is the
// GPU.
func TestPartsNeverExceedTheGPU(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	measured := func(scale float64) Value {
		switch random.IntN(4) {
		case 0:
			return Value{}
		case 1:
			return Value{Number: 0, Time: start}
		}
		return Value{Number: random.Float64() * scale, Time: start}
	}
	names := []string{"a", "b", "c", "d", "e"}
	for range 300 {
		busy, usedMiB := random.Float64(), math.Floor(random.Float64()*10000)
		a := Attribution{Taken: start, Allocations: make([][]Allocated, 1)}
		for _, name := range names[:random.IntN(len(names)+1)] {
			a.Allocations[0] = append(a.Allocations[0], pod(name, Allocated{Shares: []string{name}, Busy: measured(1.2), Memory: measured(1.2 * usedMiB * mebibyte)}))
		}
		page := virtual().Compile(&Reading{Taken: start, Entities: []Entity{sharedGPU(busy, usedMiB, 300)}}, a)
		families := parsed(t, page, start)
		for name, device := range map[string]float64{
			"gpu_share_ratio": busy, "gpu_memory_used_bytes": usedMiB * mebibyte, "gpu_power_watts": 300,
			"DCGM_FI_DEV_GPU_UTIL": 100 * busy, "DCGM_FI_DEV_FB_USED": usedMiB, "DCGM_FI_DEV_POWER_USAGE": 300,
		} {
			all, ofPods := sums(families[name])
			if math.Abs(all-device) > 1e-6*max(1, device) || ofPods > device*(1+1e-9) {
				t.Fatalf("%s: series sum to %v, those of pods to %v, the GPU has %v\n%s", name, all, ofPods, device, text(page, start))
			}
		}
	}
}

func pod(name string, a Allocated) Allocated {
	a.Allocation = Allocation{"ns", name, "c"}
	return a
}

// The containers of one pod are idle together where the driver does not measure them separately.
func TestIdleOfAPodsContainers(t *testing.T) {
	const pods = `gpu_idle_seconds{node="n",gpu="0",gpu_uuid="GPU-a",namespace="ns",pod="p"`
	for _, apart := range []bool{false, true} {
		c, got := virtual(), ""
		for i := range 3 {
			at := start.Add(time.Duration(i) * time.Second)
			main, gpu := pod("p", Allocated{}), sharedGPU(0, 1000, 300)
			for k := range gpu.Values {
				gpu.Values[k].Time = at
			}
			side := main
			side.Container = "side"
			if apart {
				main.Busy = Value{Number: 0, Time: at}
			}
			got = text(c.Compile(&Reading{Taken: at, Entities: []Entity{gpu}}, Attribution{Taken: at, Allocations: [][]Allocated{{main, side}}}), at)
		}
		want := map[bool]string{false: pods + "} 2\n", true: pods + `,container="c"} 2` + "\n"}[apart]
		if !strings.Contains(got, want) || strings.Count(got, pods) != 1 {
			t.Errorf("want only %s:\n%s", want, got)
		}
	}
}

// Two containers of one pod have the claim, so the GPU's values are the pod's.
func TestClaimLabels(t *testing.T) {
	r := &Reading{Taken: start, Entities: []Entity{sharedGPU(0.5, 1000, 300)}}
	main := pod("p", Allocated{Claim: Claim{Name: "claim", Namespace: "ns", Driver: "gpu.nvidia.com", Pool: "n", Device: "gpu-0"}})
	side := main
	side.Container = "side"
	got := text(virtual().Compile(r, Attribution{Taken: start, Allocations: [][]Allocated{{main, side}}}), start)
	for _, want := range []string{
		`",namespace="ns",pod="p",dra_claim_name="claim",dra_claim_namespace="ns",dra_driver_name="gpu.nvidia.com",dra_pool_name="n",dra_device_name="gpu-0"} 300`,
		`gpu_share_ratio{node="n",gpu="0",gpu_uuid="GPU-a",model="L40S",namespace="ns",pod="p"} 0.5`,
	} {
		if !strings.Contains(got, want) || strings.Contains(got, "dra_mig") {
			t.Errorf("lacks %s:\n%s", want, got)
		}
	}
	if strings.Contains(got[strings.Index(got, "gpu_held{"):strings.Index(got, "DCGM_")], "dra_") {
		t.Error("our own series carry DCGM's labels")
	}
}
