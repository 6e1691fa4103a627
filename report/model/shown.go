package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// tenth is the unit in which shares of the capacity are written.
const tenth = 0.001

// Shown are the shares by place as they are written: in tenths of a percent, which
// together are never more than the whole. The largest remainders are rounded up; a place
// of less than a tenth keeps its share and is written as such.
func (h Hours) Shown() map[string]Number {
	shown := map[string]Number{}
	var rounded []Place
	whole := 0.0
	for _, p := range h.Places {
		shown[p.Place] = p.Share
		if v, ok := p.Share.Get(); ok && v >= tenth {
			rounded = append(rounded, p)
			whole += v
		}
	}
	const exact = 1e-4 // rounding errors, and what is written 0 %
	units := func(share float64) float64 { return math.Floor(share/tenth + exact) }
	left := units(whole)
	for _, p := range rounded {
		left -= units(p.Share.v)
	}
	slices.SortStableFunc(rounded, func(a, b Place) int {
		return cmp.Compare(b.Share.v/tenth-units(b.Share.v), a.Share.v/tenth-units(a.Share.v))
	})
	for i, p := range rounded {
		n := units(p.Share.v)
		if float64(i) < left {
			n++
		}
		shown[p.Place] = Known(n * tenth)
	}
	return shown
}

// Tenths writes a share of Shown, or a sum of such shares.
func Tenths(n Number) string {
	v, ok := n.Get()
	switch {
	case !ok:
		return "n/a"
	case v < 1e-7:
		return "0 %"
	case v < tenth-1e-9:
		return "< 0.1 %"
	case v > 1-tenth/2:
		return "100 %"
	}
	return fmt.Sprintf("%.1f %%", 100*v)
}
