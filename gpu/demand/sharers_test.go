package demand

import (
	"fmt"
	"strings"
	"testing"
)

// TestFromNode has nodes as each dialect's own documents and sources show them.
func TestFromNode(t *testing.T) {
	const two = `[{"id":"GPU-a","count":10,"devmem":32768,"devcore":100,"type":"NVIDIA-Tesla V100-PCIE-32GB","numa":1,"mode":"hami-core","health":true},` +
		`{"id":"GPU-b","index":1,"count":10,"devmem":32768,"devcore":100,"type":"NVIDIA-Tesla V100-PCIE-32GB","numa":1,"mode":"hami-core","health":true}]`
	for name, c := range map[string]struct {
		allocatable map[string]int64
		labels      map[string]string
		annotations map[string]string
		want        string // dialect, GPUs, MiB of each, product, UUIDs, pods that may share each
	}{
		"no GPU":       {map[string]int64{"cpu": 4}, nil, nil, "none"},
		"whole GPUs":   {map[string]int64{"nvidia.com/gpu": 4}, nil, nil, "none"},
		"time-slicing": {map[string]int64{"nvidia.com/gpu.shared": 40}, nil, nil, "none"},
		"gpushare user guide: two GPUs in GiB": {map[string]int64{"aliyun.com/gpu-mem": 30, "aliyun.com/gpu-count": 2}, nil, nil,
			"gpushare 2 15360 "},
		"gpushare in MiB": {map[string]int64{"aliyun.com/gpu-mem": 32276, "aliyun.com/gpu-count": 2}, nil, nil, "gpushare 2 16138 "},
		"ACK, labels of the node": {map[string]int64{"aliyun.com/gpu-mem": 60, "aliyun.com/gpu-core.percentage": 400},
			map[string]string{"aliyun.accelerator/nvidia_count": "4", "aliyun.accelerator/nvidia_mem": "15109MiB", "aliyun.accelerator/nvidia_name": "Tesla-T4"}, nil,
			"gpushare 4 15360 Tesla-T4"},
		"ACK, the whole-GPU mode sets the others to 0": {map[string]int64{"nvidia.com/gpu": 1, "aliyun.com/gpu-mem": 0},
			map[string]string{"aliyun.accelerator/nvidia_count": "1"}, nil, "none"},
		"qGPU on TKE": {map[string]int64{"tke.cloud.tencent.com/qgpu-core": 200, "tke.cloud.tencent.com/qgpu-memory": 96}, nil, nil, "qgpu 2 49152 "},
		"gpu-manager": {map[string]int64{"tencent.com/vcuda-core": 400, "tencent.com/vcuda-memory": 236},
			map[string]string{"gaia.tencent.com/gpu-model": "T4"}, nil, "vcuda 4 15104 T4"},
		"Elastic GPU": {map[string]int64{"elasticgpu.io/gpu-core": 200, "elasticgpu.io/gpu-memory": 30720}, nil, nil, "elasticgpu 2 15360 "},
		"nano-gpu":    {map[string]int64{"nano-gpu/gpu-percent": 800}, nil, nil, "nano-gpu 8 0 "},
		"HAMi": {map[string]int64{"nvidia.com/gpu": 20}, nil, map[string]string{"hami.io/node-nvidia-register": two},
			"hami 2 32768 NVIDIA-Tesla V100-PCIE-32GB whole [GPU-a GPU-b] 10 pods each"},
		"HAMi, one GPU is not healthy": {map[string]int64{"nvidia.com/gpu": 20}, nil,
			map[string]string{"hami.io/node-nvidia-register": strings.Replace(two, `,"health":true}]`, "}]", 1)},
			"hami 2 32768 NVIDIA-Tesla V100-PCIE-32GB whole [GPU-a GPU-b] 10 pods each, not [GPU-b]"},
		"HAMi before 2.5": {map[string]int64{"nvidia.com/gpu": 10}, nil,
			map[string]string{"hami.io/node-nvidia-register": "GPU-a,10,32768,100,NVIDIA-Tesla V100-PCIE-32GB,0,true:"},
			"hami 1 32768 NVIDIA-Tesla V100-PCIE-32GB whole [GPU-a] 10 pods each"},
		"HAMi, simulated":                   {map[string]int64{"nvidia.com/gpu": 20, "nvidia.com/gpumem": 30720, "nvidia.com/gpucores": 200}, nil, nil, "hami 2 15360  whole"},
		"HAMi, gone: the annotation stays":  {map[string]int64{"cpu": 8}, nil, map[string]string{"hami.io/node-nvidia-register": two}, "none"},
		"HAMi, an annotation of other form": {map[string]int64{"nvidia.com/gpu": 20}, nil, map[string]string{"hami.io/node-nvidia-register": "?"}, "none"},
		"volcano": {map[string]int64{"volcano.sh/vgpu-number": 10, "volcano.sh/vgpu-memory": 11264, "volcano.sh/vgpu-cores": 100}, nil,
			map[string]string{"volcano.sh/node-vgpu-register": "GPU-a,10,11264,NVIDIA-NVIDIA GeForce RTX 2080 Ti,true:"},
			"volcano 1 11264 NVIDIA-NVIDIA GeForce RTX 2080 Ti [GPU-a] 10 pods each"},
		"volcano without the annotation": {map[string]int64{"volcano.sh/vgpu-number": 20, "volcano.sh/vgpu-memory": 22528, "volcano.sh/vgpu-cores": 200}, nil, nil,
			"volcano 2 11264 "},
		"volcano's gpushare": {map[string]int64{"volcano.sh/gpu-memory": 22528, "volcano.sh/gpu-number": 2}, nil, nil, "volcano-gpushare 2 11264 "},
		"a number that no node has": {map[string]int64{"aliyun.com/gpu-mem": 1 << 60, "aliyun.com/gpu-count": 1 << 60}, nil, nil,
			fmt.Sprintf("gpushare 64 %d ", maxAmount)},
	} {
		d, ok := FromNode(c.allocatable, c.labels, c.annotations)
		got := "none"
		if ok {
			got = fmt.Sprintf("%s %d %d %s", d.Dialect, d.GPUs, d.MemoryMiB, d.Product)
			if d.Whole {
				got += " whole"
			}
			if len(d.UUIDs) > 0 {
				got += fmt.Sprint(" ", d.UUIDs)
			}
			if d.Places > 0 {
				got += fmt.Sprintf(" %d pods each", d.Places)
			}
			if len(d.Unhealthy) > 0 {
				got += fmt.Sprint(", not ", d.Unhealthy)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestDivideOffersWhatANodeDoes: in all dialects a pool's template offers what its nodes will offer, and that includes
// every resource that a pod may request.
func TestDivideOffersWhatANodeDoes(t *testing.T) {
	for _, dialect := range Dialects() {
		made, err := Divide(dialect, 2, 15360)
		if err != nil {
			t.Fatal(err)
		}
		allocatable, annotations := map[string]int64{}, map[string]string{}
		for name, n := range made.Offers {
			allocatable[name] = n
		}
		if dialect == "hami" {
			allocatable = map[string]int64{"nvidia.com/gpu": 20}
			annotations["hami.io/node-nvidia-register"] = `[{"id":"GPU-a","devmem":15360},{"id":"GPU-b","devmem":15360}]`
		}
		read, ok := FromNode(allocatable, nil, annotations)
		if !ok || read.Dialect != dialect || read.GPUs != 2 || read.MemoryMiB != 15360 && dialect != "nano-gpu" {
			t.Errorf("%s: %+v", dialect, read)
		}
		for name, n := range made.Offers {
			counted, own := Counted(name, n)
			if own && read.Offers[name] != n || own && name != gpushareMemory && counted != n {
				t.Errorf("%s: %d %s, the node has %d", dialect, n, name, read.Offers[name])
			}
			if !own && name != "aliyun.com/gpu-count" {
				t.Errorf("%s: %s is not of the dialect", dialect, name)
			}
		}
	}
	if _, err := Divide("mps", 1, 1); err == nil || !strings.Contains(err.Error(), "gpushare, hami") {
		t.Errorf("an unknown dialect: %v", err)
	}
}

func TestExclusive(t *testing.T) {
	for text, want := range map[string]string{
		"cpu 1": "nothing", "tke.cloud.tencent.com/qgpu-core 40": "40 % core of a GPU",
		"tke.cloud.tencent.com/qgpu-core 200": "100 % core and 100 % memory of each of 2 GPUs",
	} {
		d, err := FromResources(res(t, text))
		if got := d.Exclusive().String(); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	both := Demand{GPUs: 1, Fraction: &Fraction{CoreMilli: 300}}
	if got := both.Exclusive().String(); got != "100 % core and 100 % memory of each of 2 GPUs" {
		t.Error(got)
	}
}

func FuzzFromNode(f *testing.F) {
	f.Add(int64(2), int64(30), "4", `[{"id":"GPU-a"}]`)
	f.Add(int64(-1), int64(1<<60), "-4", "a,1,2,3,4:b,,,,")
	f.Fuzz(func(t *testing.T, count, memory int64, label, register string) {
		d, ok := FromNode(map[string]int64{"aliyun.com/gpu-count": count, "aliyun.com/gpu-mem": memory, "nvidia.com/gpu": count},
			map[string]string{"aliyun.accelerator/nvidia_count": label}, map[string]string{"hami.io/node-nvidia-register": register})
		if ok && (d.GPUs < 1 || d.GPUs > maxDivided || d.MemoryMiB < 0 || len(d.UUIDs) > d.GPUs) {
			t.Fatalf("%+v", d)
		}
	})
}
