package demand

import (
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// TestDialects has each dialect's documented examples, and others. "+" separates the containers of a pod that run side
// by side.
func TestDialects(t *testing.T) {
	for _, c := range []struct{ name, pod, vendor, want string }{
		// NVIDIA.
		{"k8s-device-plugin README, running GPU jobs; MPS and the single strategy keep the name of the GPU", "nvidia.com/gpu 1", "nvidia", "a GPU"},
		{"k8s-device-plugin README, time-slicing with renameByDefault", "nvidia.com/gpu.shared 1", "nvidia", "a share of a GPU"},
		{"MIG Support in Kubernetes, mixed strategy", "nvidia.com/mig-1g.5gb 1", "", "1g.5gb"},
		{"MIG Support in Kubernetes, mixed strategy, three sizes", "nvidia.com/mig-1g.5gb 1 + nvidia.com/mig-2g.10gb 1 + nvidia.com/mig-3g.20gb 1", "", "1g.5gb + 2g.10gb + 3g.20gb"},
		{"k8s-device-plugin resource naming, a profile with media engines", "nvidia.com/mig-1g.10gb.me 1", "", "1g.10gb+me"},
		// Alibaba.
		{"ACK, disable the memory isolation of cGPU: 3 GiB", "aliyun.com/gpu-mem 3", "nvidia", "3072 MiB of a GPU"},
		{"gpushare-scheduler-extender samples/1.yaml, in MiB", "aliyun.com/gpu-mem 8138", "nvidia", "8138 MiB of a GPU"},
		{"gpushare user guide, with the GPU count that the node has too", "aliyun.com/gpu-count 1 aliyun.com/gpu-mem 5", "nvidia", "5120 MiB of a GPU"},
		{"ACK, allocate computing power by scheduling shared GPU", "aliyun.com/gpu-mem 2 aliyun.com/gpu-core.percentage 30", "nvidia", "30 % core and 2048 MiB of a GPU"},
		// Tencent.
		{"TKE, using qGPU: whole GPUs in hundreds", "tke.cloud.tencent.com/qgpu-core 200", "nvidia", "2 GPUs"},
		{"TKE, using qGPU: least part, 5 of compute and 1 of memory", "tke.cloud.tencent.com/qgpu-core 5 tke.cloud.tencent.com/qgpu-memory 1", "nvidia", "5 % core and 1024 MiB of a GPU"},
		{"TKE, qGPU over several GPUs: 160 and 60 are two parts of 80 and 30", "tke.cloud.tencent.com/qgpu-core 160 tke.cloud.tencent.com/qgpu-memory 60", "nvidia", "80 % core and 30720 MiB of each of 2 GPUs"},
		{"TKE, qGPU over several GPUs: 121 and 31 are two parts of 60 and 15", "tke.cloud.tencent.com/qgpu-core 121 tke.cloud.tencent.com/qgpu-memory 31", "nvidia", "60 % core and 15360 MiB of each of 2 GPUs"},
		{"gpu-manager README: half a GPU and 30 × 256 MiB", "tencent.com/vcuda-core 50 tencent.com/vcuda-memory 30", "nvidia", "50 % core and 7680 MiB of a GPU"},
		{"TKE, GPU-Manager: 0.3 GPUs and 5 GiB", "tencent.com/vcuda-core 30 tencent.com/vcuda-memory 20", "nvidia", "30 % core and 5120 MiB of a GPU"},
		{"TKE, GPU-Manager: one whole P4", "tencent.com/vcuda-core 100", "nvidia", "a GPU"},
		// Elastic GPU.
		{"elastic-gpu-scheduler README, sharing one GPU: 256 MB", "elasticgpu.io/gpu-memory 256", "nvidia", "256 MiB of a GPU"},
		{"elastic-gpu-scheduler README, several GPUs", "elasticgpu.io/gpu-core 200", "nvidia", "2 GPUs"},
		// HAMi.
		{"HAMi examples/nvidia/example.yaml", "nvidia.com/gpu 1 nvidia.com/gpumem 3000", "nvidia", "3000 MiB of a GPU"},
		{"HAMi examples/nvidia/use_memory_fraction.yaml: of each of two GPUs", "nvidia.com/gpu 2 nvidia.com/gpumem-percentage 50 nvidia.com/gpucores 30", "nvidia", "30 % core and 50 % memory of each of 2 GPUs"},
		{"HAMi examples/nvidia/use_exclusive_gpu.yaml", "nvidia.com/gpu 2 nvidia.com/gpumem-percentage 100 nvidia.com/gpucores 100", "nvidia", "2 GPUs"},
		{"HAMi examples/nvidia/use_sharing_gpu.yaml, both of its pods as containers of one: a whole GPU", "nvidia.com/gpu 1 nvidia.com/gpumem-percentage 40 nvidia.com/gpucores 60 + nvidia.com/gpu 1 nvidia.com/gpumem-percentage 60 nvidia.com/gpucores 40", "nvidia", "100 % core and 100 % memory of a GPU"},
		{"HAMi examples/ascend/job-910B3.yaml", "huawei.com/Ascend910B3 1 huawei.com/Ascend910B3-memory 2000", "huawei", "2000 MiB of a GPU"},
		{"HAMi pkg/device/ascend: soft partitions have compute too", "huawei.com/Ascend910B3 1 huawei.com/Ascend910B3-memory 2000 huawei.com/Ascend910B3-core 30", "huawei", "30 % core and 2000 MiB of a GPU"},
		{"HAMi charts/hami/values.yaml: a chip with a dash in its name", "huawei.com/Ascend910B4-1 2", "huawei", "2 huawei GPUs"},
		{"HAMi pkg/device/nvidia, Fit: above 100 is 100", "nvidia.com/gpu 1 nvidia.com/gpucores 150 nvidia.com/gpumem 3000", "nvidia", "a GPU"},
		{"HAMi pkg/device/nvidia, Fit: MiB go before a share", "nvidia.com/gpu 1 nvidia.com/gpumem 3000 nvidia.com/gpumem-percentage 100", "nvidia", "3000 MiB of a GPU"},
		{"HAMi examples/amd/use_memory.yaml", "amd.com/gpu 1 amd.com/gpumem 4096", "amd", "4096 MiB of a GPU"},
		// Volcano.
		{"volcano-vgpu-device-plugin README: of each of two GPUs", "volcano.sh/vgpu-number 2 volcano.sh/vgpu-memory 3000 volcano.sh/vgpu-cores 50", "nvidia", "50 % core and 3000 MiB of each of 2 GPUs"},
		{"volcano devices README, per-container memory", "volcano.sh/vgpu-number 2 volcano.sh/vgpu-memory 2000 + +", "nvidia", "2000 MiB of each of 2 GPUs"},
		// Whole GPUs of other vendors.
		{"ROCm k8s-device-plugin README, alexnet example", "amd.com/gpu 1", "amd", "1 amd GPU"},
		{"Intel device plugins for Kubernetes, GPU demo job", "gpu.intel.com/i915 1", "intel", "1 intel GPU"},
		{"Intel GPU Aware Scheduling, usage: 10 millicores and 10 M of one GPU", "gpu.intel.com/i915 1 gpu.intel.com/millicores 10 gpu.intel.com/memory.max 10000000", "intel", "1 intel GPU"},
		{"Ascend Docs, MindCluster: a training node's eight chips", "huawei.com/Ascend910 8", "huawei", "8 huawei GPUs"},
		// Of no document.
		{"nothing", "cpu 4 memory 1024 rdma/hca 1", "", "nothing"},
		{"zero", "nvidia.com/gpu 0", "", "nothing"},
		{"MIG, several", "nvidia.com/mig-7g.80gb 1 nvidia.com/mig-1g.20gb 2 nvidia.com/mig-1g.10gb 3", "", "3 × 1g.10gb + 2 × 1g.20gb + 7g.80gb"},
		{"MIG beside GPUs", "nvidia.com/mig-3g.40gb 1 nvidia.com/gpu 1", "nvidia", "a GPU + 3g.40gb"},
		{"Alibaba, whole", "aliyun.com/gpu-mem 80 aliyun.com/gpu-core.percentage 100", "nvidia", "a GPU"},
		{"Tencent qGPU", "tke.cloud.tencent.com/qgpu-core 25 tke.cloud.tencent.com/qgpu-memory 4", "nvidia", "25 % core and 4096 MiB of a GPU"},
		{"HAMi, memory only", "nvidia.com/gpumem 3000", "nvidia", "3000 MiB of a GPU"},
		{"HAMi, percent", "nvidia.com/gpu 1 nvidia.com/gpumem-percentage 50", "nvidia", "50 % memory of a GPU"},
		{"HAMi, all cores but not all memory", "nvidia.com/gpu 1 nvidia.com/gpucores 100 nvidia.com/gpumem 9", "nvidia", "a GPU"},
		{"HAMi, whole", "nvidia.com/gpu 2 nvidia.com/gpucores 100", "nvidia", "2 GPUs"},
		{"HAMi, compute alone: it gives all memory", "nvidia.com/gpu 1 nvidia.com/gpucores 30", "nvidia", "30 % core and 100 % memory of a GPU"},
		{"nano-gpu", "nano-gpu/gpu-percent 20", "nvidia", "20 % core of a GPU"},
		{"qGPU, an online pod", "tke.cloud.tencent.com/qgpu-memory 5", "nvidia", "5120 MiB of a GPU"},
		{"qGPU, an offline pod", "tke.cloud.tencent.com/qgpu-core-greedy 10 tke.cloud.tencent.com/qgpu-memory 5", "nvidia", "5120 MiB of a GPU"},
		{"ACK, topology-aware", "aliyun.com/gpu 4", "nvidia", "4 GPUs"},
		{"TPU", "google.com/tpu 4", "google", "4 google GPUs"},
		{"Intel Xe", "gpu.intel.com/xe 2 gpu.intel.com/xe_monitoring 1", "intel", "2 intel GPUs"},
		{"Ascend 310P", "huawei.com/Ascend310P 1", "huawei", "1 huawei GPU"},
	} {
		var each []Demand
		for container := range strings.SplitSeq(c.pod, "+") {
			d, err := FromResources(res(t, container))
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			each = append(each, d)
		}
		d, err := Sum(each...)
		if err != nil || d.String() != c.want || d.Vendor != c.vendor || d.Zero() != (c.want == "nothing") {
			t.Errorf("%s: got %s of %q, %v, want %s of %q", c.name, d, d.Vendor, err, c.want, c.vendor)
		}
		if d.Fraction != nil && d.Fraction.GPUs < 1 {
			t.Errorf("%s: a part of no GPU: %+v", c.name, d.Fraction)
		}
		for _, i := range d.MIG {
			if n, err := mig.ParseName(i.Name); err != nil || n.GB != i.MemoryGB || i.Profile != (mig.Profile{Compute: n.Compute, Attrs: n.Attrs}) {
				t.Errorf("%s: %+v is not of its name, %v", c.name, i, err)
			}
		}
	}
}
