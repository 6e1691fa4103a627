package demand

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// KAI's annotations of a pod that requests a part of a GPU. They are no resources:
// the pod's containers request nothing, and the GPU is allocated to a pod of KAI's.
const (
	kaiFraction = "gpu-fraction"             // of a GPU's memory, more than 0, at most 1
	kaiMemory   = "gpu-memory"               // MiB
	kaiDevices  = "gpu-fraction-num-devices" // number of GPUs that such a part is requested of
)

// kaiRound is the unit in MiB to which KAI rounds a GPU's memory down, so that two parts of 20480 MiB do not fit a GPU
// of 40960 MiB (0.17.0, pkg/scheduler/api/node_info). As the GPU is not known here, parts are rounded up to it.
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

// parseShare reads a number above 0 and up to 1, and returns thousandths, rounded up.
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

// KAIGroup is a label whose value names the group of pods that share a GPU. The pod that reserves the GPU has it too. A
// pod with parts of several GPUs has a label for each, with a slash and the group's name appended (pkg/binder of 0.13).
const KAIGroup = "runai-gpu-group"

// KAIGroups returns the groups in a pod's labels, in no fixed order.
func KAIGroups(labels map[string]string) (groups []string) {
	for name, group := range labels {
		if name == KAIGroup || strings.HasPrefix(name, KAIGroup+"/") {
			groups = append(groups, group)
		}
	}
	return groups
}
