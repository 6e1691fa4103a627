package forecast

import (
	"fmt"
	"math"

	"github.com/gpuscale/gpuscale/gpu/sample"
)

// Bound is which of a forecast's numbers is provided for.
type Bound string

// The bounds.
const (
	ForLow      Bound = "low"
	ForExpected Bound = "expected"
	ForHigh     Bound = "high"
)

// Headroom returns how many replicas the forecast asks for beyond the ones there
// are, and a sentence that says why. PerReplica is how much of the forecast one
// replica carries. It is never negative: a forecast buys ahead, it sells nothing;
// and zero without enough data or with a perReplica that is no amount. It is at
// most math.MaxInt32; what may really be bought is bounded by its reader.
func Headroom(f Forecast, bound Bound, perReplica float64, have int) (int, string) {
	if !f.Enough {
		return 0, "no headroom: not enough data: " + f.Why
	}
	if !(perReplica > 0) || math.IsInf(perReplica, 0) {
		return 0, fmt.Sprintf("no headroom: a replica that carries %g is no measure", perReplica)
	}
	demand, ok := f.bound(bound).Get()
	if !ok {
		return 0, fmt.Sprintf("no headroom: the forecast's %s is unknown", bound)
	}
	have = max(0, have)
	// A hair above a whole number is that number.
	wanted := int(min(math.Ceil(demand/perReplica*(1-1e-9)), math.MaxInt32))
	said := fmt.Sprintf("%.3g %s in %s by %s (MASE %s, coverage %s), %.3g a replica: %d wanted, %d there",
		demand, bound, short(f.Horizon), f.way(), number(f.Error.MASE), number(f.Error.Coverage), perReplica, wanted, have)
	if wanted <= have {
		return 0, "no headroom: " + said
	}
	return wanted - have, fmt.Sprintf("headroom of %d: %s", wanted-have, said)
}

// bound returns the number that a Bound names, unknown for any other word.
func (f Forecast) bound(b Bound) sample.Value {
	switch b {
	case ForLow:
		return f.Low
	case ForExpected:
		return f.Expected
	case ForHigh:
		return f.High
	}
	return sample.Unknown()
}
