package demand

import "strings"

// kind is what one resource adds to a demand.
type kind uint8

const (
	other       kind = iota // not an accelerator, of nodes only, or a MIG profile
	gpus                    // whole GPUs; beside the size of a part, the number of GPUs with such a part
	shares                  // places on GPUs that are shared by time
	coreGPUs                // hundredths of a GPU's compute; whole hundreds are GPUs
	corePercent             // hundredths of each GPU's compute
	memoryMiB               // GPU memory, in units of MiB
	memoryShare             // GPU memory, in hundredths
	within                  // a part of the whole GPUs requested beside it
	idleCore                // hundredths of a GPU's compute, while other pods leave it idle
	refused                 // an accelerator that has no canonical demand
)

// dialect is how one resource is read.
type dialect struct {
	kind   kind
	vendor string
	family family
	unit   int64 // of memory, in MiB
}

// family is one way to share GPUs. Two of them in one container contradict each
// other.
type family struct {
	name string
	// each is set where a part is requested of each of several GPUs, whose number is
	// requested beside it. Elsewhere it is of one GPU.
	each bool
	// several is set where a container can request more than one GPU's compute without
	// whole GPUs: 150 hundredths are 75 of each of two GPUs.
	several bool
	// orMiB is set where a setting of the cluster selects MiB or the dialect's unit for
	// memory. An amount above mostGiB is in MiB.
	orMiB bool
}

var (
	plugin  = family{name: "device plugin", each: true} // and HAMi, under the same names
	volcano = family{name: "volcano.sh", each: true}
	aliyun  = family{name: "aliyun.com", orMiB: true}
	qgpu    = family{name: "tke.cloud.tencent.com", several: true}
	vcuda   = family{name: "tencent.com"}
	elastic = family{name: "elasticgpu.io"}
	nano    = family{name: "nano-gpu"}
)

// dialects has every resource that is known by its whole name.
var dialects = map[string]dialect{
	"nvidia.com/gpu":               {gpus, "nvidia", plugin, 0},
	"nvidia.com/gpu.shared":        {shares, "nvidia", plugin, 0},
	"nvidia.com/gpumem":            {memoryMiB, "nvidia", plugin, 1},
	"nvidia.com/gpumem-percentage": {memoryShare, "nvidia", plugin, 0},
	"nvidia.com/gpucores":          {corePercent, "nvidia", plugin, 0},

	"volcano.sh/vgpu-number":            {gpus, "nvidia", volcano, 0},
	"volcano.sh/vgpu-memory":            {memoryMiB, "nvidia", volcano, 1},
	"volcano.sh/vgpu-memory-percentage": {memoryShare, "nvidia", volcano, 0},
	"volcano.sh/vgpu-cores":             {corePercent, "nvidia", volcano, 0},
	"volcano.sh/gpu-number":             {gpus, "nvidia", volcano, 0},
	"volcano.sh/gpu-memory":             {memoryMiB, "nvidia", volcano, 1},

	"aliyun.com/gpu":                 {gpus, "nvidia", aliyun, 0}, // topology-aware
	gpushareMemory:                   {memoryMiB, "nvidia", aliyun, 1024},
	"aliyun.com/gpu-core.percentage": {coreGPUs, "nvidia", aliyun, 0},

	"tke.cloud.tencent.com/qgpu-core":   {coreGPUs, "nvidia", qgpu, 0},
	"tke.cloud.tencent.com/qgpu-memory": {memoryMiB, "nvidia", qgpu, 1024},
	greedy:                              {idleCore, "nvidia", qgpu, 0},

	"tencent.com/vcuda-core":   {coreGPUs, "nvidia", vcuda, 0},
	"tencent.com/vcuda-memory": {memoryMiB, "nvidia", vcuda, 256},

	"elasticgpu.io/gpu-core":   {coreGPUs, "nvidia", elastic, 0},
	"elasticgpu.io/gpu-memory": {memoryMiB, "nvidia", elastic, 1},

	"nano-gpu/gpu-percent": {coreGPUs, "nvidia", nano, 0},

	"google.com/tpu": {gpus, "google", plugin, 0},

	"amd.com/gpu":      {gpus, "amd", plugin, 0},
	"amd.com/spx_nps1": {gpus, "amd", plugin, 0},
	"amd.com/gpumem":   {memoryMiB, "amd", plugin, 1},
	"amd.com/gpucores": {corePercent, "amd", plugin, 0},

	"gpu.intel.com/i915":       {gpus, "intel", plugin, 0},
	"gpu.intel.com/xe":         {gpus, "intel", plugin, 0},
	"gpu.intel.com/millicores": {within, "intel", plugin, 0},
	"gpu.intel.com/memory.max": {within, "intel", plugin, 0},
	"gpu.intel.com/tiles":      {within, "intel", plugin, 0},
}

// mostGiB is more GiB than any GPU has, and fewer MiB than any pod requests.
const mostGiB = 512

// dialectOf returns how a resource is read, the zero dialect for no accelerator.
// MIG resources are not included.
func dialectOf(resource string) dialect {
	if d, ok := dialects[resource]; ok {
		return d
	}
	vendor, name, _ := strings.Cut(resource, "/")
	switch {
	case vendor == "huawei.com" && strings.HasPrefix(name, "Ascend"):
		return ascend(strings.TrimPrefix(name, "Ascend"))
	case vendor == "huawei.com" && strings.HasPrefix(name, "npu-"): // AI cores, as many as the chip has
		return dialect{kind: refused, vendor: "huawei"}
	case vendor == "nvidia.com" && strings.HasPrefix(name, "mig-"): // not a profile, or shared replicas of one
		return dialect{kind: refused, vendor: "nvidia"}
	case vendor == "amd.com" && strings.Contains(name, "px_nps"): // a partition, whose size depends on the chip
		return dialect{kind: refused, vendor: "amd"}
	}
	return dialect{}
}

// AscendChip returns the chip that a product or a resource of Ascend names, without
// its variant: "910" of "ASCEND910B3" and of "huawei.com/Ascend910", "310P" of
// "huawei.com/Ascend310P". It is empty for other names.
func AscendChip(name string) string {
	_, chip, ok := strings.Cut(strings.ToUpper(name), "ASCEND")
	if !ok {
		return ""
	}
	n := 0
	for n < len(chip) && chip[n] >= '0' && chip[n] <= '9' {
		n++
	}
	if n > 0 && n < len(chip) && chip[n] == 'P' {
		n++
	}
	return chip[:n]
}

// ascend reads what follows huawei.com/Ascend: "910", "310P", "910B3" and "910B4-1" are
// whole GPUs, "910B3-memory" and "910B3-core" are HAMi's part of one, in MiB and in
// hundredths, and "910-16c" is a static partition, whose share depends on the chip.
func ascend(name string) dialect {
	chip, isMemory := strings.CutSuffix(name, "-memory")
	chip, isCore := strings.CutSuffix(chip, "-core")
	_, variant, _ := strings.Cut(chip, "-")
	switch {
	case chip == "" || strings.Trim(variant, "0123456789") != "":
		return dialect{kind: refused, vendor: "huawei"}
	case isMemory:
		return dialect{memoryMiB, "huawei", plugin, 1}
	case isCore:
		return dialect{corePercent, "huawei", plugin, 0}
	}
	return dialect{gpus, "huawei", plugin, 0}
}
