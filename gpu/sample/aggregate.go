package sample

import (
	"math"
	"slices"
	"time"
)

// Quantile returns the q-quantile (0 … 1) of the known values, between two of
// them by their distance, as Prometheus does. It is unknown without any known
// value or with q out of range, and as old as the oldest of them.
func Quantile(q float64, vs []Value) Value {
	numbers, age := known(vs)
	if len(numbers) == 0 || !(q >= 0 && q <= 1) {
		return Unknown()
	}
	slices.Sort(numbers)
	rank := q * float64(len(numbers)-1)
	low := int(math.Floor(rank))
	high := min(low+1, len(numbers)-1)
	part := rank - float64(low)
	return Known(numbers[low]*(1-part)+numbers[high]*part, age)
}

// Sum returns the sum of all values. One unknown makes it unknown: a sum over
// some of them would be too small, and nobody could tell.
func Sum(vs []Value) Value {
	numbers, age := known(vs)
	if len(numbers) == 0 || len(numbers) < len(vs) {
		return Unknown()
	}
	var sum float64
	for _, n := range numbers {
		sum += n
	}
	return Known(sum, age)
}

// Mean returns the mean of the known values, unknown without any.
func Mean(vs []Value) Value {
	numbers, age := known(vs)
	if len(numbers) == 0 {
		return Unknown()
	}
	var mean float64
	for i, n := range numbers {
		mean += (n - mean) / float64(i+1)
	}
	return Known(mean, age)
}

// Max returns the largest known value, unknown without any.
func Max(vs []Value) Value {
	numbers, age := known(vs)
	if len(numbers) == 0 {
		return Unknown()
	}
	return Known(slices.Max(numbers), age)
}

// Coverage returns the share of values that are known, 0 … 1; 0 for none at all.
func Coverage(vs []Value) float64 {
	if len(vs) == 0 {
		return 0
	}
	numbers, _ := known(vs)
	return float64(len(numbers)) / float64(len(vs))
}

// known returns the known numbers and the age of the oldest.
func known(vs []Value) ([]float64, time.Duration) {
	var numbers []float64
	var oldest time.Duration
	for _, v := range vs {
		if n, ok := v.Get(); ok {
			numbers = append(numbers, n)
			oldest = max(oldest, v.age)
		}
	}
	return numbers, oldest
}
