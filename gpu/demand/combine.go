package demand

import (
	"cmp"
	"fmt"
	"slices"
)

// Sum returns what containers that run side by side want together. Fractions
// add up on one card; those that together are more than one are wanted of
// different cards, the larger part of each. The error is for demands from two
// vendors, which no node has.
func Sum(ds ...Demand) (Demand, error) {
	return fold(ds, func(a, b int) int { return a + b })
}

// Max returns what is wanted by containers that run one after the other: the
// larger of each amount. The error is as for Sum.
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
			return Demand{}, fmt.Errorf("cards of %s and of %s in one pod", all.Vendor, d.Vendor)
		}
		all.Cards = join(all.Cards, d.Cards)
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
		Cards:       max(a.Cards, b.Cards),
	}
	if f.CoreMilli > 1000 || f.MemoryMilli > 1000 {
		f = Fraction{
			CoreMilli:   max(a.CoreMilli, b.CoreMilli),
			MemoryMiB:   max(a.MemoryMiB, b.MemoryMiB),
			MemoryMilli: max(a.MemoryMilli, b.MemoryMilli),
			Cards:       join(a.Cards, b.Cards),
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
