package demand

import "strings"

// kind is what one resource says about a demand.
type kind uint8

const (
	other       kind = iota // not an accelerator, or only told by the node
	cards                   // whole cards; with parts beside them, cards a part is wanted of
	shares                  // places on cards that are shared by time
	coreCards               // hundredths of a card's compute; whole hundreds are cards
	corePercent             // hundredths of each card's compute
	memoryMiB               // card memory, in units of MiB
	memoryShare             // card memory, in hundredths
	within                  // a part of the whole cards asked for beside it
	refused                 // an accelerator that has no canonical demand
)

// dialect is how one resource is read.
type dialect struct {
	kind   kind
	vendor string
	family family
	unit   int64 // of memory, in MiB
}

// family is one way to share cards. Two of them in one container contradict each
// other.
type family struct {
	name string
	// each is set where parts are wanted of each of the cards counted beside them,
	// not of one card.
	each bool
	// several is set where more than a card's compute, not in whole cards, is equal
	// parts of as few cards as hold it.
	several bool
	// orMiB is set where memory is counted in MiB or in the dialect's unit, as the
	// cluster has been set up: an amount that no card has in the one is in the other.
	orMiB bool
}

var (
	plugin  = family{name: "device plugin", each: true} // and HAMi, which goes by the same names
	volcano = family{name: "volcano.sh", each: true}
	aliyun  = family{name: "aliyun.com", orMiB: true}
	qgpu    = family{name: "tke.cloud.tencent.com", several: true}
	vcuda   = family{name: "tencent.com"}
	elastic = family{name: "elasticgpu.io"}
)

// dialects is every resource with a name of its own.
var dialects = map[string]dialect{
	"nvidia.com/gpu":               {cards, "nvidia", plugin, 0},
	"nvidia.com/gpu.shared":        {shares, "nvidia", plugin, 0},
	"nvidia.com/gpumem":            {memoryMiB, "nvidia", plugin, 1},
	"nvidia.com/gpumem-percentage": {memoryShare, "nvidia", plugin, 0},
	"nvidia.com/gpucores":          {corePercent, "nvidia", plugin, 0},

	"volcano.sh/vgpu-number":            {cards, "nvidia", volcano, 0},
	"volcano.sh/vgpu-memory":            {memoryMiB, "nvidia", volcano, 1},
	"volcano.sh/vgpu-memory-percentage": {memoryShare, "nvidia", volcano, 0},
	"volcano.sh/vgpu-cores":             {corePercent, "nvidia", volcano, 0},
	"volcano.sh/gpu-number":             {cards, "nvidia", volcano, 0},
	"volcano.sh/gpu-memory":             {memoryMiB, "nvidia", volcano, 1},

	"aliyun.com/gpu-mem":             {memoryMiB, "nvidia", aliyun, 1024},
	"aliyun.com/gpu-core.percentage": {coreCards, "nvidia", aliyun, 0},

	"tke.cloud.tencent.com/qgpu-core":   {coreCards, "nvidia", qgpu, 0},
	"tke.cloud.tencent.com/qgpu-memory": {memoryMiB, "nvidia", qgpu, 1024},

	"tencent.com/vcuda-core":   {coreCards, "nvidia", vcuda, 0},
	"tencent.com/vcuda-memory": {memoryMiB, "nvidia", vcuda, 256},

	"elasticgpu.io/gpu-core":   {coreCards, "nvidia", elastic, 0},
	"elasticgpu.io/gpu-memory": {memoryMiB, "nvidia", elastic, 1},

	"amd.com/gpu":      {cards, "amd", plugin, 0},
	"amd.com/spx_nps1": {cards, "amd", plugin, 0},
	"amd.com/gpumem":   {memoryMiB, "amd", plugin, 1},
	"amd.com/gpucores": {corePercent, "amd", plugin, 0},

	"gpu.intel.com/i915":       {cards, "intel", plugin, 0},
	"gpu.intel.com/xe":         {cards, "intel", plugin, 0},
	"gpu.intel.com/millicores": {within, "intel", plugin, 0},
	"gpu.intel.com/memory.max": {within, "intel", plugin, 0},
	"gpu.intel.com/tiles":      {within, "intel", plugin, 0},
}

// mostGiB is more memory than any card has, and fewer MiB than anybody asks for.
const mostGiB = 512

// dialectOf says how a resource is read. MIG resources are not here.
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

// ascend reads what follows huawei.com/Ascend: "910", "310P" and "910B3" are
// whole cards, "910B3-memory" is HAMi's part of one in MiB, and "910-16c" a static
// cut of one, whose share depends on the chip.
func ascend(chip string) dialect {
	chip, isMemory := strings.CutSuffix(chip, "-memory")
	switch {
	case chip == "" || strings.Contains(chip, "-"):
		return dialect{kind: refused, vendor: "huawei"}
	case isMemory:
		return dialect{memoryMiB, "huawei", plugin, 1}
	}
	return dialect{cards, "huawei", plugin, 0}
}
