package loop

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gpuscale/gpuscale/plan"
)

// State is what others may ask about a running Loop. It is safe for concurrent
// use.
type State struct {
	interval time.Duration
	now      func() time.Time
	pause    time.Duration // until the next round, where that is more than interval

	mu      sync.Mutex
	leading bool
	last    time.Time // a round ended, well or not
	err     error     // of it
	round   *Round    // the last that ended well
	caught  *PlannerPanic
}

func newState(interval time.Duration, now func() time.Time) *State {
	return &State{interval: interval, now: now}
}

func (s *State) lead(leading bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leading, s.last = leading, s.now()
}

func (s *State) turned(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.err = s.now(), err
	if caught := (*PlannerPanic)(nil); errors.As(err, &caught) {
		s.caught = caught
	}
}

// waits notes how long the loop pauses.
func (s *State) waits(pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pause = pause
}

// Quiet reports whether nothing is expected to happen: the next round is later than
// the interval.
func (s *State) Quiet() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pause > s.interval
}

func (s *State) keep(r Round) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.round = &r
}

// Live is nil unless this replica leads and its loop is three periods late.
func (s *State) Live() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := max(s.interval, s.pause)
	if late := s.now().Sub(s.last); s.leading && late > 3*s.interval+due {
		return fmt.Errorf("no round has ended for %s, one was due after %s", late.Round(time.Millisecond), due)
	}
	return nil
}

// Ready is nil on a replica that waits to lead, and on the leader when its last
// round went well.
func (s *State) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.leading:
		return nil
	case s.err != nil:
		return s.err
	case s.round == nil:
		return errors.New("no round has ended yet")
	}
	return nil
}

// Panic returns the planner's last panic, nil for none. It must not be written to.
func (s *State) Panic() *PlannerPanic {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.caught
}

// Snapshot returns what was planned on last, well or not; false before the
// first. It must not be written to.
func (s *State) Snapshot() (plan.Snapshot, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.caught != nil && (s.round == nil || s.caught.At.After(s.round.Now)):
		return s.caught.Snapshot, true
	case s.round != nil:
		return s.round.Snapshot, true
	}
	return plan.Snapshot{}, false
}

// Last returns the last round that went well; false before the first. It must
// not be written to.
func (s *State) Last() (Round, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.round == nil {
		return Round{}, false
	}
	return *s.round, true
}
