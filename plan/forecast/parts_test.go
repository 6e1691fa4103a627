package forecast

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu/sample"
)

// TestQuantiles: the interval leaves out as many errors at each end as its level requires, and is wider where few of
// them are independent.
func TestQuantiles(t *testing.T) {
	var errs []float64
	for i := -100; i <= 100; i++ {
		errs = append(errs, float64(i))
	}
	low, high := quantiles(errs, 0.8, 1)
	if low != -81 || high != 81 { // 20 of 202 are below the 20th of 201
		t.Errorf("of -100 … 100: %v … %v, want -81 … 81", low, high)
	}
	_, tenth := quantiles(errs, 0.8, 0.1)
	if tenth <= high || tenth > 100 {
		t.Errorf("a tenth of the evidence: %v, want more than %v and no more than the largest", tenth, high)
	}
	if _, hardly := quantiles(errs, 0.8, 0.01); hardly <= 100 {
		t.Errorf("hardly any evidence: %v, want more than the largest error", hardly)
	}
	if low, high := quantiles([]float64{3, 4, 5}, 0.8, 1); low > 0 || high < 5 {
		t.Errorf("errors of one sign: %v … %v, want the forecast inside", low, high)
	}
}

func TestIndependent(t *testing.T) {
	alternating, blocks := make([]float64, 100), make([]float64, 100)
	for i := range blocks {
		alternating[i] = float64(i % 2)
		blocks[i] = float64(i / 25 % 2)
	}
	if n := independent(alternating); n != 100 {
		t.Errorf("values that do not resemble their neighbours: worth %v, want 100", n)
	}
	if n := independent(blocks); n > 6 {
		t.Errorf("four blocks of 25: worth %v, want a few", n)
	}
	if n := independent([]float64{2, 2, 2}); n != 3 {
		t.Errorf("three of the same: worth %v", n)
	}
}

// TestDampedTrend: a trend fades with every cell ahead.
func TestDampedTrend(t *testing.T) {
	st := state{smoothing: smoothing{trend: 0.1, damp: 0.5}, base: 10, slope: 2}
	for k, want := range map[int]float64{1: 11, 2: 11.5, 3: 11.75} {
		if got := st.at(0, k); math.Abs(got-want) > 1e-12 {
			t.Errorf("%d ahead: %v, want %v", k, got, want)
		}
	}
}

// TestBetter: a less simple method must be better with certainty and by a noticeable amount.
func TestBetter(t *testing.T) {
	var ones, little, more, alternating []float64
	for i := range 100 {
		ones = append(ones, 1)
		little = append(little, 0.99)
		more = append(more, 0.96+0.01*float64(i%2))
		alternating = append(alternating, 0.95+8*float64(i%2*2-1))
	}
	for name, c := range map[string]struct {
		errs []float64
		want bool
	}{
		"the same": {ones, false}, "surely but hardly": {little, false}, "surely and noticeably": {more, true}, "perhaps": {alternating, false},
		"no answers": {unknowns(100), false},
	} {
		if got := better(c.errs, ones); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if !better([]float64{1, 0, 0, 0}, []float64{1, 9, 9, 1}) {
		t.Error("a tenth of the error in few tests: not better")
	}
}

func TestClip(t *testing.T) {
	flat := func(n int) []float64 { return slices.Repeat([]float64{5}, n) }
	spiked := append(append(flat(50), 1e300), flat(50)...)
	clip(spiked, time.Minute, nil)
	if !slices.Equal(spiked, flat(101)) {
		t.Errorf("a spike in a flat line is left: %v", slices.Max(spiked))
	}
	jump := append(flat(200), slices.Repeat([]float64{9}, 5)...)
	clip(jump, time.Minute, nil)
	if want := []float64{5, 5, 9, 9, 9}; !slices.Equal(jump[200:], want) {
		t.Errorf("a jump: %v, want %v", jump[200:], want)
	}
	daily := flat(240)
	for i := 10; i < len(daily); i += 48 {
		daily[i] = 50
	}
	clip(daily, 30*time.Minute, []time.Duration{Day})
	if daily[10] != 5 || daily[58] != 50 || daily[202] != 50 {
		t.Errorf("a peak at the same time each day: %v, %v, %v, want it cut the first time only", daily[10], daily[58], daily[202])
	}
	holed := append(flat(20), unknowns(20)...)
	holed = append(holed, 9, math.NaN(), 9)
	clip(holed, time.Minute, nil)
	if holed[40] != 9 || !math.IsNaN(holed[30]) || !math.IsNaN(holed[41]) {
		t.Errorf("after a hole: %v, want 9: nothing near says that it is too much", holed[40:])
	}
}

// TestNoModelLooksAhead: another future gives the same forecasts.
func TestNoModelLooksAhead(t *testing.T) {
	s := shape{level: 100, daily: 50, noise: 5, step: 10 * time.Minute, length: 5 * Day}
	points, _ := s.draw(4, 0)
	query := Query{Now: now, Horizons: []time.Duration{time.Hour}}
	g, reason, why := newGrid(points, query)
	if reason != Enough {
		t.Fatal(why)
	}
	other := *g
	from := len(g.mean) - 200
	other.mean, other.last = slices.Clone(g.mean), slices.Clone(g.last)
	for i := from + 1; i < len(g.mean); i++ {
		other.mean[i], other.last[i] = 1, math.NaN()
	}
	origins := originsOf(len(g.mean))
	at, _ := slices.BinarySearch(origins, from)
	for _, c := range candidates(g) {
		for i, m := range c.settings {
			a, b := m.run(g, []int{1, 40}, origins), m.run(&other, []int{1, 40}, origins)
			for h := range a {
				if !same(a[h][:at+1], b[h][:at+1]) {
					t.Errorf("%s, setting %d: another future, another forecast", c.method, i)
				}
				if same(a[h], b[h]) {
					t.Errorf("%s, setting %d: another past, the same forecast", c.method, i)
				}
			}
		}
	}
}

func same(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return x == y || x != x && y != y })
}

// TestGrid: cells have the means of their steps, the newest last; an unknown cell is NaN.
func TestGrid(t *testing.T) {
	at := func(steps float64, x float64) sample.Point {
		return sample.Point{At: now.Add(time.Duration(-steps * float64(time.Minute))), Number: x}
	}
	points := []sample.Point{at(0, 8), at(0.5, 4), at(3, 2), at(5.9, 1)}
	g, nan := &grid{}, math.NaN()
	g.fill(toSteps(trusted(points, now), now, time.Minute), time.Minute)
	if want := []float64{1, nan, 2, nan, nan, 6}; !same(g.mean, want) {
		t.Errorf("cells %v, want %v", g.mean, want)
	}
	if want := []int{0, 0, 2, 2, 2, 5}; !slices.Equal(g.seen, want) {
		t.Errorf("newest known %v, want %v", g.seen, want)
	}
	long := make([]sample.Point, 3*maxCells)
	for i := range long {
		long[i] = at(float64(i), float64(i%3))
	}
	g, _, _ = newGrid(long, Query{Now: now, Step: time.Minute})
	if len(g.mean) != maxCells || g.cell != 3*time.Minute || g.unscale(g.mean[7]) != 1 {
		t.Errorf("%d cells of %v, the eighth %v, want %d of 3m and 1", len(g.mean), g.cell, g.unscale(g.mean[7]), maxCells)
	}
	for h, want := range map[time.Duration]int{1: 1, 3 * time.Minute: 1, 3*time.Minute + 1: 2, time.Hour: 20, math.MaxInt64: math.MaxInt32} {
		if got := g.ahead(h); got != want {
			t.Errorf("%v is %d cells ahead, want %d", h, got, want)
		}
	}
}
