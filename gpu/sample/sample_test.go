package sample

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

func want(t *testing.T, name string, v Value, number float64, age time.Duration) {
	t.Helper()
	n, ok := v.Get()
	a, _ := v.Age()
	if !ok || math.Abs(n-number) > 1e-9 || a != age {
		t.Errorf("%s: got %v, %v, known %v, want %v, %v", name, n, a, ok, number, age)
	}
}

func unknown(t *testing.T, name string, v Value) {
	t.Helper()
	if n, ok := v.Get(); ok {
		t.Errorf("%s: got %v, want unknown", name, n)
	}
	if _, ok := v.Age(); ok {
		t.Errorf("%s: what is unknown has no age", name)
	}
}

func TestValue(t *testing.T) {
	want(t, "known", Known(3, time.Second), 3, time.Second)
	want(t, "clock skew", Known(3, -time.Second), 3, 0)
	unknown(t, "NaN", Known(math.NaN(), 0))
	unknown(t, "+Inf", Known(math.Inf(1), 0))
	unknown(t, "zero Value", Value{})
	want(t, "fresh", Known(0, time.Second).Fresh(time.Second), 0, time.Second)
	unknown(t, "stale", Known(3, time.Second+1).Fresh(time.Second))
	unknown(t, "still unknown", Unknown().Fresh(time.Hour))
}

func TestRate(t *testing.T) {
	for _, c := range []struct {
		name    string
		numbers []float64 // ten seconds apart, the last five seconds ago
		want    float64
	}{
		{"steady", []float64{0, 10, 20}, 1},
		{"standing still", []float64{7, 7, 7}, 0},
		{"began anew", []float64{100, 110, 5, 15}, (10 + 5 + 10) / 30.0},
		{"began anew twice", []float64{100, 0, 3, 1}, (0 + 3 + 1) / 30.0},
	} {
		var points []Point
		for i, n := range c.numbers {
			points = append(points, Point{At: at(10 * i), Number: n})
		}
		want(t, c.name, Rate(points, at(10*len(points)-5)), c.want, 5*time.Second)
	}
	unknown(t, "one point", Rate([]Point{{at(0), 1}}, at(1)))
	unknown(t, "no point", Rate(nil, at(1)))
	unknown(t, "no time", Rate([]Point{{at(0), 1}, {at(0), 2}}, at(1)))
}

func TestWindow(t *testing.T) {
	w := Window{Span: 30 * time.Second}
	unknown(t, "empty", w.Last(at(0)))
	for i := range 10 {
		if !w.Add(at(10*i), float64(i)) {
			t.Fatalf("point %d not taken", i)
		}
	}
	for name, taken := range map[string]bool{
		"again":    w.Add(at(90), 1),
		"earlier":  w.Add(at(85), 1),
		"NaN":      w.Add(at(95), math.NaN()),
		"infinite": w.Add(at(95), math.Inf(-1)),
	} {
		if taken {
			t.Errorf("%s: taken", name)
		}
	}
	if n := len(w.Points(at(90))); n != 4 {
		t.Errorf("%d points in 30 s, want 4", n)
	}
	want(t, "rate", w.Rate(at(90)), 0.1, 0)
	want(t, "last", w.Last(at(100)), 9, 10*time.Second)
	want(t, "last, at the edge", w.Last(at(120)), 9, 30*time.Second)
	unknown(t, "last, too late", w.Last(at(121)))
	unknown(t, "rate of what is left", w.Rate(at(115)))
	if n := len(w.Values(at(90))); n != 4 {
		t.Errorf("%d values", n)
	}
}

func TestWindowLimit(t *testing.T) {
	w := Window{Span: time.Hour, Limit: 3}
	for i := range 100 {
		w.Add(at(i), float64(i))
	}
	if got := w.Points(at(99)); len(got) != 3 || got[0].Number != 97 {
		t.Errorf("got %v", got)
	}
}

func TestAggregates(t *testing.T) {
	vs := []Value{Known(4, time.Second), Unknown(), Known(1, 3*time.Second), Known(2, 0)}
	want(t, "median", Quantile(0.5, vs), 2, 3*time.Second)
	want(t, "q75", Quantile(0.75, vs), 3, 3*time.Second)
	want(t, "q0", Quantile(0, vs), 1, 3*time.Second)
	want(t, "q1", Quantile(1, vs), 4, 3*time.Second)
	want(t, "mean", Mean(vs), 7.0/3, 3*time.Second)
	want(t, "max", Max(vs), 4, 3*time.Second)
	want(t, "sum of known", Sum([]Value{Known(1, 0), Known(2, time.Second)}), 3, time.Second)
	unknown(t, "sum with one unknown", Sum(vs))
	for name, v := range map[string]Value{
		"q of nothing": Quantile(0.5, nil), "mean of nothing": Mean(nil), "max of unknowns": Max([]Value{Unknown()}), "sum of nothing": Sum(nil),
		"q < 0": Quantile(-0.1, vs), "q > 1": Quantile(1.1, vs), "q NaN": Quantile(math.NaN(), vs),
		"sum beyond numbers": Sum([]Value{Known(math.MaxFloat64, 0), Known(math.MaxFloat64, 0)}),
	} {
		unknown(t, name, v)
	}
	if got := Coverage(vs); got != 0.75 {
		t.Errorf("coverage %v", got)
	}
	if got := Coverage(nil); got != 0 {
		t.Errorf("coverage of nothing %v", got)
	}
}

// A rate is never negative and never more than all there was; a restart of the
// counter cannot make it explode.
func TestRateIsBounded(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		numbers := rapid.SliceOfN(rapid.Float64Range(0, 1e6), 2, 20).Draw(r, "numbers")
		var points []Point
		var sum float64
		for i, n := range numbers {
			points = append(points, Point{At: at(i), Number: n})
			sum += n
		}
		rate, ok := Rate(points, at(len(points))).Get()
		if !ok || rate < 0 || rate*float64(len(points)-1) > sum+1e-6 {
			r.Fatalf("rate %v of %v", rate, numbers)
		}
		q, _ := Quantile(rapid.Float64Range(0, 1).Draw(r, "q"), []Value{Known(numbers[0], 0), Known(numbers[1], 0)}).Get()
		if q < min(numbers[0], numbers[1])-1e-6 || q > max(numbers[0], numbers[1])+1e-6 {
			r.Fatalf("quantile %v of %v", q, numbers[:2])
		}
	})
}
