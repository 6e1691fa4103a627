package cache

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

// entry is one question and what is known about it.
type entry struct {
	Question
	// pinned questions are a rule's own: they fall idle, but are not dropped.
	pinned bool
	// empty is the table of a rule before its first answer; nil for others.
	empty  *signal.Table
	latest atomic.Pointer[answer] // swapped, never changed
	wake   chan struct{}          // holds one token
	stop   context.CancelFunc     // nil before the loop is started; guarded by Cache.mu

	mu    sync.Mutex
	asked time.Time // last request
	// first is closed by the next attempt to end; it is there while the
	// question is idle or waking, and nil while it is asked regularly.
	first chan struct{}
	err   error // of the last attempt
	gone  bool  // dropped: whoever asks must make a new one
}

// answer is the last good one; its zero value stands for none yet.
type answer struct {
	value   any
	at      time.Time
	series  int
	dropped map[signal.Reason]int
}

func newEntry(q Question, pinned bool) *entry {
	e := &entry{Question: q, pinned: pinned, wake: make(chan struct{}, 1), first: make(chan struct{})}
	e.latest.Store(&answer{})
	return e
}

// ask notes that somebody wants an answer. It returns a channel to wait on if
// there has been no attempt since the question was idle, and false if the
// entry is no longer kept.
func (e *entry) ask(now time.Time) (<-chan struct{}, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone {
		return nil, false
	}
	e.asked = now
	if e.first == nil {
		return nil, true
	}
	select {
	case e.wake <- struct{}{}:
	default: // already woken
	}
	return e.first, true
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
	e.gone = !e.pinned
	return true
}

// attempted records how an attempt ended and lets those waiting go on.
func (e *entry) attempted(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
	if e.first != nil {
		close(e.first)
		e.first = nil
	}
}

// drop lets those waiting go on; what they have is all they get.
func (e *entry) drop(why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gone = true
	if e.err == nil {
		e.err = why
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

// active reports whether the question is being asked regularly.
func (e *entry) active() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.first == nil
}

func (e *entry) state() State {
	a := e.latest.Load()
	return State{Value: a.value, Failure: e.failure(), At: a.at}
}
