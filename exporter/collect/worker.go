package collect

import (
	"fmt"
	"sync"
	"time"
)

// Worker runs everything that reaches a driver's library in one goroutine. A
// caller waits for it a bounded time, so that a hanging call blocks only that
// goroutine.
type Worker struct {
	// Timeout bounds how long Do waits. It changes only while no Do runs.
	Timeout          time.Duration
	hanging, ended   error
	jobs             chan func()
	closing          sync.Once
	closed, finished chan struct{}
	endErr           error // of end; to read after finished
}

// NewWorker starts the goroutine. A job gets timeout at first; hanging is the error of one
// that takes longer, ended of one that comes after Close. end releases the library when the
// goroutine ends.
func NewWorker(timeout time.Duration, hanging, ended error, end func() error) *Worker {
	w := &Worker{Timeout: timeout, hanging: hanging, ended: ended,
		jobs: make(chan func()), closed: make(chan struct{}), finished: make(chan struct{})}
	go w.run(end)
	return w
}

func (w *Worker) run(end func() error) {
	defer close(w.finished)
	for {
		select {
		case job := <-w.jobs:
			job()
		case <-w.closed:
			w.endErr = end()
			return
		}
	}
}

// Do runs a job in the goroutine and waits for it, both within the timeout. A
// job that is given up still runs to its end.
func (w *Worker) Do(job func()) error {
	deadline := time.NewTimer(w.Timeout)
	defer deadline.Stop()
	done := make(chan struct{})
	select {
	case <-w.closed:
		return w.ended
	default:
	}
	select {
	case w.jobs <- func() { defer close(done); job() }:
	case <-w.closed:
		return w.ended
	case <-deadline.C:
		return fmt.Errorf("%w: an earlier call has hung for more than %s", w.hanging, w.Timeout)
	}
	select {
	case <-done:
		return nil
	case <-w.closed:
		return w.ended
	case <-deadline.C:
		return fmt.Errorf("%w within %s", w.hanging, w.Timeout)
	}
}

// Close ends the goroutine and waits for that no longer than given: it ends by
// itself when a call that hangs comes back. The error is end's, or that it still
// hangs.
func (w *Worker) Close(wait time.Duration) error {
	w.closing.Do(func() { close(w.closed) })
	select {
	case <-w.finished:
		return w.endErr
	case <-time.After(wait):
		return fmt.Errorf("closing: %w within %s", w.hanging, wait)
	}
}
