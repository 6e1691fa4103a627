package sample

import (
	"math"
	"strings"
	"time"
)

// Value is a number with the age it had when it was read. The zero Value is
// unknown.
type Value struct {
	number float64
	age    time.Duration
	known  bool
}

// Known returns a known value. NaN and infinities are no measurements: they give
// the unknown Value. A negative age (clock skew) is zero.
func Known(number float64, age time.Duration) Value {
	if math.IsNaN(number) || math.IsInf(number, 0) {
		return Value{}
	}
	if age < 0 {
		age = 0
	}
	return Value{number: number, age: age, known: true}
}

// Unknown returns the unknown value.
func Unknown() Value { return Value{} }

// Get returns the number and whether it is known.
func (v Value) Get() (float64, bool) { return v.number, v.known }

// Age returns how old the number was, and false for an unknown value.
func (v Value) Age() (time.Duration, bool) { return v.age, v.known }

// Fresh returns the value itself if it is known and at most maxAge old, and
// the unknown Value otherwise.
func (v Value) Fresh(maxAge time.Duration) Value {
	if v.known && v.age <= maxAge {
		return v
	}
	return Value{}
}

// Short prints a duration as Go does, without its tail of zeros: "5m", "1h30m".
func Short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
