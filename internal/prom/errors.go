package prom

import (
	"errors"
	"fmt"
	"strings"
)

// The kinds of failure, for errors.Is. An error of [Client.Query] matches exactly
// one of them.
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

	errNoEndpoint = errors.New("the server has no such page")
)

// PartialError is the error of an answer with warnings. Any number of its series
// may be missing, so it must not be used as a complete one.
type PartialError struct {
	Warnings []string
	Vector   Vector
}

func (e *PartialError) Error() string {
	return fmt.Sprintf("%v: %s", ErrPartial, strings.Join(e.Warnings, "; "))
}

func (e *PartialError) Unwrap() error { return ErrPartial }
