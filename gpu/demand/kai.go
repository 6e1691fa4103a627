package demand

import (
	"fmt"
	"math"
	"strconv"
)

// KAI's annotations of a pod that takes a part of a card. They are no resources:
// the pod's containers ask for nothing, and a pod of KAI's own holds the card.
const (
	kaiFraction = "gpu-fraction"             // of a card's memory, more than 0, at most 1
	kaiMemory   = "gpu-memory"               // MiB
	kaiDevices  = "gpu-fraction-num-devices" // cards such a part is wanted of
)

// FromKAI reads the annotations by which a pod asks the KAI scheduler for parts of
// cards; no such annotation is no demand. They count only on pods that KAI
// schedules: the names are short enough to mean other things elsewhere. What its
// further annotations cap is not reserved and not read. The error names the
// annotation that cannot be read.
func FromKAI(annotations map[string]string) (Demand, error) {
	fraction, hasFraction := annotations[kaiFraction]
	memory, hasMemory := annotations[kaiMemory]
	devices, hasDevices := annotations[kaiDevices]
	f := Fraction{Cards: 1}
	var err error
	switch {
	case hasFraction && hasMemory:
		return Demand{}, fmt.Errorf("annotation %s: contradicts %s", kaiMemory, kaiFraction)
	case hasFraction:
		f.MemoryMilli, err = parseShare(fraction)
	case hasMemory:
		f.MemoryMiB, err = parseAmount(kaiMemory, memory)
	case hasDevices:
		return Demand{}, fmt.Errorf("annotation %s: of which part is not said, want %s or %s", kaiDevices, kaiFraction, kaiMemory)
	default:
		return Demand{}, nil
	}
	if err == nil && hasDevices {
		f.Cards, err = parseAmount(kaiDevices, devices)
	}
	if err != nil {
		return Demand{}, err
	}
	if f.MemoryMilli == 1000 {
		return Demand{Cards: f.Cards, Vendor: "nvidia"}, nil
	}
	return Demand{Vendor: "nvidia", Fraction: &f}, nil
}

// parseShare reads a part of one in thousandths, rounded up.
func parseShare(s string) (int, error) {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || !(x > 0 && x <= 1) {
		return 0, fmt.Errorf("annotation %s: %q: want more than 0, at most 1", kaiFraction, s)
	}
	return int(math.Ceil(x*1000 - 1e-6)), nil
}

func parseAmount(annotation, s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > maxAmount {
		return 0, fmt.Errorf("annotation %s: %q: want a whole number above 0", annotation, s)
	}
	return n, nil
}
