package forecast

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/internal/testall"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { testall.Main(m) }

// drawn returns a query and a series of any of the shapes, with gaps, or with only a spike, and with several values of
// the present time.
func drawn(r *rapid.T) ([]sample.Point, Query) {
	s := shape{
		level:   rapid.Float64Range(0, 100).Draw(r, "level"),
		daily:   rapid.Float64Range(0, 100).Draw(r, "daily"),
		trend:   rapid.Float64Range(-50, 50).Draw(r, "trend"),
		noise:   rapid.Float64Range(0, 20).Draw(r, "noise"),
		walk:    rapid.Float64Range(0, 2).Draw(r, "walk"),
		poisson: rapid.Bool().Draw(r, "poisson"),
		step:    time.Duration(rapid.IntRange(1, 90).Draw(r, "step")) * time.Minute,
	}
	s.length = s.step * time.Duration(rapid.IntRange(20, 300).Draw(r, "steps"))
	points, _ := s.draw(rapid.Uint64().Draw(r, "seed"), 0)
	hole, size := rapid.IntRange(0, 300).Draw(r, "hole"), rapid.IntRange(0, 60).Draw(r, "size")
	points = without(points, func(i int) bool { return i >= hole && i < hole+size })
	if rapid.IntRange(0, 9).Draw(r, "spike") == 0 {
		for i := range points {
			points[i].Number = 0
		}
		points = append(points, sample.Point{At: now.Add(-s.step), Number: 1.07})
	}
	for range rapid.IntRange(0, 4).Draw(r, "twins") {
		points = append(points, sample.Point{At: now, Number: rapid.Float64Range(0, 1e3).Draw(r, "twin")})
	}
	return points, Query{Now: now, Step: s.step, Horizons: []time.Duration{s.step, 7 * s.step, rapid.SampledFrom([]time.Duration{time.Second, time.Hour, Day}).Draw(r, "horizon")}}
}

// times returns the forecast of a series c times as large.
func times(f Forecast, c float64) Forecast {
	if f.Enough {
		for _, v := range []*sample.Value{&f.Low, &f.Expected, &f.High} {
			age, _ := v.Age()
			*v = sample.Known(get(*v)*c, age)
		}
	}
	return f
}

// TestScaling: the unit does not matter. A series twice as large has, to the
// bit, the forecast twice as large, by the same method with the same error.
func TestScaling(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		points, query := drawn(r)
		c := math.Ldexp(1, rapid.IntRange(-40, 900).Draw(r, "exponent"))
		want := Make(points, query)
		for i := range points {
			points[i].Number *= c
		}
		for i, got := range Make(points, query) {
			if got != times(want[i], c) {
				r.Fatalf("times %v: %v, was %v", c, got, want[i])
			}
			if problem := sound(got); problem != "" {
				r.Fatalf("%s: %+v", problem, got)
			}
		}
	})
}

// TestShiftAndOrder: the date, the order of the points and the other horizons
// do not matter.
func TestShiftAndOrder(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		points, query := drawn(r)
		want := Make(points, query)
		shift := time.Duration(rapid.Int64Range(-1e17, 1e17).Draw(r, "shift"))
		moved := slices.Clone(points)
		for i := range moved {
			moved[i].At = moved[i].At.Add(shift)
		}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "order"), 1))
		random.Shuffle(len(moved), func(i, j int) { moved[i], moved[j] = moved[j], moved[i] })
		before := slices.Clone(moved)
		later := query
		later.Now = query.Now.Add(shift)
		for i, got := range Make(moved, later) {
			got.At = got.At.Add(-shift)
			if got != want[i] {
				r.Fatalf("moved by %v: %v, was %v", shift, got, want[i])
			}
			alone := query
			alone.Horizons = query.Horizons[i : i+1]
			if one := Make(points, alone)[0]; one != want[i] {
				r.Fatalf("asked alone: %v, was %v", one, want[i])
			}
		}
		if !slices.Equal(moved, before) {
			r.Fatal("Make changed what it was given")
		}
	})
}

// sound returns the error in a forecast, empty for none.
func sound(f Forecast) string {
	low, x, high := get(f.Low), get(f.Expected), get(f.High)
	switch {
	case f.Why == "" || f.Reason == "":
		return "no reason"
	case f.Enough != (f.Reason == Enough):
		return "enough or not"
	case !f.Enough && (f.Low != sample.Unknown() || f.Expected != sample.Unknown() || f.High != sample.Unknown() || f.Error != Error{} || f.Method != ""):
		return "a value without enough data"
	case f.Enough && !(0 <= low && low <= x && x <= high):
		return "not 0 ≤ low ≤ expected ≤ high"
	}
	return ""
}

// FuzzForecast makes a series and a query from any bytes: nothing panics or hangs, and every forecast is sound.
func FuzzForecast(f *testing.F) {
	points, _ := shape{level: 100, daily: 50, noise: 5, step: time.Hour, length: 4 * Day}.draw(1, 0)
	var seed []byte
	for _, p := range points {
		seed = binary.LittleEndian.AppendUint64(seed, uint64(p.At.Sub(now)))
		seed = binary.LittleEndian.AppendUint64(seed, math.Float64bits(p.Number))
	}
	f.Add(seed, int64(0), int64(time.Hour), int64(time.Hour), 0.8)
	f.Add(seed, int64(1), int64(math.MaxInt64), int64(0), 0.999)
	f.Add(seed[:64], int64(math.MinInt64), int64(-1), int64(1), math.NaN())
	f.Fuzz(func(t *testing.T, raw []byte, later, horizon, step int64, level float64) {
		var points []sample.Point
		for ; len(raw) >= 16 && len(points) < 500; raw = raw[16:] {
			points = append(points, sample.Point{
				At:     now.Add(time.Duration(binary.LittleEndian.Uint64(raw))),
				Number: math.Float64frombits(binary.LittleEndian.Uint64(raw[8:])),
			})
		}
		query := Query{Now: now.Add(time.Duration(later)), Horizons: []time.Duration{time.Duration(horizon), time.Hour}, Step: time.Duration(step)}
		got := MakeEach(points, query, level)[0]
		for _, f := range got {
			if problem := sound(f); problem != "" {
				t.Fatalf("%s: %+v", problem, f)
			}
			_ = f.String()
		}
		slices.Reverse(points)
		if again := MakeEach(points, query, level)[0]; fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", again) { // a NaN is not itself
			t.Fatalf("in the other order: %v, was %v", again, got)
		}
		query.Holidays = NewHolidays([]time.Weekday{time.Sunday}, []time.Time{query.Now.UTC(), got[0].At.UTC(), query.Now.AddDate(0, 0, -1).UTC()})
		for _, f := range MakeEach(points, query, level)[0] {
			if problem := sound(f); problem != "" {
				t.Fatalf("with holidays: %s: %+v", problem, f)
			}
		}
	})
}
