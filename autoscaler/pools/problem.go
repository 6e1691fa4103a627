package pools

import (
	"errors"
	"fmt"
)

// Reasons of a pool's condition for which no action is taken on it.
const (
	ReasonNoTarget = "TargetNotFound"
	ReasonTarget   = "TargetInvalid"
	ReasonShared   = "TargetShared"
	ReasonForeign  = "ForeignAutoscaler"
)

// Problem is an error that persists until a user changes something. The pool is not acted on;
// others are.
type Problem struct {
	// Reason is the condition's reason.
	Reason string
	// Field of the GPUNodePool that the problem is about.
	Field string
	// What is wrong, and what to do about it.
	What, Remedy string
}

// Error returns all of it in one line.
func (p *Problem) Error() string {
	return fmt.Sprintf("%s: %s; %s", p.Field, p.What, p.Remedy)
}

// ReasonOf returns the condition's reason for err, "Invalid" for other errors than a Problem.
func ReasonOf(err error) string {
	if p := (*Problem)(nil); errors.As(err, &p) {
		return p.Reason
	}
	return "Invalid"
}

// ErrBusy means that the provider has not finished an earlier request; the next reconcile tries
// again.
var ErrBusy = errors.New("the provider is busy")

// ErrFixed means that the pool's machines are neither made nor removed. The planner requests
// neither of a fixed pool, so the call is a bug.
var ErrFixed = errors.New("the pool is fixed: its machines are neither made nor removed")

// ErrUnnamed means that the provider cannot remove a particular node. Lowering its size instead
// would remove an arbitrary one.
var ErrUnnamed = errors.New("the provider cannot remove a node by name")
