package loop

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/gpuscale/gpuscale/plan"
)

// PlannerPanic is a bug of the planner that was caught. Nothing is done in such a
// round: a snapshot that upsets the planner will most likely be there again after
// a restart, so to crash would only add to it.
type PlannerPanic struct {
	At       time.Time
	Value    any
	Stack    []byte
	Snapshot plan.Snapshot
}

// Error says what was thrown; the stack is in the log.
func (p *PlannerPanic) Error() string {
	return fmt.Sprintf("the planner panicked, nothing is done: %v; /debug/panic shows the snapshot", p.Value)
}

// plan checks and plans. Whatever the planner throws becomes an error here, and
// nowhere else.
func (l *Loop) plan(s plan.Snapshot) (made plan.Plan, err error) {
	defer func() {
		if v := recover(); v != nil {
			caught := &PlannerPanic{At: s.Now, Value: v, Stack: debug.Stack(), Snapshot: s}
			made, err = plan.Plan{}, caught
			l.o.Metrics.panicked()
			l.o.Log.Error("the planner panicked", "panic", fmt.Sprint(v), "stack", string(caught.Stack))
		}
	}()
	if err := s.Check(); err != nil {
		return plan.Plan{}, fmt.Errorf("checking what was observed: %w", err)
	}
	return l.o.Plan(s, l.o.Policy), nil
}
