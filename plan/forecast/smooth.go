package forecast

import (
	"math"
	"time"
)

// maxBins is the largest number of parts of a season. A part longer than a cell gets
// several values a season: less noise, and less effect of gaps.
const maxBins = 168

// smoothing is exponential smoothing of a level, a fading trend and an additive
// season. With trend zero there is no trend, with period zero no season.
type smoothing struct {
	level, trend, season float64       // gains: the weight of a new cell, 0 … 1
	damp                 float64       // factor on the trend for each cell
	period               time.Duration // of the season
}

// run passes once through the grid and forecasts from each origin (ascending)
// for each of ks cells ahead: out[h][o], NaN where it has no answer.
func (s smoothing) run(g *grid, ks, origins []int) [][]float64 {
	out := unknownRows(len(ks), len(origins))
	st := newState(s, g)
	next := 0
	for next < len(origins) && origins[next] < st.start {
		next++
	}
	for i := st.start; i < len(g.mean) && next < len(origins); i++ {
		st.take(i, g.mean[i])
		if i != origins[next] {
			continue
		}
		for h, k := range ks {
			out[h][next] = st.at(i, k)
		}
		next++
	}
	return out
}

// state is the state of the smoothing.
type state struct {
	smoothing
	base, slope float64   // level now, trend per cell
	bins        []float64 // by part of the season, what it adds to the level; nil for no season
	cell        time.Duration
	start       int // first cell that is taken
}

// newState starts at the first cell. With a season it starts after the first
// season, which gives the first level and shape.
func newState(s smoothing, g *grid) *state {
	st := &state{smoothing: s, base: math.NaN(), cell: g.cell}
	if s.period == 0 {
		return st
	}
	length := int(s.period / g.cell)
	st.start = length
	st.bins = unknowns(min(maxBins, length))
	st.smoothing.season *= float64(len(st.bins)) / float64(length)
	st.base, _ = meanKnown(g.mean[:length])
	shape := make([]mean, len(st.bins))
	for i, y := range g.mean[:length] {
		if b := st.bin(i); !math.IsNaN(y) {
			shape[b].add(y - st.base)
			st.bins[b] = shape[b].at
		}
	}
	return st
}

// bin returns the part of the season that contains cell i.
func (st *state) bin(i int) int {
	phase := time.Duration(i) * st.cell % st.period
	return min(len(st.bins)-1, int(float64(phase)/float64(st.period)*float64(len(st.bins))))
}

// take advances by cell i with its value. Where the value is unknown (NaN), the level
// follows the trend.
func (st *state) take(i int, y float64) {
	before := st.base
	slope := st.damp * st.slope
	expected := before + slope
	shape := 0.0
	if st.bins != nil {
		shape = st.bins[st.bin(i)]
	}
	switch {
	case math.IsNaN(y):
		st.base, st.slope = expected, slope
	case math.IsNaN(before):
		if st.base = y; st.bins != nil {
			st.bins[st.bin(i)] = 0
		}
	case math.IsNaN(shape): // this part of the season has no value yet: it takes all of the difference
		st.base, st.slope = expected, slope
		st.bins[st.bin(i)] = y - expected
	default:
		st.base = expected + st.level*(y-shape-expected)
		if st.trend > 0 {
			st.slope = slope + st.trend*(st.base-before-slope)
		}
		if st.bins != nil {
			st.bins[st.bin(i)] += st.season * (y - st.base - shape)
		}
	}
}

// at forecasts k cells after cell i.
func (st *state) at(i, k int) float64 {
	y := st.base
	if st.trend > 0 {
		y += st.slope * st.damp * (1 - math.Pow(st.damp, float64(k))) / (1 - st.damp)
	}
	if st.bins != nil {
		y += st.bins[st.bin(i+k)]
	}
	return y
}

func unknownRows(rows, n int) [][]float64 {
	out := make([][]float64, rows)
	for i := range out {
		out[i] = unknowns(n)
	}
	return out
}
