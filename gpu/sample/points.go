package sample

import (
	"math"
	"slices"
	"time"
)

// Point is a number at the time it was taken.
type Point struct {
	At     time.Time
	Number float64
}

// Increase returns how much a counter grew over points, which ascend in time,
// and the time from the first to the last. A number smaller than the one before
// is a counter that began anew: all of it counts. Nothing is extrapolated. The
// answer is unknown with fewer than two points, as old as the last one at now.
func Increase(points []Point, now time.Time) (Value, time.Duration) {
	if len(points) < 2 {
		return Unknown(), 0
	}
	var sum float64
	for i := 1; i < len(points); i++ {
		grown := points[i].Number - points[i-1].Number
		if grown < 0 {
			grown = points[i].Number
		}
		sum += grown
	}
	first, last := points[0], points[len(points)-1]
	return Known(sum, now.Sub(last.At)), last.At.Sub(first.At)
}

// Rate returns how much a counter grew in a second, as Increase has it. It is
// unknown where the points span no time.
func Rate(points []Point, now time.Time) Value {
	grown, span := Increase(points, now)
	number, ok := grown.Get()
	if !ok || span <= 0 {
		return Unknown()
	}
	age, _ := grown.Age()
	return Known(number/span.Seconds(), age)
}

// Window keeps the points of the last Span, and at most Limit of them; the zero
// Limit is none. It is a value to copy only by handing it over.
type Window struct {
	Span   time.Duration
	Limit  int
	points []Point
}

// Add takes a point in and lets go of those that are older than the newest by
// more than Span. A point that is not later than the newest, NaN or infinite is
// not taken; Add says so.
func (w *Window) Add(at time.Time, number float64) bool {
	if math.IsNaN(number) || math.IsInf(number, 0) {
		return false
	}
	if n := len(w.points); n > 0 && !at.After(w.points[n-1].At) {
		return false
	}
	w.points = append(w.points, Point{At: at, Number: number})
	drop := 0
	for at.Sub(w.points[drop].At) > w.Span {
		drop++
	}
	if w.Limit > 0 {
		drop = max(drop, len(w.points)-w.Limit)
	}
	w.points = slices.Delete(w.points, 0, drop)
	return true
}

// Points returns the points at most Span older than now, ascending. The slice is
// the window's own until the next Add.
func (w *Window) Points(now time.Time) []Point {
	for i, p := range w.points {
		if now.Sub(p.At) <= w.Span {
			return w.points[i:]
		}
	}
	return nil
}

// Last returns the newest number, unknown where it is older than Span.
func (w *Window) Last(now time.Time) Value {
	points := w.Points(now)
	if len(points) == 0 {
		return Unknown()
	}
	last := points[len(points)-1]
	return Known(last.Number, now.Sub(last.At))
}

// Rate returns how much the counter grew in a second over the window.
func (w *Window) Rate(now time.Time) Value { return Rate(w.Points(now), now) }

// Values returns the window's points as Values, ascending in time.
func (w *Window) Values(now time.Time) []Value {
	points := w.Points(now)
	vs := make([]Value, len(points))
	for i, p := range points {
		vs[i] = Known(p.Number, now.Sub(p.At))
	}
	return vs
}
