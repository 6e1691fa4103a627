package forecast

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/gpu/sample"
)

const (
	maxCells   = 4096 // with more steps, several share a cell
	maxSeasons = 8    // weeks of the past that are used, if that is more than maxCells steps
	minSeasons = 2    // a season is considered if the series is this many seasons long
)

// grid is the series in cells of equal length that end at Now, NaN where
// nothing is known. Numbers are divided by a power of two, so that the largest
// lies between ½ and 1: nothing overflows, and the same series times two gives
// the same bits.
type grid struct {
	cell    time.Duration
	mean    []float64       // over the cell's known steps, spikes clipped
	last    []float64       // the cell's newest known step, spikes clipped
	real    []float64       // the same with spikes, for intervals
	seen    []int           // index of the newest known cell up to here, or -1
	stale   int             // nothing is forecast from a cell after this many unknown ones
	age     time.Duration   // of the newest value
	seasons []time.Duration // those that the series is long enough for
	exp     int             // numbers are divided by 2 to this power
}

// newGrid makes the grid, or returns why it cannot.
func newGrid(points []sample.Point, query Query) (*grid, Reason, string) {
	points = trusted(points, query.Now)
	if len(points) == 0 {
		return nil, NoData, "none of the values is known"
	}
	step := query.Step
	if step < 0 || step > Week {
		return nil, BadQuestion, "the step must not be negative, nor longer than a week"
	}
	if step == 0 {
		step = medianGap(points)
	}
	if step == 0 || step > Week {
		return nil, TooFewPoints, "the values are all of one instant, or more than a week apart"
	}
	age := query.Now.Sub(points[len(points)-1].At)
	if age/step >= staleSteps {
		return nil, Stale, fmt.Sprintf("the newest value is %v old: %d steps of %v are allowed", age, staleSteps, step)
	}
	points, now := onClock(points, query.Zone), clock(query.Now, query.Zone)
	points = recent(points, now, step)
	steps := toSteps(points, now, step)
	if len(steps) < minPoints {
		return nil, TooFewPoints, fmt.Sprintf("%d steps of %v are known, at least %d are required", len(steps), step, minPoints)
	}
	g := &grid{age: age}
	g.fill(steps, step)
	g.stale = max(1, staleSteps/int(g.cell/step))
	for _, s := range []time.Duration{Day, Week} {
		if span := g.cell * time.Duration(len(g.mean)); span/minSeasons >= s && s/g.cell >= 4 {
			g.seasons = append(g.seasons, s)
		}
	}
	clip(g.mean, g.cell, g.seasons)
	clip(g.last, g.cell, g.seasons)
	g.scale()
	return g, Enough, ""
}

// trusted returns the points up to now that have a number, ascending.
func trusted(points []sample.Point, now time.Time) []sample.Point {
	out := make([]sample.Point, 0, len(points))
	for _, p := range points {
		if p.Number >= 0 && !math.IsInf(p.Number, 0) && !p.At.After(now) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b sample.Point) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Number, b.Number))
	})
	return out
}

// clock returns what the clock of a zone shows at t, as a time in UTC.
func clock(t time.Time, zone *time.Location) time.Time {
	_, offset := t.In(cmp.Or(zone, time.UTC)).Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// onClock gives points the times that the clock of a zone shows. Where it shows an hour
// twice, the points of the second one replace those of the first.
func onClock(points []sample.Point, zone *time.Location) []sample.Point {
	out := slices.Clone(points)
	first := len(out)
	var kept time.Time
	for _, p := range slices.Backward(points) {
		at := clock(p.At, zone)
		if first < len(out) && !at.Before(out[first].At) && !p.At.Equal(kept) {
			continue
		}
		first--
		kept, out[first] = p.At, sample.Point{At: at, Number: p.Number}
	}
	return out[first:]
}

// medianGap returns the median time between points of different instants.
func medianGap(points []sample.Point) time.Duration {
	var gaps []time.Duration
	for i := 1; i < len(points); i++ {
		if gap := points[i].At.Sub(points[i-1].At); gap > 0 {
			gaps = append(gaps, gap)
		}
	}
	if len(gaps) == 0 {
		return 0
	}
	slices.Sort(gaps)
	return gaps[len(gaps)/2]
}

// recent drops the points that are too old: older than maxSeasons weeks and than maxCells
// steps. It also drops the points before a gap that is longer than all the time since, if
// they are fewer than those after it: one stray value must not stretch the grid.
func recent(points []sample.Point, now time.Time, step time.Duration) []sample.Point {
	longest := max(maxCells*step, maxSeasons*Week)
	first := 0
	for i := len(points) - 1; i > 0; i-- {
		after := now.Sub(points[i].At)
		hole := points[i].At.Sub(points[i-1].At)
		tooOld := now.Sub(points[i-1].At) > longest
		if tooOld || hole > max(after, 10*step) && i < len(points)-i {
			first = i
			break
		}
	}
	return points[first:]
}

// stepValue is the mean of the points in one step.
type stepValue struct {
	back int // steps before now
	mean
}

// toSteps averages the points of each step; newest last.
func toSteps(points []sample.Point, now time.Time, step time.Duration) []stepValue {
	var out []stepValue
	for _, p := range points {
		back := int(now.Sub(p.At) / step)
		if n := len(out); n == 0 || out[n-1].back != back {
			out = append(out, stepValue{back: back})
		}
		out[len(out)-1].add(p.Number)
	}
	return out
}

// fill puts the steps into at most maxCells cells.
func (g *grid) fill(steps []stepValue, step time.Duration) {
	span := steps[0].back + 1
	per := (span + maxCells - 1) / maxCells
	n := (span + per - 1) / per
	g.cell = time.Duration(per) * step
	g.mean, g.last, g.seen = unknowns(n), unknowns(n), make([]int, n)
	cells := make([]mean, n)
	for _, s := range steps {
		i := n - 1 - s.back/per
		cells[i].add(s.at)
		g.last[i] = s.at
	}
	newest := -1
	for i, c := range cells {
		if c.n > 0 {
			newest, g.mean[i] = i, c.at
		}
		g.seen[i] = newest
	}
	g.real = slices.Clone(g.last)
}

// scale divides all numbers by a power of two.
func (g *grid) scale() {
	largest := func(xs []float64) float64 { return slices.Max(append(known(xs), 0)) }
	// The largest of mean and last is 0 where there is nothing but clipped spikes.
	_, g.exp = math.Frexp(cmp.Or(largest(slices.Concat(g.mean, g.last)), largest(g.real)))
	for i := range g.mean {
		g.mean[i] = math.Ldexp(g.mean[i], -g.exp)
		g.last[i] = math.Ldexp(g.last[i], -g.exp)
		// An extreme spike must not make what is computed from it infinite.
		g.real[i] = min(math.Ldexp(g.real[i], -g.exp), 1e9)
	}
}

// unscale reverses scale for one number.
func (g *grid) unscale(x float64) float64 {
	return min(math.Ldexp(x, g.exp), math.MaxFloat64)
}

// fresh reports whether a value was known recently at cell i.
func (g *grid) fresh(i int) bool { return g.seen[i] >= 0 && i-g.seen[i] < g.stale }

// ahead returns a horizon in cells, rounded up: the tested horizon is never
// nearer than the requested one.
func (g *grid) ahead(h time.Duration) int {
	k := (int64(h) - 1 + int64(g.cell)) / int64(g.cell)
	if h > math.MaxInt64-g.cell || k > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(max(1, k))
}

func unknowns(n int) []float64 { return slices.Repeat([]float64{math.NaN()}, n) }
