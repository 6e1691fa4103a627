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
	// first is closed when the next attempt ends. It is set while the question
	// is idle or waking, and nil while it is refreshed.
	first chan struct{}
	err   error // of the last attempt
	gone  bool  // dropped: the next request makes a new entry
}

// answer is the last good answer; its zero value means none yet.
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

// ask records a request. It returns a channel to wait on if there has been no
// attempt since the question was idle, and false if the entry is dropped.
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

// idle reports whether the last request is older than after. If so, the next
// request waits for an attempt.
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

// attempted records the result of an attempt and releases the waiting requests.
func (e *entry) attempted(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
	if e.first != nil {
		close(e.first)
		e.first = nil
	}
}

// drop removes the entry and releases the waiting requests.
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

// active reports whether the question is refreshed.
func (e *entry) active() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.first == nil
}

func (e *entry) state() State {
	a := e.latest.Load()
	return State{Value: a.value, Failure: e.failure(), At: a.at}
}
