package forecast

import (
	"cmp"
	"fmt"
	"time"

	"github.com/gpuscale/gpuscale/gpu/sample"
)

// Day and Week are the seasons, on the clock of Query.Zone. A season is considered when the
// series is at least twice as long.
const (
	Day  = 24 * time.Hour
	Week = 7 * Day
)

const (
	usualLevel = 0.8 // Make's level, see MakeEach
	minPoints  = 30  // least number of known steps
	staleSteps = 5   // largest age of the newest value, in steps
)

// Query is what to forecast.
type Query struct {
	// Now is the time of the forecast. Later points are ignored.
	Now time.Time
	// Horizons are how far ahead to forecast, each more than zero.
	Horizons []time.Duration
	// Step is the time that one value stands for: points in the same step are
	// averaged. Zero is the median distance between points.
	Step time.Duration
	// Zone is the time zone whose clock the demand follows; nil is UTC. "One day before" is at the
	// same time on this clock, even where the clock was set forward or back in between. A forecast
	// across a coming change of the clock is an hour off.
	Zone *time.Location
	// Holidays are forecast from earlier holidays or from weekends. Other days are forecast
	// without them. Nil for none.
	Holidays *Holidays
}

// Method is a forecasting method.
type Method string

// The methods, the simplest first.
const (
	Last           Method = "last-value"      // no change
	Level          Method = "level"           // exponentially weighted mean
	DampedTrend    Method = "damped-trend"    // Holt's, its trend fading
	Line           Method = "line"            // Holt's, its trend lasting
	SeasonalNaive  Method = "seasonal-naive"  // the value one season before
	SeasonalMedian Method = "seasonal-median" // the median of some seasons before, smoothed or not
	HoltWinters    Method = "holt-winters"    // additive season on a damped trend
	Holiday        Method = "holiday"         // the median of some holidays before
	Weekend        Method = "weekend"         // for a holiday: the median of some weekend days before
)

// Reason is why there is a forecast, or none. The set is closed.
type Reason string

// The reasons.
const (
	Enough        Reason = "Enough"
	BadQuestion   Reason = "BadQuestion"   // the Query is invalid
	NoData        Reason = "NoData"        // no known value
	TooFewPoints  Reason = "TooFewPoints"  // too few known steps
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
	// MASE is the mean of |actual − forecast| ÷ that mean for the method last-value: below 1
	// is better than last-value.
	MASE sample.Value
	// Coverage is the share of actual values inside their interval. The interval of each
	// value is made only from the errors known at that time.
	Coverage sample.Value
	// Tests is the number of places in the past from which a forecast was tested.
	Tests int
}

// Make returns one Forecast for each horizon, in their order. Points may come
// in any order. A point that is NaN, infinite or negative is unknown, as if it
// were missing. Cost is bounded: at most 4,096 cells are kept, whatever the
// length.
func Make(points []sample.Point, query Query) []Forecast {
	return MakeEach(points, query, usualLevel)[0]
}

// MakeEach is Make for several levels, from the same tests: one list of forecasts for each
// level. A level is the share of outcomes that the interval should contain, between 0 and 1.
// Make's level is 0.8.
func MakeEach(points []sample.Point, query Query, levels ...float64) [][]Forecast {
	g, reason, why := newGrid(points, query)
	onClock := func(t time.Time) time.Time { return clock(t, query.Zone) }
	var trials []trial
	var cal *days
	without := 0
	if reason == Enough {
		if query.Holidays != nil {
			cal = query.Holidays.over(g, onClock(query.Now))
			g, without = cal.without()
		}
		trials = try(g, query.Horizons)
	}
	all := make([][]Forecast, len(levels))
	for n, level := range levels {
		for i, h := range query.Horizons {
			f := Forecast{At: query.Now.Add(h), Horizon: h, Level: level, Reason: reason, Why: why}
			_, holiday := query.Holidays.on(onClock(f.At))
			switch {
			case !(f.Level > 0 && f.Level < 1):
				f.Reason, f.Why = BadQuestion, "the level of the interval must be between 0 and 1"
			case reason != Enough:
			case holiday && h > 0:
				cal.answer(&f, onClock(f.At))
			default:
				if answer(&f, g, trials[i]); without > 0 {
					f.Why += fmt.Sprintf("; without %d holiday(s)", without)
				}
			}
			all[n] = append(all[n], f)
		}
	}
	return all
}

// answer fills in the result of the tests for one horizon.
func answer(f *Forecast, g *grid, t trial) {
	if f.Horizon <= 0 {
		f.Reason, f.Why = BadQuestion, "the horizon must be above 0"
		return
	}
	if f.Reason, f.Why = t.verdict(f.Horizon); f.Reason != Enough {
		return
	}
	usual := t.choose(g, true)
	if usual == nil {
		f.Reason, f.Why = Unforeseeable, "no method can forecast this series: too much of its past is unknown"
		return
	}
	best := usual
	if usual.lost {
		best = cmp.Or(t.choose(g, false), usual)
	}
	t.fill(f, g, best, usual)
	f.Why = because(best, usual, f.Error)
}

// fill fills in the forecast of best. Where best is not usual, the series has changed, and
// the change may last or pass: the interval then contains the intervals of both.
func (t *trial) fill(f *Forecast, g *grid, best, usual *attempt) {
	in := t.interval(g, best, f.Level)
	low, high := in.around(best)
	if best != usual {
		l, h := t.interval(g, usual, f.Level).around(usual)
		low, high = min(low, l), max(high, h)
	}
	value := func(x float64) sample.Value { return sample.Known(g.unscale(x), g.age) }
	f.Low, f.Expected, f.High = value(low), value(best.live), value(high)
	f.Method, f.Season, f.Enough = best.method, best.season, true
	f.Error, f.Reason = t.errors(g, best, in, f.Level), Enough
}
