package forecast

import (
	"cmp"
	"fmt"
	"time"

	"github.com/gpuscale/gpuscale/gpu/sample"
)

// Day and Week are the default seasons. They are plain durations: daylight
// saving time shifts the day's shape.
const (
	Day  = 24 * time.Hour
	Week = 7 * Day
)

// Query is what to forecast. The zero value of every field but Now and Horizons
// has a meaning.
type Query struct {
	// Now is the time of the forecast. Later points are ignored.
	Now time.Time
	// Horizons are how far ahead to forecast, each more than zero.
	Horizons []time.Duration
	// Step is the time that one value stands for: points in the same step are
	// averaged. Zero is the median distance of the points.
	Step time.Duration
	// Seasons are the periods to consider; nil is Day and Week, an empty list is
	// none. A season is considered when the series is at least two of it long.
	Seasons []time.Duration
	// Level is the share of outcomes that the interval should contain, between 0
	// and 1; zero is 0.8.
	Level float64
	// MinPoints is the least number of known steps; zero is 30.
	MinPoints int
	// StaleSteps is the largest age of the newest value in steps; zero is 5.
	StaleSteps int
	// Holidays are forecast from earlier ones or from weekends, and other days without
	// them; nil for none.
	Holidays *Holidays
}

// Method is a forecasting method.
type Method string

// The methods, the simplest first.
const (
	Last           Method = "last-value"      // no change
	Level          Method = "level"           // exponentially weighted mean
	DampedTrend    Method = "damped-trend"    // Holt's, its trend fading
	Line           Method = "line"            // regression on a straight line, by QR
	SeasonalNaive  Method = "seasonal-naive"  // as one season before
	SeasonalMedian Method = "seasonal-median" // the median of some seasons before
	HoltWinters    Method = "holt-winters"    // additive season on a damped trend
	Fourier        Method = "fourier"         // the same on a line and waves
	Holiday        Method = "holiday"         // the median of some holidays before
	Weekend        Method = "weekend"         // the same of weekends' days, for a holiday
)

// Reason is why there is a forecast, or none. The set is closed.
type Reason string

// The reasons.
const (
	Enough        Reason = "Enough"
	BadQuestion   Reason = "BadQuestion"   // the Query is invalid
	NoData        Reason = "NoData"        // no known value
	TooFewPoints  Reason = "TooFewPoints"  // fewer known steps than MinPoints
	Stale         Reason = "Stale"         // the newest value is too old
	TooShort      Reason = "TooShort"      // the past is too short, or has too many gaps, for this horizon
	Unforeseeable Reason = "Unforeseeable" // no method had an answer
)

// Forecast is the result for one horizon. Low, Expected and High are in the
// series' unit, never negative, Low ≤ Expected ≤ High, and as old as the newest
// value; they are unknown unless Enough.
type Forecast struct {
	At                  time.Time     // Query.Now + Horizon
	Horizon             time.Duration // as queried
	Low, Expected, High sample.Value
	Level               float64       // share of outcomes that should lie in Low … High
	Method              Method        // empty unless Enough
	Season              time.Duration // the longest period that Method uses; zero for none
	Error               Error
	Enough              bool
	Reason              Reason
	Why                 string // a sentence for users
}

// Error is Method's error on the series' past at the same horizon. Every part
// may be unknown. Spikes are clipped before MAPE and MASE, not before Coverage.
type Error struct {
	// MAPE is the mean of |actual − forecast| ÷ actual over actual values that are
	// not zero; 0.1 is 10 %.
	MAPE sample.Value
	// MASE is the mean of |actual − forecast| ÷ that of a forecast of no change:
	// below 1 is better.
	MASE sample.Value
	// Coverage is the share of actual values inside an interval made only from the
	// errors known before them.
	Coverage sample.Value
	// Tests is the number of places in the past from which a forecast was tested.
	Tests int
}

// Make returns one Forecast for each horizon, in their order. Points may come
// in any order. A point that is NaN, infinite or negative is unknown, as if it
// were missing. Cost is bounded: at most 4,096 cells are kept, whatever the
// length.
func Make(points []sample.Point, query Query) []Forecast {
	query = query.filled()
	out := make([]Forecast, len(query.Horizons))
	for i, h := range query.Horizons {
		out[i] = Forecast{At: query.Now.Add(h), Horizon: h, Level: query.Level}
	}
	g, reason, why := newGrid(points, query)
	if reason != Enough {
		for i := range out {
			out[i].Reason, out[i].Why = reason, why
		}
		return out
	}
	if query.Holidays == nil {
		trials := try(g, query.Horizons)
		for i := range out {
			answer(&out[i], g, trials[i])
		}
		return out
	}
	cal := query.Holidays.over(g, query.Now)
	usual, without := cal.without()
	trials := try(usual, query.Horizons)
	for i := range out {
		if _, ok := query.Holidays.on(out[i].At); ok && out[i].Horizon > 0 {
			cal.answer(&out[i], query.Level)
			continue
		}
		if answer(&out[i], usual, trials[i]); without > 0 {
			out[i].Why += fmt.Sprintf("; without %d holiday(s)", without)
		}
	}
	return out
}

// filled returns the Query with its defaults.
func (a Query) filled() Query {
	if a.Seasons == nil {
		a.Seasons = []time.Duration{Day, Week}
	}
	if a.Level == 0 {
		a.Level = 0.8
	}
	if a.MinPoints <= 0 {
		a.MinPoints = 30
	}
	if a.StaleSteps <= 0 {
		a.StaleSteps = 5
	}
	return a
}

// problem returns why the whole Query is invalid, empty for valid.
func (a Query) problem() string {
	switch {
	case !(a.Level > 0 && a.Level < 1):
		return "the level of the interval must lie between 0 and 1"
	case a.Step < 0 || a.Step > Week:
		return "the step must not be negative, nor longer than a week"
	}
	for _, s := range a.Seasons {
		if s <= 0 || s > 60*Week {
			return "a season must last longer than nothing, and at most 60 weeks"
		}
	}
	return ""
}

// answer fills in the result of the tests for one horizon.
func answer(f *Forecast, g *grid, t trial) {
	if f.Horizon <= 0 {
		f.Reason, f.Why = BadQuestion, "the horizon must lie ahead"
		return
	}
	if f.Reason, f.Why = t.verdict(f.Horizon); f.Reason != Enough {
		return
	}
	usual := t.choose(g, all)
	if usual == nil {
		f.Reason, f.Why = Unforeseeable, "no method has an answer here: too much of the past is unknown"
		return
	}
	best := usual
	if usual.lost {
		best = cmp.Or(t.choose(g, onTrack), usual)
	}
	t.fill(f, g, best, usual, f.Level)
	f.Why = because(best, usual, f.Error)
}

// fill fills in the forecast of an attempt. Where it is not the usual one the change
// may last or pass: the interval contains both.
func (t *trial) fill(f *Forecast, g *grid, best, usual *attempt, level float64) {
	in := t.interval(g, best, level)
	low, high := in.around(best)
	if best != usual {
		l, h := t.interval(g, usual, level).around(usual)
		low, high = min(low, l), max(high, h)
	}
	value := func(x float64) sample.Value { return sample.Known(g.unscale(x), g.age) }
	f.Low, f.Expected, f.High = value(low), value(best.live), value(high)
	f.Method, f.Season, f.Enough = best.method, best.season, true
	f.Error, f.Reason = t.errors(g, best, in, level), Enough
}
