package pools

import (
	"errors"
	"fmt"
)

// Reasons for which a pool is left alone, as its condition has them.
const (
	ReasonNoTarget = "TargetNotFound"
	ReasonTarget   = "TargetInvalid"
	ReasonShared   = "TargetShared"
	ReasonForeign  = "ForeignAutoscaler"
)

// Problem is why nothing is done with a pool until somebody changes something.
// The pool is left alone; others go on.
type Problem struct {
	// Reason in one word, for a condition.
	Reason string
	// Field of the GPUNodePool that is concerned.
	Field string
	// What is wrong, and what to do about it.
	What, Remedy string
}

// Error says all of it in one line.
func (p *Problem) Error() string {
	return fmt.Sprintf("%s: %s; %s", p.Field, p.What, p.Remedy)
}

// ReasonOf returns the word for a pool that err keeps out, "Invalid" where err
// has none of its own.
func ReasonOf(err error) string {
	if p := (*Problem)(nil); errors.As(err, &p) {
		return p.Reason
	}
	return "Invalid"
}

// ErrBusy says that the provider has not finished what was asked of it before;
// asking again in the next round is right.
var ErrBusy = errors.New("the provider is busy")

// ErrFixed says that the pool's machines are neither made nor taken away: a fixed
// pool is not asked for either, so whoever asks has made a mistake.
var ErrFixed = errors.New("the pool is fixed: nobody makes or takes away its machines")

// ErrUnnamed says that the provider has no way to take away one certain node. It
// is never asked for fewer nodes instead: which would go is anybody's guess.
var ErrUnnamed = errors.New("no way to name the node that goes")
