package demand

import (
	"cmp"
	"fmt"
	"slices"
)

// Sum returns the demand of containers that run at the same time. Fractions add
// up on one GPU. Where their sum is more than one GPU, they are parts of different
// GPUs, each as large as the largest. Shares add up. Demands from two vendors are an
// error, since no node has both.
func Sum(ds ...Demand) (Demand, error) {
	return fold(ds, func(a, b int) int { return a + b })
}

// Max returns the demand of containers that run one after the other: the larger
// of each amount. The error is as for Sum.
func Max(ds ...Demand) (Demand, error) {
	return fold(ds, func(a, b int) int { return max(a, b) })
}

func fold(ds []Demand, join func(a, b int) int) (Demand, error) {
	var all Demand
	for _, d := range ds {
		switch {
		case all.Vendor == "":
			all.Vendor = d.Vendor
		case d.Vendor != "" && d.Vendor != all.Vendor:
			return Demand{}, fmt.Errorf("GPUs of %s and of %s in one pod", all.Vendor, d.Vendor)
		}
		all.GPUs = join(all.GPUs, d.GPUs)
		all.Fraction = joinFractions(all.Fraction, d.Fraction, join)
		all.MIG = joinInstances(all.MIG, d.MIG, join)
	}
	return all, nil
}

func joinFractions(a, b *Fraction, join func(a, b int) int) *Fraction {
	switch {
	case a == nil && b == nil:
		return nil
	case a == nil || b == nil:
		f := *cmp.Or(a, b)
		return &f
	}
	f := Fraction{
		CoreMilli:   join(a.CoreMilli, b.CoreMilli),
		MemoryMiB:   join(a.MemoryMiB, b.MemoryMiB),
		MemoryMilli: join(a.MemoryMilli, b.MemoryMilli),
		GPUs:        max(a.GPUs, b.GPUs),
	}
	if f.Shares() {
		f.GPUs = join(a.GPUs, b.GPUs)
	}
	if f.CoreMilli > 1000 || f.MemoryMilli > 1000 {
		f = Fraction{
			CoreMilli:   max(a.CoreMilli, b.CoreMilli),
			MemoryMiB:   max(a.MemoryMiB, b.MemoryMiB),
			MemoryMilli: max(a.MemoryMilli, b.MemoryMilli),
			GPUs:        join(a.GPUs, b.GPUs),
		}
	}
	return &f
}

func joinInstances(a, b []Instances, join func(a, b int) int) []Instances {
	a = slices.Clone(a)
	for _, in := range b {
		i, ok := slices.BinarySearchFunc(a, in, Instances.compare)
		if !ok {
			a = slices.Insert(a, i, in)
			continue
		}
		a[i].Count = join(a[i].Count, in.Count)
	}
	return a
}
