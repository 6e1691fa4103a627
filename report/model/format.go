package model

import (
	"fmt"
	"math"
	"strconv"

	"github.com/gpuscale/gpuscale/internal/text"
)

// None is written for an unknown number; its reason is shown beside it.
const None = "n/a"

// written formats a number if it is known, else it returns None.
func written(n Number, write func(float64) string) string {
	v, ok := n.Get()
	if !ok {
		return None
	}
	return write(v)
}

// Shape writes what a pod requests: a number is one of GPUs, all else is the name of a slice.
func Shape(shape string) string {
	if n, err := strconv.ParseFloat(shape, 64); err == nil {
		return shape + " " + plural(n, "GPU", "GPUs")
	}
	return shape
}

// Digits writes three significant digits, and whole numbers from 100 on.
func Digits(n Number) string { return written(n, digits) }

func digits(v float64) string {
	switch {
	case math.Abs(v) < 1e-6:
		return "0"
	case v == math.Trunc(v) && math.Abs(v) < 1e15, math.Abs(v) >= 100:
		return thousands(v)
	case math.Abs(v) >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case math.Abs(v) >= 0.01:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 1, 64)
}

// thousands writes a whole number with commas.
func thousands(v float64) string { return text.Thousands(fmt.Sprintf("%.0f", v)) }

// Money writes an amount without its currency.
func Money(n Number) string {
	return written(n, func(v float64) string {
		if math.Abs(v) >= 1000 {
			return thousands(v)
		}
		return strconv.FormatFloat(v, 'f', 2, 64)
	})
}

// Share writes a share in tenths of a percent, rounded down, so shares of one whole never add up to more than 100 %.
func Share(n Number) string { return written(n, percent) }

func percent(v float64) string {
	const exact = 1e-7 // tolerance for rounding errors
	switch {
	case v < exact:
		return "0 %"
	case v < 0.001-exact:
		return "< 0.1 %"
	case math.Abs(v-1) < exact:
		return "100 %"
	}
	return fmt.Sprintf("%.1f %%", math.Floor(1000*(v+exact))/10)
}

// Seconds writes a time in a suitable unit.
func Seconds(n Number) string {
	return written(n, func(v float64) string {
		switch {
		case v < 120:
			return digits(v) + " s"
		case v < 7200:
			return digits(v/60) + " min"
		}
		return digits(v/3600) + " h"
	})
}

// Duration writes hours in a suitable unit.
func Duration(hours float64) string {
	v, unit := hours/24, "day"
	switch {
	case hours < 1:
		v, unit = hours*60, "minute"
	case hours < 48:
		v, unit = hours, "hour"
	}
	return fmt.Sprintf("%.3g %s", v, plural(v, unit, unit+"s"))
}

func plural(n float64, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

// Bytes writes a size in a suitable unit.
func Bytes(n Number) string {
	return written(n, func(v float64) string { return digits(v/(1<<30)) + " GiB" })
}

// Tokens writes a large count in a suitable unit.
func Tokens(n Number) string {
	return written(n, func(v float64) string {
		switch {
		case v >= 1e9:
			return digits(v/1e9) + " G"
		case v >= 1e6:
			return digits(v/1e6) + " M"
		}
		return thousands(v)
	})
}
