package forecast

import (
	"fmt"
	"math"
	"slices"
	"time"
)

const (
	maxOrigins = 400 // most places in the past that are forecast from, besides the newest
	minTests   = 12  // least number of tests: of places with a known outcome
)

// model forecasts from each origin (a cell, ascending), using nothing later,
// for each of ks cells ahead: out[h][o], NaN where it has no answer.
type model interface {
	run(g *grid, ks, origins []int) [][]float64
}

// candidate is one method with all its settings.
type candidate struct {
	method   Method
	season   time.Duration
	settings []model
}

// candidates lists the methods, the simplest first.
func candidates(g *grid) []candidate {
	out := []candidate{
		{method: Last, settings: []model{lastValue{}}},
		{method: Level, settings: levels},
		{method: DampedTrend, settings: trends},
		{method: Line, settings: lines},
	}
	for _, s := range g.seasons {
		out = append(out,
			candidate{SeasonalNaive, s, []model{sameTime{period: s, count: 1}}},
			candidate{SeasonalMedian, s, medians(s)})
	}
	for _, s := range g.seasons {
		out = append(out, candidate{HoltWinters, s, seasonal(s)})
	}
	return out
}

var levels = []model{
	smoothing{level: 0.7}, smoothing{level: 0.3}, smoothing{level: 0.1},
	smoothing{level: 0.03}, smoothing{level: 0.01},
}

var trends = []model{
	smoothing{level: 0.5, trend: 0.2, damp: 0.95}, smoothing{level: 0.5, trend: 0.05, damp: 0.99},
	smoothing{level: 0.2, trend: 0.1, damp: 0.95}, smoothing{level: 0.2, trend: 0.02, damp: 0.99},
	smoothing{level: 0.05, trend: 0.02, damp: 0.99}, smoothing{level: 0.05, trend: 0.005, damp: 0.998},
}

var lines = []model{smoothing{level: 0.05, trend: 0.005, damp: 0.9999}, smoothing{level: 0.02, trend: 0.001, damp: 0.9999}}

func medians(period time.Duration) []model {
	out := []model{sameTime{period: period, count: 3}, sameTime{period: period, count: 5}}
	for _, around := range []time.Duration{30 * time.Minute, time.Hour, 2 * time.Hour} {
		out = append(out, sameTime{period, 5, around, 0}, sameTime{period, 5, around, Day})
	}
	return out
}

func seasonal(period time.Duration) []model {
	return []model{
		smoothing{level: 0.3, trend: 0.02, damp: 0.98, season: 0.2, period: period},
		smoothing{level: 0.1, trend: 0.01, damp: 0.98, season: 0.2, period: period},
		smoothing{level: 0.03, trend: 0.002, damp: 0.99, season: 0.3, period: period},
		smoothing{level: 0.005, trend: 0.0001, damp: 0.998, season: 0.3, period: period},
	}
}

// trial is one horizon tested from many places in the past.
type trial struct {
	k      int          // cells ahead
	tests  []int        // cells forecast from, ascending, with a known outcome
	places []int        // their positions among all origins
	runs   [][]*attempt // by candidate and setting
}

// attempt is the forecasts of one setting of a candidate.
type attempt struct {
	method Method
	season time.Duration
	past   []float64 // for each test, NaN where there was no answer
	live   float64   // the forecast from now
	lost   bool      // the newest values contradict it
}

// try runs every candidate once over the grid, for all horizons together. The
// forecast from now is the last one of the row that the tests use, so that what is used is
// what is tested. A horizon of one cell is added for lostTrack.
func try(g *grid, horizons []time.Duration) []trial {
	origins := originsOf(len(g.mean))
	out := make([]trial, len(horizons))
	trials := []*trial{{k: 1}}
	ks := []int{1}
	for h, d := range horizons {
		out[h].k = g.ahead(d)
		if out[h].k < len(g.mean) && d > 0 {
			trials, ks = append(trials, &out[h]), append(ks, out[h].k)
		}
	}
	for _, t := range trials {
		t.place(g, origins)
	}
	for _, c := range candidates(g) {
		for _, t := range trials {
			t.runs = append(t.runs, nil)
		}
		for _, m := range c.settings {
			rows := m.run(g, ks, origins)
			lost := false
			for h, t := range trials {
				a := &attempt{method: c.method, season: c.season, live: sane(rows[h][len(origins)-1])}
				for _, o := range t.places {
					a.past = append(a.past, sane(rows[h][o]))
				}
				if h == 0 {
					lost = t.lostTrack(g, a)
				}
				a.lost = lost
				t.runs[len(t.runs)-1] = append(t.runs[len(t.runs)-1], a)
			}
		}
	}
	return out
}

// place finds the origins with a known outcome.
func (t *trial) place(g *grid, origins []int) {
	for o, i := range origins {
		if to := i + t.k; to < len(g.mean) && g.fresh(i) && !math.IsNaN(g.real[to]) {
			t.places, t.tests = append(t.places, o), append(t.tests, i)
		}
	}
}

// originsOf returns cells spread over the second half of n cells, and all of the
// newest cells.
func originsOf(n int) []int {
	stride := n/2/maxOrigins + 1
	var out []int
	for i := n - 1; i >= n/2; i-- {
		if (n-1-i)%stride == 0 || n-1-i <= newest {
			out = append(out, i)
		}
	}
	slices.Reverse(out)
	return out
}

// sane replaces a negative forecast by zero, and an infinite one by NaN.
func sane(x float64) float64 {
	if math.IsInf(x, 0) {
		return math.NaN()
	}
	return max(0, x)
}

// verdict returns whether the trial allows a forecast, and why not.
func (t *trial) verdict(h time.Duration) (Reason, string) {
	if n := len(t.tests); n < minTests {
		return TooShort, fmt.Sprintf("what came %v later is known from only %d times in the past, at least %d are required", h, n, minTests)
	}
	return Enough, ""
}
