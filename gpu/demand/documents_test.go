package demand

import (
	"reflect"
	"testing"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// container is one container's resources.
type container = map[string]int64

func fraction(f Fraction) *Fraction { return &f }

func instances(name string, compute, gb, n int, attrs mig.Attr) Instances {
	return Instances{Name: name, Profile: mig.Profile{Compute: compute, Attrs: attrs}, MemoryGB: gb, Count: n}
}

// TestVendorsOwnExamples has each dialect's documented examples, and the Demand
// they are. Containers of a pod run side by side.
func TestVendorsOwnExamples(t *testing.T) {
	for _, c := range []struct {
		document string
		pod      []container
		want     Demand
	}{
		// NVIDIA.
		{"k8s-device-plugin README, running GPU jobs; MPS and the single strategy keep the name of the GPU",
			[]container{{"nvidia.com/gpu": 1}}, Demand{GPUs: 1, Vendor: "nvidia"}},
		{"k8s-device-plugin README, time-slicing with renameByDefault",
			[]container{{"nvidia.com/gpu.shared": 1}}, Demand{Vendor: "nvidia", Fraction: fraction(Fraction{GPUs: 1})}},
		{"MIG Support in Kubernetes, mixed strategy",
			[]container{{"nvidia.com/mig-1g.5gb": 1}}, Demand{MIG: []Instances{instances("1g.5gb", 1, 5, 1, 0)}}},
		{"MIG Support in Kubernetes, mixed strategy, three sizes",
			[]container{{"nvidia.com/mig-1g.5gb": 1}, {"nvidia.com/mig-2g.10gb": 1}, {"nvidia.com/mig-3g.20gb": 1}}, Demand{MIG: []Instances{instances("1g.5gb", 1, 5, 1, 0), instances("2g.10gb", 2, 10, 1, 0), instances("3g.20gb", 3, 20, 1, 0)}}},
		{"k8s-device-plugin resource naming, a profile with media engines",
			[]container{{"nvidia.com/mig-1g.10gb.me": 1}}, Demand{MIG: []Instances{instances("1g.10gb+me", 1, 10, 1, mig.AttrMedia)}}},

		// Alibaba.
		{"ACK, disable the memory isolation of cGPU: 3 GiB",
			[]container{{"aliyun.com/gpu-mem": 3}}, Demand{Vendor: "nvidia", Fraction: fraction(Fraction{MemoryMiB: 3072, GPUs: 1})}},
		{"gpushare-scheduler-extender samples/1.yaml, in MiB",
			[]container{{"aliyun.com/gpu-mem": 8138}}, Demand{Vendor: "nvidia", Fraction: fraction(Fraction{MemoryMiB: 8138, GPUs: 1})}},
		{"gpushare user guide, with the GPU count that the node has too",
			[]container{{"aliyun.com/gpu-count": 1, "aliyun.com/gpu-mem": 5}}, Demand{Vendor: "nvidia", Fraction: fraction(Fraction{MemoryMiB: 5120, GPUs: 1})}},
		{"ACK, allocate computing power by scheduling shared GPU",
			[]container{{"aliyun.com/gpu-mem": 2, "aliyun.com/gpu-core.percentage": 30}}, Demand{Vendor: "nvidia", Fraction: fraction(Fraction{CoreMilli: 300, MemoryMiB: 2048, GPUs: 1})}},

		// Tencent.
		{"TKE, using qGPU: whole GPUs in hundreds",
			[]container{{"tke.cloud.tencent.com/qgpu-core": 200}}, Demand{GPUs: 2, Vendor: "nvidia"}},
		{"TKE, using qGPU: least part, 5 of compute and 1 of memory",
			[]container{{"tke.cloud.tencent.com/qgpu-core": 5, "tke.cloud.tencent.com/qgpu-memory": 1}}, Demand{Vendor: "nvidia", Fraction: fraction(Fraction{CoreMilli: 50, MemoryMiB: 1024, GPUs: 1})}},
		{"TKE, qGPU over several GPUs: 160 and 60 are two parts of 80 and 30",
			[]container{{"tke.cloud.tencent.com/qgpu-core": 160, "tke.cloud.tencent.com/qgpu-memory": 60}}, Demand{Vendor: "nvidia", Fraction: fraction(Fraction{CoreMilli: 800, MemoryMiB: 30 * 1024, GPUs: 2})}},
		{"TKE, qGPU over several GPUs: 121 and 31 are two parts of 60 and 15",
			[]container{{"tke.cloud.tencent.com/qgpu-core": 121, "tke.cloud.tencent.com/qgpu-memory": 31}}, Demand{Vendor: "nvidia", Fraction: fraction(Fraction{CoreMilli: 600, MemoryMiB: 15 * 1024, GPUs: 2})}},
		{"gpu-manager README: half a GPU and 30 × 256 MiB",
			[]container{{"tencent.com/vcuda-core": 50, "tencent.com/vcuda-memory": 30}}, Demand{Vendor: "nvidia", Fraction: fraction(Fraction{CoreMilli: 500, MemoryMiB: 7680, GPUs: 1})}},
		{"TKE, GPU-Manager: 0.3 GPUs and 5 GiB",
			[]container{{"tencent.com/vcuda-core": 30, "tencent.com/vcuda-memory": 20}}, Demand{Vendor: "nvidia", Fraction: fraction(Fraction{CoreMilli: 300, MemoryMiB: 5120, GPUs: 1})}},
		{"TKE, GPU-Manager: one whole P4",
			[]container{{"tencent.com/vcuda-core": 100}}, Demand{GPUs: 1, Vendor: "nvidia"}},

		// Elastic GPU.
		{"elastic-gpu-scheduler README, sharing one GPU: 256 MB",
			[]container{{"elasticgpu.io/gpu-memory": 256}}, Demand{Vendor: "nvidia", Fraction: fraction(Fraction{MemoryMiB: 256, GPUs: 1})}},
		{"elastic-gpu-scheduler README, several GPUs",
			[]container{{"elasticgpu.io/gpu-core": 200}}, Demand{GPUs: 2, Vendor: "nvidia"}},

		// HAMi.
		{"HAMi examples/nvidia/example.yaml",
			[]container{{"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}}, Demand{Vendor: "nvidia", Fraction: fraction(Fraction{MemoryMiB: 3000, GPUs: 1})}},
		{"HAMi examples/nvidia/use_memory_fraction.yaml: of each of two GPUs",
			[]container{{"nvidia.com/gpu": 2, "nvidia.com/gpumem-percentage": 50, "nvidia.com/gpucores": 30}}, Demand{Vendor: "nvidia", Fraction: fraction(Fraction{CoreMilli: 300, MemoryMilli: 500, GPUs: 2})}},
		{"HAMi examples/nvidia/use_exclusive_gpu.yaml",
			[]container{{"nvidia.com/gpu": 2, "nvidia.com/gpumem-percentage": 100, "nvidia.com/gpucores": 100}}, Demand{GPUs: 2, Vendor: "nvidia"}},
		{
			"HAMi examples/nvidia/use_sharing_gpu.yaml, both of its pods as containers of one: a whole GPU",
			[]container{
				{"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 40, "nvidia.com/gpucores": 60},
				{"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 60, "nvidia.com/gpucores": 40},
			},
			Demand{Vendor: "nvidia", Fraction: fraction(Fraction{CoreMilli: 1000, MemoryMilli: 1000, GPUs: 1})},
		},
		{"HAMi examples/ascend/job-910B3.yaml",
			[]container{{"huawei.com/Ascend910B3": 1, "huawei.com/Ascend910B3-memory": 2000}}, Demand{Vendor: "huawei", Fraction: fraction(Fraction{MemoryMiB: 2000, GPUs: 1})}},
		{"HAMi examples/amd/use_memory.yaml",
			[]container{{"amd.com/gpu": 1, "amd.com/gpumem": 4096}}, Demand{Vendor: "amd", Fraction: fraction(Fraction{MemoryMiB: 4096, GPUs: 1})}},

		// Volcano.
		{"volcano-vgpu-device-plugin README: of each of two GPUs",
			[]container{{"volcano.sh/vgpu-number": 2, "volcano.sh/vgpu-memory": 3000, "volcano.sh/vgpu-cores": 50}}, Demand{Vendor: "nvidia", Fraction: fraction(Fraction{CoreMilli: 500, MemoryMiB: 3000, GPUs: 2})}},
		{"volcano devices README, per-container memory",
			[]container{{"volcano.sh/vgpu-number": 2, "volcano.sh/vgpu-memory": 2000}, {}, {}}, Demand{Vendor: "nvidia", Fraction: fraction(Fraction{MemoryMiB: 2000, GPUs: 2})}},

		// Whole GPUs of other vendors.
		{"ROCm k8s-device-plugin README, alexnet example",
			[]container{{"amd.com/gpu": 1}}, Demand{GPUs: 1, Vendor: "amd"}},
		{"Intel device plugins for Kubernetes, GPU demo job",
			[]container{{"gpu.intel.com/i915": 1}}, Demand{GPUs: 1, Vendor: "intel"}},
		{"Intel GPU Aware Scheduling, usage: 10 millicores and 10 M of one GPU",
			[]container{{"gpu.intel.com/i915": 1, "gpu.intel.com/millicores": 10, "gpu.intel.com/memory.max": 10000000}}, Demand{GPUs: 1, Vendor: "intel"}},
		{"Ascend Docs, MindCluster: a training node's eight chips",
			[]container{{"huawei.com/Ascend910": 8}}, Demand{GPUs: 8, Vendor: "huawei"}},
	} {
		var each []Demand
		for _, resources := range c.pod {
			d, err := FromResources(resources)
			if err != nil {
				t.Errorf("%s: %v", c.document, err)
			}
			each = append(each, d)
		}
		if got, err := Sum(each...); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %s, %v\nwant %s", c.document, got, err, c.want)
		}
	}
}
