package sample

import (
	"math"
	"testing"
	"time"
)

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
