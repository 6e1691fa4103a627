package demand

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// KAI's annotations of a pod that requests a part of a GPU. The pod's containers request no
// resource for it: the GPU is allocated to a pod of KAI's own.
const (
	kaiFraction = "gpu-fraction"             // of a GPU's memory, more than 0, at most 1
	kaiMemory   = "gpu-memory"               // MiB
	kaiDevices  = "gpu-fraction-num-devices" // number of GPUs of which such a part is requested
)

// kaiRound is the multiple to which KAI rounds a GPU's memory down, in MiB: two requests of 20480 MiB do not fit a GPU
// of 40960 MiB (0.17.0, pkg/scheduler/api/node_info). Parts are rounded up to it, since the GPU is not known here.
const kaiRound = 100

// FromKAI reads the annotations by which a pod requests parts of GPUs from the KAI
// scheduler; without them the demand is zero. They count only on pods that KAI
// schedules, since other software may use the same short names. KAI's further
// annotations are caps, reserve nothing and are not read. The error names the
// annotation that cannot be read.
func FromKAI(annotations map[string]string) (Demand, error) {
	fraction, hasFraction := annotations[kaiFraction]
	memory, hasMemory := annotations[kaiMemory]
	devices, hasDevices := annotations[kaiDevices]
	f := Fraction{GPUs: 1}
	var err error
	switch {
	case hasFraction && hasMemory:
		return Demand{}, fmt.Errorf("annotation %s: contradicts %s", kaiMemory, kaiFraction)
	case hasFraction:
		f.MemoryMilli, err = parseShare(fraction)
	case hasMemory:
		f.MemoryMiB, err = parseAmount(kaiMemory, memory)
		f.MemoryMiB += (kaiRound - f.MemoryMiB%kaiRound) % kaiRound
	case hasDevices:
		return Demand{}, fmt.Errorf("annotation %s: the size of the part is not stated, want %s or %s", kaiDevices, kaiFraction, kaiMemory)
	default:
		return Demand{}, nil
	}
	if err == nil && hasDevices {
		f.GPUs, err = parseAmount(kaiDevices, devices)
	}
	if err != nil {
		return Demand{}, err
	}
	if f.MemoryMilli == 1000 {
		return Demand{GPUs: f.GPUs, Vendor: "nvidia"}, nil
	}
	return Demand{Vendor: "nvidia", Fraction: &f}, nil
}

// parseShare reads a part of one in thousandths, rounded up.
func parseShare(s string) (int, error) {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || !(x > 0 && x <= 1) {
		return 0, fmt.Errorf("annotation %s: %q: want more than 0, at most 1", kaiFraction, s)
	}
	return max(1, int(math.Ceil(x*1000-1e-6))), nil
}

func parseAmount(annotation, s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > maxAmount {
		return 0, fmt.Errorf("annotation %s: %q: want a whole number above 0", annotation, s)
	}
	return n, nil
}

// KAIGroup is a label of the pods that share a GPU, and of the pod that reserves the GPU. Its value is the name of
// their group. A pod with parts of several GPUs has one label for each, whose key is KAIGroup, a slash and the group's
// name (pkg/binder of 0.13).
const KAIGroup = "runai-gpu-group"

// KAIGroups are the groups in a pod's labels.
func KAIGroups(labels map[string]string) (groups []string) {
	for name, group := range labels {
		if name == KAIGroup || strings.HasPrefix(name, KAIGroup+"/") {
			groups = append(groups, group)
		}
	}
	return groups
}
