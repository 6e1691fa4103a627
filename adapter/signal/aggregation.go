package signal

import (
	"math"
	"slices"
)

// Aggregation makes one number of several. Every rule declares it, since an
// implicit choice between two series may be wrong.
type Aggregation string

// Aggregations.
const (
	Sum     Aggregation = "sum"     // amounts: queues, running requests
	Average Aggregation = "average" // utilisations
	Max     Aggregation = "max"     // latencies, and the conservative choice between duplicates
	Min     Aggregation = "min"
)

// of returns the aggregate of at least one value.
func (a Aggregation) of(values []float64) float64 {
	switch a {
	case Max:
		return slices.Max(values)
	case Min:
		return slices.Min(values)
	}
	total := 0.0
	for _, v := range values {
		total += v
	}
	if a == Average {
		return total / float64(len(values))
	}
	return total
}

// MaxValue is the largest magnitude a rule may serve. Thousandths of it, and
// of the sum over thousands of pods, fit an int64, which is where Kubernetes
// quantities overflow into nonsense.
const MaxValue = 1e12

// Milli returns v, which is not NaN, in thousandths, rounded to the nearest. A value that is not
// zero never becomes zero, since zero means "nothing to do". A sum that is too large is the
// largest: what Go makes of one depends on the machine.
func Milli(v float64) int64 {
	const most = math.MaxInt64 - 1023 // the largest that a float64 has
	if scaled := math.Round(v * 1000); scaled != 0 || v == 0 {
		return int64(min(max(scaled, -most), most))
	}
	return int64(math.Copysign(1, v))
}
