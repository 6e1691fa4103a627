package loop

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/gpuscale/gpuscale/plan"
)

// PlannerPanic is a recovered panic of the planner. Such a reconcile does nothing. The
// program does not exit: the snapshot would most likely make it panic again.
type PlannerPanic struct {
	At       time.Time
	Value    any
	Stack    []byte
	Snapshot plan.Snapshot
}

// Error implements error. It leaves out the stack, which is logged.
func (p *PlannerPanic) Error() string {
	return fmt.Sprintf("planner panicked: %v; no action is taken, /debug/panic shows the snapshot", p.Value)
}

// plan checks the snapshot and plans. It turns a panic of the planner into an error.
func (l *Loop) plan(s plan.Snapshot) (made plan.Plan, err error) {
	defer func() {
		if v := recover(); v != nil {
			caught := &PlannerPanic{At: s.Now, Value: v, Stack: debug.Stack(), Snapshot: s}
			made, err = plan.Plan{}, caught
			l.o.Metrics.panics.Inc()
			l.o.Log.Error("planner panicked", "panic", fmt.Sprint(v), "stack", string(caught.Stack))
		}
	}()
	if err := s.Check(); err != nil {
		return plan.Plan{}, fmt.Errorf("checking the snapshot: %w", err)
	}
	return l.o.Plan(s, l.o.Policy), nil
}
