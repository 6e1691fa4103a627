package node

import (
	"errors"
	"testing"
	"time"
)

func TestFailureIsRetriedSooner(t *testing.T) {
	tick := make(<-chan time.Time)
	s := &sampler{interval: 30 * time.Second}
	if s.next(tick) != tick {
		t.Error("a source that works is not read at the tick")
	}
	failure := errors.New("gone")
	s.failed.Store(&failure)
	if s.next(tick) == tick {
		t.Error("a source that failed waits for the next tick, half a minute away")
	}
	s.interval = time.Second
	if s.next(tick) != tick {
		t.Error("a fast clock is left alone")
	}
}
