package forecast

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
)

const (
	newest     = 4    // newest values that show whether an attempt has lost track
	minAnswers = 0.9  // share of the tests for which an attempt must have an answer
	minGain    = 0.02 // share of the error that a less simple method must save at least
	gainSure   = 1.64 // standard errors that what it saves must reach
	gainPlain  = 0.5  // a method that saves more than this share needs no gainSure
)

// choose returns the attempt with the smallest error. lostToo allows attempts that have lost
// track. A less simple method must be better by more than chance explains (Diebold and
// Mariano's test), so that the simplest wins ties. Settings of one method are
// compared by mean error only. Nil means that none has enough answers.
func (t *trial) choose(g *grid, lostToo bool) *attempt {
	var best *attempt
	var bestLoss []float64
	for _, settings := range t.runs {
		a, loss := t.bestSetting(g, settings, lostToo)
		if a != nil && (best == nil || better(loss, bestLoss)) {
			best, bestLoss = a, loss
		}
	}
	return best
}

// bestSetting returns the setting with the smallest mean error, and its errors.
func (t *trial) bestSetting(g *grid, settings []*attempt, lostToo bool) (*attempt, []float64) {
	var best *attempt
	var bestLoss []float64
	least := math.Inf(1)
	for _, a := range settings {
		if math.IsNaN(a.live) || a.lost && !lostToo {
			continue
		}
		loss := t.loss(g, a)
		if mean, n := meanKnown(loss); float64(n) >= minAnswers*float64(len(loss)) && mean < least {
			best, bestLoss, least = a, loss, mean
		}
	}
	return best, bestLoss
}

// lostTrack reports whether the series has changed and an attempt does not follow yet:
// the newest values all lie on the same side of its forecasts one cell ahead, further off
// than 39 of 40 of its earlier errors.
func (t *trial) lostTrack(g *grid, a *attempt) bool {
	until := len(t.tests) - newest
	if until < minTests {
		return false
	}
	errs := t.each(func(j, i int) float64 { return g.last[i+1] - a.past[j] })
	before := known(errs[:until])
	if len(before) < minTests {
		return false
	}
	low, high := quantiles(before, 0.95, 1)
	above, below := true, true
	for _, e := range errs[until:] {
		above, below = above && e > high, below && e < low
	}
	return above || below
}

// loss returns |actual − forecast| of each test, spikes clipped.
func (t *trial) loss(g *grid, a *attempt) []float64 {
	return t.each(func(j, i int) float64 { return math.Abs(g.last[i+t.k] - a.past[j]) })
}

// each returns a number for each test: that of test j, which forecasts from cell i.
func (t *trial) each(number func(j, i int) float64) []float64 {
	out := make([]float64, len(t.tests))
	for j, i := range t.tests {
		out[j] = number(j, i)
	}
	return out
}

// better reports whether errors a are smaller than errors b of the same tests,
// and not by chance.
func better(a, b []float64) bool {
	gain := known(floats.SubTo(make([]float64, len(a)), b, a))
	base, _ := meanKnown(b)
	mean, variance := stat.PopMeanVariance(gain, nil)
	if !(mean > minGain*base) {
		return false
	}
	if mean > gainPlain*base {
		return true
	}
	worth := independent(gain)
	few := 1 + 2/worth // a deviation estimated from few values is itself uncertain
	return mean > gainSure*few*math.Sqrt(variance/worth)
}

// independent returns the effective sample size: how many independent values are worth as
// much as xs, by the autocorrelation at one step. Errors of overlapping spans are not all
// new evidence. The result is at least 1.
func independent(xs []float64) float64 {
	mean, n := meanKnown(xs)
	var with, own float64
	for i, x := range xs {
		own += (x - mean) * (x - mean)
		if i > 0 {
			with += (x - mean) * (xs[i-1] - mean)
		}
	}
	if own == 0 {
		return math.Max(1, float64(n))
	}
	r := min(0.99, max(0, with/own))
	return math.Max(1, float64(n)*(1-r)/(1+r))
}

// known returns the numbers, without NaN.
func known(xs []float64) []float64 { return slices.DeleteFunc(slices.Clone(xs), math.IsNaN) }

// meanKnown returns the mean of the numbers and their count; NaN for none. The mean of equal
// numbers is exact.
func meanKnown(xs []float64) (float64, int) {
	m := mean{at: math.NaN()}
	for _, x := range known(xs) {
		m.add(x)
	}
	return m.at, int(m.n)
}

// mean is a running mean: at is the mean of the n numbers that were added.
type mean struct{ at, n float64 }

func (m *mean) add(x float64) {
	if m.n++; m.n == 1 {
		m.at = x
	}
	m.at += (x - m.at) / m.n
}
