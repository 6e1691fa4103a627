package partition

// Labels of GFD and the GPU Operator on a node with NVIDIA GPUs.
const (
	PresentLabel  = "nvidia.com/gpu.present"
	ProductLabel  = "nvidia.com/gpu.product"
	CountLabel    = "nvidia.com/gpu.count"
	MemoryLabel   = "nvidia.com/gpu.memory"           // of a GPU, in MiB
	ReplicasLabel = "nvidia.com/gpu.replicas"         // of each GPU, where they are shared
	SharingLabel  = "nvidia.com/gpu.sharing-strategy" // "none", "time-slicing" or "mps"
	CapableLabel  = "nvidia.com/mig.capable"
	StrategyLabel = "nvidia.com/mig.strategy"
)

// SharedSuffix is the end of ProductLabel where GPUs are shared under the name of whole GPUs.
const SharedSuffix = "-SHARED"

// SharedResource is what the device plugin advertises for GPUs that it shares with renameByDefault.
const SharedResource = GPUResource + ".shared"
