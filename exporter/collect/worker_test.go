package collect_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// A job that hangs holds up the worker's goroutine alone: every caller gets its answer
// within the timeout.
func TestWorkerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hanging, closed, ended := errors.New("it does not answer"), errors.New("it is closed"), errors.New("not released")
		w := collect.NewWorker(time.Second, hanging, closed, func() error { return ended })
		ran := false
		if err := w.Do(func() { ran = true }); err != nil || !ran {
			t.Fatalf("ran %v, %v", ran, err)
		}
		release := make(chan struct{})
		if err := w.Do(func() { <-release }); !errors.Is(err, hanging) {
			t.Errorf("the job that hangs: %v", err)
		}
		if err := w.Do(func() { t.Error("ran beside the job that hangs") }); !errors.Is(err, hanging) {
			t.Errorf("the job after it: %v", err)
		}
		if err := w.Close(time.Second); !errors.Is(err, hanging) {
			t.Errorf("closed while it hangs: %v", err)
		}
		if err := w.Do(func() { t.Error("ran after Close") }); !errors.Is(err, closed) {
			t.Errorf("after Close: %v", err)
		}
		close(release)
		if err := w.Close(time.Second); !errors.Is(err, ended) {
			t.Errorf("closed again: %v", err)
		}
	})
}
