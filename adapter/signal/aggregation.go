package signal

import (
	"fmt"
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

func (a Aggregation) validate() error {
	switch a {
	case Sum, Average, Max, Min:
		return nil
	}
	return fmt.Errorf(`%q is not one of "sum", "average", "max", "min"`, string(a))
}
