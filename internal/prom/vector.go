package prom

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// Labels is a series' label set, without empty values.
type Labels = labels.Labels

// FromMap returns the label set of m.
func FromMap(m map[string]string) Labels { return labels.FromMap(m).WithoutEmpty() }

// Sample is one element of an instant vector.
type Sample struct {
	Labels Labels
	// Value may be NaN or infinite: the caller decides.
	Value float64
	// Time is the evaluation time as the server stated it, NOT the time the
	// value was scraped. PromQL's timestamp(selector) returns the scrape time,
	// in Unix seconds, as Value.
	Time time.Time
}

// Vector is an instant vector, in the server's order.
type Vector []Sample

// Line is the values of one series over time.
type Line struct {
	Labels Labels
	Points []Point // ascending in time, with gaps where there is no value
}

// Point is a value at a time.
type Point struct {
	Time  time.Time
	Value float64
}

// The kinds of failure, for errors.Is. An error of [Client.Query] matches exactly
// one of the first four.
var (
	// ErrUnavailable: there is no usable answer (connection, timeout, 5xx,
	// 401, 429, truncated or malformed body, unreadable credential file).
	ErrUnavailable = errors.New("prometheus unavailable")
	// ErrBadQuery: the server refused or could not evaluate the query, or its
	// answer is no instant vector of floats.
	ErrBadQuery = errors.New("prometheus cannot answer this query")
	// ErrPartial: the server answered with warnings, so series may be missing.
	// The error is a *PartialError.
	ErrPartial = errors.New("prometheus answered in part")
	// ErrTooLarge: the answer exceeds MaxResponseBytes or MaxSeries.
	ErrTooLarge = errors.New("prometheus answer too large")

	// ErrRefused: the server did not evaluate the query, for a reason that has nothing to
	// do with the query: no connection, 401, 403, 404, 405, 429 or a redirect. A proxy's
	// 502 or 503 is no ErrRefused: the query itself may have crashed the server.
	ErrRefused = errors.New("the query was not taken")
)

// refused is an error that is an ErrRefused as well.
type refused struct{ error }

func (e refused) Unwrap() error      { return e.error }
func (refused) Is(target error) bool { return target == ErrRefused }

// PartialError is the error of an answer with warnings. Any number of its series
// may be missing, so it must not be used as a complete one.
type PartialError struct{ Warnings []string }

func (e *PartialError) Error() string {
	return fmt.Sprintf("%v: %s", ErrPartial, strings.Join(e.Warnings, "; "))
}

func (e *PartialError) Unwrap() error { return ErrPartial }
