package quota

import (
	"fmt"
	"math"
	"strconv"
)

// Unlimited is a number of slices that nothing reduces.
const Unlimited = math.MaxInt64

// ComputeSlices and MemorySlices are what a quota counts for a GPU of any product.
const (
	ComputeSlices = 7
	MemorySlices  = 8
)

// Amount is capacity in compute slices and memory slices, added up over GPUs.
// All arithmetic saturates at Unlimited; Unlimited less anything is Unlimited.
// Amounts used and requested are never negative.
type Amount struct {
	Compute int64
	Memory  int64
}

// All returns the Amount that is Unlimited in both.
func All() Amount { return Amount{Compute: Unlimited, Memory: Unlimited} }

// Add returns a + b.
func (a Amount) Add(b Amount) Amount {
	return Amount{Compute: add(a.Compute, b.Compute), Memory: add(a.Memory, b.Memory)}
}

// Sub returns a - b, which is negative where b is larger.
func (a Amount) Sub(b Amount) Amount {
	return Amount{Compute: sub(a.Compute, b.Compute), Memory: sub(a.Memory, b.Memory)}
}

// Min returns the smaller of each.
func (a Amount) Min(b Amount) Amount {
	return Amount{Compute: min(a.Compute, b.Compute), Memory: min(a.Memory, b.Memory)}
}

// Max returns the larger of each.
func (a Amount) Max(b Amount) Amount {
	return Amount{Compute: max(a.Compute, b.Compute), Memory: max(a.Memory, b.Memory)}
}

// Floor returns a with nothing below zero.
func (a Amount) Floor() Amount { return a.Max(Amount{}) }

// Fits reports whether a is at most b in both.
func (a Amount) Fits(b Amount) bool { return a.Compute <= b.Compute && a.Memory <= b.Memory }

// Zero reports whether a is nothing at all.
func (a Amount) Zero() bool { return a == Amount{} }

// Negative reports whether either is below zero.
func (a Amount) Negative() bool { return a.Compute < 0 || a.Memory < 0 }

func (a Amount) endless() bool { return a.Compute == Unlimited || a.Memory == Unlimited }

// String returns "2 GPUs" or, where compute and memory are not those of whole GPUs, "3+4 slices"; "∞" for no bound.
func (a Amount) String() string {
	switch gpus := a.Compute / ComputeSlices; {
	case a == All():
		return "∞"
	case a.Zero():
		return "nothing"
	case a.Compute%ComputeSlices != 0 || a.Memory%MemorySlices != 0 || a.Memory/MemorySlices != gpus:
		return text(a.Compute) + "+" + text(a.Memory) + " slices"
	case gpus == 1:
		return "1 GPU"
	default:
		return fmt.Sprintf("%d GPUs", gpus)
	}
}

func add(x, y int64) int64 {
	switch {
	case x == Unlimited || y == Unlimited:
		return Unlimited
	case y > 0 && x > Unlimited-y:
		return Unlimited
	case y < 0 && x < math.MinInt64-y:
		return math.MinInt64
	}
	return x + y
}

func sub(x, y int64) int64 {
	switch {
	case x == Unlimited || y == math.MinInt64:
		return Unlimited
	case y == Unlimited:
		return math.MinInt64
	}
	return add(x, -y)
}

func text(n int64) string {
	if n == Unlimited {
		return "∞"
	}
	return strconv.FormatInt(n, 10)
}
