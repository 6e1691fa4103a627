package capacity

import "github.com/gpuscale/gpuscale/gpu/mig"

// GPUShares is how many shares a GPU has, in compute and in memory. GPUs have 4
// or 7 compute slices and 4, 8 or 12 memory slices, and are shared by up to 8
// pods: 840 is the smallest number that all of those divide, so that parts of
// different products add up without rounding.
const GPUShares = 840

// wholeCompute and wholeMemory are the slices that a GPU without MIG counts for.
const wholeCompute, wholeMemory = 7, 8

// Size is an amount of GPU, in shares (1/840 of a GPU) of its compute and of
// its memory. Each runs out by itself.
type Size struct{ Compute, Memory int }

var wholeGPU = Size{GPUShares, GPUShares}

func (a Size) plus(b Size) Size  { return Size{a.Compute + b.Compute, a.Memory + b.Memory} }
func (a Size) minus(b Size) Size { return Size{a.Compute - b.Compute, a.Memory - b.Memory} }

func (a Size) zero() bool { return a == Size{} }

// GPUs is the compute in GPU equivalents.
func (a Size) GPUs() float64 { return float64(a.Compute) / GPUShares }

// sizeOf returns the size of an instance of p on GPUs of t.
func sizeOf(t *mig.Table, p mig.Profile) Size {
	return Size{p.Compute * GPUShares / t.ComputeSlices(), p.Memory * GPUShares / t.MemorySlices()}
}
