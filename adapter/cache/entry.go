package cache

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

// entry is one rule's state.
type entry struct {
	rule    signal.Rule
	query   string
	history string                       // of the first answer after the start or an idle time
	table   atomic.Pointer[signal.Table] // swapped, never changed
	wake    chan struct{}                // holds one token

	mu    sync.Mutex
	asked time.Time // last request
	// first is closed by the next attempt to end; it is there while the rule is
	// idle or waking, and nil while it is refreshed regularly.
	first    chan struct{}
	err      error     // of the last attempt
	lastGood time.Time // zero before the first
}

func newEntry(r signal.Rule) *entry {
	e := &entry{rule: r, query: r.Query(), history: r.History(), wake: make(chan struct{}, 1), first: make(chan struct{})}
	e.table.Store(signal.NewTable(r))
	return e
}

// ask notes that somebody wants the rule. It returns a channel to wait on if
// there has been no attempt since the rule was idle.
func (e *entry) ask(now time.Time) <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = now
	if e.first == nil {
		return nil
	}
	select {
	case e.wake <- struct{}{}:
	default: // already woken
	}
	return e.first
}

// idle reports whether nobody has asked for so long, and if so makes the next
// one to ask wait.
func (e *entry) idle(now time.Time, after time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Sub(e.asked) <= after {
		return false
	}
	if e.first == nil {
		e.first = make(chan struct{})
	}
	return true
}

// attempted records how an attempt ended and lets those waiting go on.
func (e *entry) attempted(err error, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
	if err == nil {
		e.lastGood = now
	}
	if e.first != nil {
		close(e.first)
		e.first = nil
	}
}

func (e *entry) failure() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// age returns the time since the last good answer, false before the first.
func (e *entry) age(now time.Time) (time.Duration, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return now.Sub(e.lastGood), !e.lastGood.IsZero()
}
