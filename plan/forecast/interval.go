package forecast

import (
	"math"
	"slices"

	"github.com/gpuscale/gpuscale/gpu/sample"
)

const (
	minChecks    = 10 // least number of past intervals for Coverage
	minResiduals = 20 // least number of errors for a past interval
)

// interval is how far below and above the forecast from now the outcome may
// lie.
type interval struct {
	low, high float64 // low ≤ 0 ≤ high
	power     float64 // errors are assumed to grow as the forecast to this power
	evidence  float64 // independent errors per test, at most 1
}

// interval takes the quantiles of an attempt's errors. Counted demand is
// noisier where there is more of it, so errors are also tried relative to the
// forecast's square root and to the forecast itself. The interval with the smallest
// score is taken: its width, and a penalty for each outcome outside (the interval score).
func (t *trial) interval(g *grid, a *attempt, level float64) interval {
	floor := t.floor(g)
	best, least := interval{}, math.Inf(1)
	for _, power := range [...]float64{0, 0.5, 1} {
		if power > 0 && floor == 0 {
			break
		}
		errs := t.scaled(g, a, power, floor)
		all := known(errs)
		evidence := independent(capped(all)) / float64(len(all))
		low, high := quantiles(all, level, evidence)
		score := 0.0
		for j := range t.tests {
			if e := errs[j]; !math.IsNaN(e) {
				miss := max(0, low-e, e-high) * 2 / (1 - level)
				score += (high - low + miss) * size(a.past[j], power, floor)
			}
		}
		if score < 0.98*least {
			now := size(a.live, power, floor)
			least, best = score, interval{low * now, high * now, power, evidence}
		}
	}
	return best
}

// around returns the interval about an attempt's forecast from now. Quantiles put
// low at or below zero and high at or above it, so the forecast lies inside.
func (in interval) around(a *attempt) (low, high float64) {
	return max(0, a.live+in.low), a.live + in.high
}

// floor returns the forecast below which errors are assumed not to shrink with it.
func (t *trial) floor(g *grid) float64 {
	mean, _ := meanKnown(t.each(func(_, i int) float64 { return g.last[i+t.k] }))
	return mean / 5
}

// size is the assumed size of errors around a forecast.
func size(forecast, power, floor float64) float64 {
	return math.Pow(max(forecast, floor), power)
}

// scaled returns (actual − forecast) ÷ size of each test, with spikes.
func (t *trial) scaled(g *grid, a *attempt, power, floor float64) []float64 {
	return t.each(func(j, i int) float64 { return (g.real[i+t.k] - a.past[j]) / size(a.past[j], power, floor) })
}

// capped limits numbers to their 2nd and 98th percentile, so that a spike does
// not hide the autocorrelation.
func capped(xs []float64) []float64 {
	sorted := slices.Sorted(slices.Values(xs))
	n := float64(len(xs) - 1)
	low, high := sorted[int(0.02*n)], sorted[int(math.Ceil(0.98*n))]
	out := make([]float64, len(xs))
	for i, x := range xs {
		out[i] = min(high, max(low, x))
	}
	return out
}

// quantiles returns the bounds of the middle share (level) of errors, low ≤ 0 ≤ high.
// evidence is the number of independent errors per error. Few independent errors give wider
// bounds: up to the largest error, and beyond it where there are too few for the level.
func quantiles(errs []float64, level, evidence float64) (low, high float64) {
	sorted := slices.Sorted(slices.Values(errs))
	n := float64(len(sorted))
	tail := (1 - level) / 2
	worth := max(1, n*evidence)
	out := math.Floor((worth+1)*tail) / (worth + 1) // share to leave out at each end
	rank := max(0, int(out*(n+1)+1e-9)-1)
	low, high = min(0, sorted[rank]), max(0, sorted[len(sorted)-1-rank])
	if missing := 1/tail - 1 - worth; missing > 0 {
		stretch := math.Sqrt(1 + missing/(worth+1))
		low, high = low*stretch, high*stretch
	}
	return low, high
}

// coverage is the share of tests whose outcome lay in an interval made only
// from the errors known at the time; NaN for too few of them.
func (t *trial) coverage(g *grid, a *attempt, in interval, level float64) float64 {
	errs := t.scaled(g, a, in.power, t.floor(g))
	var before []float64
	next, checks, inside := 0, 0, 0
	for j, i := range t.tests {
		for ; t.tests[next]+t.k <= i; next++ {
			if e := errs[next]; !math.IsNaN(e) {
				before = append(before, e)
			}
		}
		if len(before) < minResiduals || math.IsNaN(errs[j]) {
			continue
		}
		checks++
		if low, high := quantiles(before, level, in.evidence); errs[j] >= low && errs[j] <= high {
			inside++
		}
	}
	if checks < minChecks {
		return math.NaN()
	}
	return float64(inside) / float64(checks)
}

// errors returns the attempt's errors.
func (t *trial) errors(g *grid, a *attempt, in interval, level float64) Error {
	loss := t.loss(g, a)
	own, n := meanKnown(loss)
	same, _ := meanKnown(t.loss(g, t.runs[0][0]))
	mape, _ := meanKnown(t.each(func(j, i int) float64 {
		if actual := g.last[i+t.k]; actual > 0 {
			return loss[j] / actual
		}
		return math.NaN()
	}))
	return Error{
		MAPE:     sample.Known(mape, g.age),
		MASE:     sample.Known(own/same, g.age), // 0/0 is NaN: unknown
		Coverage: sample.Known(t.coverage(g, a, in, level), g.age),
		Tests:    n,
	}
}
