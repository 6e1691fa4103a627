package collect_test

import (
	"errors"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

var (
	errHanging = errors.New("it does not answer")
	errEnded   = errors.New("it is closed")
)

// TestWorkerHangs: a job that hangs holds up its own goroutine, nobody else.
func TestWorkerHangs(t *testing.T) {
	ended := errors.New("could not let go")
	w := collect.NewWorker(20*time.Millisecond, errHanging, errEnded, func() error { return ended })
	ran := false
	if err := w.Do(func() { ran = true }); err != nil || !ran {
		t.Fatalf("ran %v, %v", ran, err)
	}
	release := make(chan struct{})
	if err := w.Do(func() { <-release }); !errors.Is(err, errHanging) {
		t.Errorf("the job that hangs: %v", err)
	}
	if err := w.Do(func() { t.Error("ran beside the job that hangs") }); !errors.Is(err, errHanging) {
		t.Errorf("the job after it: %v", err)
	}
	if err := w.Close(time.Millisecond); !errors.Is(err, errHanging) {
		t.Errorf("closed while it hangs: %v", err)
	}
	if err := w.Do(func() { t.Error("ran after Close") }); !errors.Is(err, errEnded) {
		t.Errorf("after Close: %v", err)
	}
	close(release)
	<-w.Ended()
	if err := w.Close(time.Minute); !errors.Is(err, ended) {
		t.Errorf("closed again: %v", err)
	}
}
