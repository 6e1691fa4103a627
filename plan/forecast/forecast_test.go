package forecast

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu/sample"
)

// tally compares forecasts of many drawn series with their outcomes.
type tally struct {
	queried, enough, inside int
	off, offNaive, width    float64
	reported                []float64 // coverage that the forecasts state
}

// follow is a tally for each of some steps ahead, ascending.
func follow(s shape, ahead []int, seeds uint64) []tally {
	query := Query{Now: now}
	for _, steps := range ahead {
		query.Horizons = append(query.Horizons, time.Duration(steps)*s.step)
	}
	all := make([]tally, len(ahead))
	for seed := range seeds {
		past, future := s.draw(seed, slices.Max(ahead))
		for i, f := range Make(past, query) {
			out := &all[i]
			out.queried++
			if !f.Enough {
				continue
			}
			out.enough++
			x := future[ahead[i]-1]
			if x >= get(f.Low) && x <= get(f.High) {
				out.inside++
			}
			out.off += math.Abs(x - get(f.Expected))
			out.offNaive += math.Abs(x - past[len(past)-1].Number)
			out.width += get(f.High) - get(f.Low)
			if c, ok := f.Error.Coverage.Get(); ok {
				out.reported = append(out.reported, c)
			}
		}
	}
	return all
}

// TestIntervalsHoldTheirShare: the 80 % interval contains about 80 % of the outcomes of series of every kind, and is
// about as narrow as the noise allows. The coverage that forecasts report is right.
func TestIntervalsHoldTheirShare(t *testing.T) {
	const seeds = 60
	all := tally{}
	for _, c := range []struct {
		name  string
		shape shape
		ahead []int
		width float64 // of the ideal interval; zero where that changes with the load
		gain  float64 // largest error allowed, as a share of the error of repeating the last value
	}{
		{"noise", shape{level: 100, noise: 5, step: 10 * time.Minute, length: 3 * Day}, []int{1, 12}, 12.8, 0.85},
		{"day", shape{level: 100, daily: 50, noise: 5, step: 20 * time.Minute, length: 7 * Day}, []int{3, 12, 48}, 12.8, 0.8},
		{"two days", shape{level: 100, daily: 50, noise: 5, step: 10 * time.Minute, length: 2 * Day}, []int{12}, 12.8, 0.5},
		{"day and week", shape{level: 200, daily: 50, weekly: 40, trend: 1, noise: 8, step: time.Hour, length: 21 * Day}, []int{2, 24}, 20.5, 0.7},
		{"counted", shape{level: 40, daily: 30, poisson: true, step: 20 * time.Minute, length: 7 * Day}, []int{6, 36}, 0, 0.8},
		{"trend", shape{level: 100, trend: 200, noise: 3, step: time.Minute, length: 8 * time.Hour}, []int{12, 48}, 7.7, 0.8},
		{"walk", shape{level: 1000, walk: 5, step: time.Minute, length: 10 * time.Hour}, []int{1, 12}, 0, 1.03},
	} {
		for i, got := range follow(c.shape, c.ahead, seeds) {
			ahead := c.ahead[i]
			share := float64(got.inside) / seeds
			t.Logf("%-12s %2d ahead: inside %.2f, width %.1f, off %.2f of the last value's", c.name, ahead, share, got.width/seeds, got.off/got.offNaive)
			if got.enough != seeds {
				t.Errorf("%s, %d ahead: only %d of %d have an answer", c.name, ahead, got.enough, seeds)
			}
			if share < 0.65 || share > 0.95 { // three standard deviations of 60 trials are 0.15
				t.Errorf("%s, %d ahead: an interval of 0.8 contains %.2f", c.name, ahead, share)
			}
			if w := got.width / seeds; c.width > 0 && (w < 0.95*c.width || w > 1.25*c.width) {
				t.Errorf("%s, %d ahead: the interval is %.1f wide, the noise is worth %.1f", c.name, ahead, w, c.width)
			}
			if got.off > c.gain*got.offNaive {
				t.Errorf("%s, %d ahead: erred %.2f of what the last value erred, want at most %.2f", c.name, ahead, got.off/got.offNaive, c.gain)
			}
			all.inside += got.inside
			all.queried += got.queried
			all.reported = append(all.reported, got.reported...)
		}
	}
	share := float64(all.inside) / float64(all.queried)
	reported, n := meanKnown(all.reported)
	t.Logf("all: inside %.3f of %d, reported %.3f in %d", share, all.queried, reported, n)
	if share < 0.76 || share > 0.86 {
		t.Errorf("all intervals of 0.8 contain %.3f", share)
	}
	if math.Abs(reported-share) > 0.04 || n < all.queried/2 {
		t.Errorf("forecasts state a coverage of %.3f (%d of them), and it is %.3f", reported, n, share)
	}
}

// TestGapsAreNotZero: with half of a wave's points lost, in blocks, the
// forecast stays near, and far from a forecast with zeros for them.
func TestGapsAreNotZero(t *testing.T) {
	s := shape{level: 100, daily: 50, noise: 3, step: 5 * time.Minute, length: 7 * Day}
	for seed := range uint64(10) {
		whole, future := s.draw(seed, 12)
		r := rand.New(rand.NewPCG(seed, 1))
		lost := false
		var zeros []sample.Point
		holed := without(whole, func(i int) bool {
			if r.IntN(24) == 0 {
				lost = !lost
			}
			missing := lost && i < len(whole)-5
			if missing {
				zeros = append(zeros, sample.Point{At: whole[i].At})
			} else {
				zeros = append(zeros, whole[i])
			}
			return missing
		})
		query := Query{Now: now, Horizons: []time.Duration{time.Hour}}
		f := Make(holed, query)[0]
		if x := get(f.Expected); !(math.Abs(x-future[11]) < 20) {
			t.Errorf("seed %d, %d of %d points: %v, and then came %v", seed, len(holed), len(whole), f, future[11])
		}
		if filled := Make(zeros, query)[0]; get(filled.High)-get(filled.Low) < 2*(get(f.High)-get(f.Low)) {
			t.Errorf("seed %d: zeros make %v, holes %v: no difference", seed, filled, f)
		}
		for i := range zeros {
			if zeros[i].Number == 0 {
				zeros[i].Number = math.NaN()
			}
		}
		if reported2 := Make(zeros, query)[0]; reported2 != f {
			t.Errorf("seed %d: NaN gives %v, nothing gives %v", seed, reported2, f)
		}
	}
}

// TestUntrustedPoints: impossible points are as if missing, and several points
// of one step count once.
func TestUntrustedPoints(t *testing.T) {
	points, _ := shape{level: 100, noise: 3, step: time.Minute, length: 5 * time.Hour}.draw(3, 0)
	query := Query{Now: now, Step: time.Minute, Horizons: []time.Duration{10 * time.Minute}}
	want := Make(points, query)
	for name, bad := range map[string]sample.Point{
		"NaN":      {At: now, Number: math.NaN()},
		"+Inf":     {At: now.Add(-time.Hour), Number: math.Inf(1)},
		"-Inf":     {At: now.Add(-time.Hour), Number: math.Inf(-1)},
		"negative": {At: now.Add(-time.Hour), Number: -1},
		"later":    {At: now.Add(1), Number: 1e6},
		"ancient":  {At: time.Time{}, Number: 1e6},
		"a twin":   points[100],
	} {
		if got := Make(append(slices.Clone(points), bad), query); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	for _, all := range []float64{math.NaN(), math.Inf(1), -3} {
		for i := range points {
			points[i].Number = all
		}
		if f := Make(points, query)[0]; f.Enough || f.Reason != NoData {
			t.Errorf("all %v: %v", all, f)
		}
	}
	for i := range points {
		points[i].Number = 1e300 * float64(1+i%3)
	}
	if f := Make(points, query)[0]; !f.Enough || get(f.Expected) < 1e300 || get(f.Expected) > 3e300 {
		t.Errorf("values near 1e300: %v", f)
	}
}

func TestBadQuery(t *testing.T) {
	points, _ := shape{level: 100, step: time.Minute, length: 5 * time.Hour}.draw(3, 0)
	soon := []time.Duration{time.Minute, time.Hour}
	for _, c := range []struct {
		level float64
		step  time.Duration
	}{{1.5, 0}, {0, 0}, {math.NaN(), 0}, {0.8, -1}, {0.8, Week + 1}} {
		for i, f := range MakeEach(points, Query{Now: now, Horizons: soon, Step: c.step}, c.level)[0] {
			if f.Enough || f.Reason != BadQuestion || f.Why == "" || f.Horizon != soon[i] {
				t.Errorf("%v: %v", c, f)
			}
		}
	}
	if got := Make(points, Query{Now: now}); len(got) != 0 {
		t.Errorf("no horizons, and got %v", got)
	}
}
