package loop

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/utils/ptr"

	"github.com/gpuscale/gpuscale/plan"
)

// State is the observable state of a running Loop. It is safe for concurrent use.
type State struct {
	interval time.Duration
	now      func() time.Time

	mu        sync.Mutex
	pause     time.Duration // until the next reconcile, where that is more than interval
	leading   bool
	last      time.Time  // when the last reconcile ended, or leading began
	err       error      // of the last reconcile
	reconcile *Reconcile // the last successful one
	caught    *PlannerPanic
	snapshot  *plan.Snapshot // of the later of both
}

func (s *State) set(change func(*State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *State) ended(err error) {
	s.set(func(s *State) {
		s.last, s.err = s.now(), err
		if caught := (*PlannerPanic)(nil); errors.As(err, &caught) {
			s.caught, s.snapshot = caught, &caught.Snapshot
		}
	})
}

// maxReconcile is longer than a reconcile takes even if providers hang: their listings and actions are bounded (act: 25
// s and the last call's own 10 s). A reconcile that exceeds it hangs in the program itself.
const maxReconcile = time.Minute

// Live returns an error if this replica leads and a reconcile is overdue by maxReconcile.
func (s *State) Live() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := max(s.interval, s.pause)
	if late := s.now().Sub(s.last); s.leading && late > maxReconcile+due {
		return fmt.Errorf("no reconcile completed for %s, one was due after %s", late.Round(time.Millisecond), due)
	}
	return nil
}

// Ready returns nil on a replica that does not lead, and on the leader if its last
// reconcile succeeded.
func (s *State) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.leading:
		return nil
	case s.err != nil:
		return s.err
	case s.reconcile == nil:
		return errors.New("no reconcile completed yet")
	}
	return nil
}

// Panic returns the planner's last panic, nil for none. It is read-only.
func (s *State) Panic() (caught *PlannerPanic) {
	s.set(func(s *State) { caught = s.caught })
	return caught
}

// Snapshot returns the last snapshot, also if the planner panicked on it; false before
// the first. It is read-only.
func (s *State) Snapshot() (last plan.Snapshot, ok bool) {
	s.set(func(s *State) { last, ok = ptr.Deref(s.snapshot, last), s.snapshot != nil })
	return last, ok
}

// Last returns the last successful reconcile; false before the first. It is read-only.
func (s *State) Last() (last Reconcile, ok bool) {
	s.set(func(s *State) { last, ok = ptr.Deref(s.reconcile, last), s.reconcile != nil })
	return last, ok
}

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

// plan plans for a snapshot that passes its check. It turns a panic of the planner into an error.
func (l *Loop) plan(s plan.Snapshot) (made plan.Plan, err error) {
	defer func() {
		if v := recover(); v != nil {
			caught := &PlannerPanic{At: s.Now, Value: v, Stack: debug.Stack(), Snapshot: s}
			made, err = plan.Plan{}, caught
			l.metrics.panics.Inc()
			l.o.Log.Error("planner panicked", "panic", fmt.Sprint(v), "stack", string(caught.Stack))
		}
	}()
	return l.o.Plan(s, l.o.Policy), nil
}
