package demand

import "strings"

// kind is what one resource says about a demand.
type kind uint8

const (
	other       kind = iota // not an accelerator, or only told by the node
	cards                   // whole cards
	shares                  // places on cards that are shared by time
	devices                 // HAMi: cards that the same container takes a part of
	coreCards               // hundredths of a card's compute; whole hundreds are cards
	corePercent             // hundredths of each card's compute
	memoryMiB               // card memory, in units of MiB
	memoryShare             // card memory, in hundredths
	refused                 // an accelerator that has no canonical demand
)

// dialect is how one resource is read.
type dialect struct {
	kind   kind
	vendor string
	unit   int64 // of memory, in MiB
	family string
}

// Families of dialects. Two of them in one container contradict each other.
const (
	familyPlugin  = "device plugin"
	familyAliyun  = "aliyun.com"
	familyQGPU    = "tke.cloud.tencent.com"
	familyVCUDA   = "tencent.com"
	familyElastic = "elasticgpu.io"
)

// dialectOf says how a resource is read. MIG resources are not here.
func dialectOf(resource string) dialect {
	switch resource {
	case "nvidia.com/gpu":
		return dialect{kind: cards, vendor: "nvidia", family: familyPlugin}
	case "nvidia.com/gpu.shared":
		return dialect{kind: shares, vendor: "nvidia", family: familyPlugin}
	case "nvidia.com/gpumem":
		return dialect{kind: memoryMiB, vendor: "nvidia", unit: 1, family: familyPlugin}
	case "nvidia.com/gpumem-percentage":
		return dialect{kind: memoryShare, vendor: "nvidia", family: familyPlugin}
	case "nvidia.com/gpucores":
		return dialect{kind: corePercent, vendor: "nvidia", family: familyPlugin}
	case "aliyun.com/gpu-mem":
		return dialect{kind: memoryMiB, vendor: "nvidia", unit: 1024, family: familyAliyun}
	case "aliyun.com/gpu-core.percentage":
		return dialect{kind: coreCards, vendor: "nvidia", family: familyAliyun}
	case "tke.cloud.tencent.com/qgpu-core":
		return dialect{kind: coreCards, vendor: "nvidia", family: familyQGPU}
	case "tke.cloud.tencent.com/qgpu-memory":
		return dialect{kind: memoryMiB, vendor: "nvidia", unit: 1024, family: familyQGPU}
	case "tencent.com/vcuda-core":
		return dialect{kind: coreCards, vendor: "nvidia", family: familyVCUDA}
	case "tencent.com/vcuda-memory":
		return dialect{kind: memoryMiB, vendor: "nvidia", unit: 256, family: familyVCUDA}
	case "elasticgpu.io/gpu-core":
		return dialect{kind: coreCards, vendor: "nvidia", family: familyElastic}
	case "elasticgpu.io/gpu-memory":
		return dialect{kind: memoryMiB, vendor: "nvidia", unit: 1, family: familyElastic}
	case "amd.com/gpu":
		return dialect{kind: cards, vendor: "amd", family: familyPlugin}
	case "gpu.intel.com/i915", "gpu.intel.com/xe":
		return dialect{kind: cards, vendor: "intel", family: familyPlugin}
	}
	switch {
	case strings.HasPrefix(resource, "huawei.com/Ascend"):
		return ascend(strings.TrimPrefix(resource, "huawei.com/Ascend"))
	case strings.HasPrefix(resource, "nvidia.com/mig-"): // not a profile, or shared replicas of one
		return dialect{kind: refused, vendor: "nvidia"}
	}
	return dialect{}
}

// ascend reads what follows huawei.com/Ascend: "910", "310P" and "910B3" are
// whole cards, "910-16c" a static cut of one, whose share depends on the chip.
func ascend(chip string) dialect {
	if chip == "" || strings.Contains(chip, "-") {
		return dialect{kind: refused, vendor: "huawei"}
	}
	return dialect{kind: cards, vendor: "huawei", family: familyPlugin}
}
