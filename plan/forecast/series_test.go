package forecast

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/gpuscale/gpuscale/gpu/sample"
)

var now = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// shape is a series with a known truth, from which its future is drawn too.
type shape struct {
	level, daily, weekly, trend float64 // amplitudes; trend is per day
	noise                       float64 // standard deviation of the noise
	walk                        float64 // standard deviation of a step of a random walk
	poisson                     bool    // counts: the noise grows with the level
	step, length                time.Duration
}

// truth is the series without noise, at a time relative to now.
func (s shape) truth(at time.Duration) float64 {
	wave := func(amplitude float64, period time.Duration) float64 {
		return amplitude * math.Sin(2*math.Pi*float64(at)/float64(period))
	}
	return s.level + wave(s.daily, Day) + wave(s.weekly, Week) + s.trend*float64(at)/float64(Day)
}

// draw returns the points up to now and the outcomes of ahead steps after it.
func (s shape) draw(seed uint64, ahead int) (past []sample.Point, future []float64) {
	r := rand.New(rand.NewPCG(seed, 7))
	n := int(s.length / s.step)
	walked := 0.0
	for i := -n + 1; i <= ahead; i++ {
		at := time.Duration(i) * s.step
		walked += s.walk * r.NormFloat64()
		x := s.truth(at) + walked + s.noise*r.NormFloat64()
		if s.poisson {
			x += math.Sqrt(max(0, s.truth(at))) * r.NormFloat64()
		}
		x = max(0, x)
		if i <= 0 {
			past = append(past, sample.Point{At: now.Add(at), Number: x})
		} else {
			future = append(future, x)
		}
	}
	return past, future
}

// without drops the points for which lost is true.
func without(points []sample.Point, lost func(i int) bool) []sample.Point {
	var out []sample.Point
	for i, p := range points {
		if !lost(i) {
			out = append(out, p)
		}
	}
	return out
}

func get(v sample.Value) float64 {
	if x, ok := v.Get(); ok {
		return x
	}
	return math.NaN()
}
