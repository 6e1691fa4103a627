package dcgm

import (
	"fmt"
	"time"
)

// The first attempt after a failure comes soon, since most failures are a host
// engine that restarts, and the last ones no rarer than lets a host engine that
// has come back be found within 10 s.
const (
	firstDelay   = 250 * time.Millisecond
	longestDelay = 5 * time.Second
)

// backoff spaces attempts to reach a host engine that is not there.
type backoff struct {
	delay time.Duration
	until time.Time
	why   error
}

// wait is nil when it is time for an attempt, else why the last one failed.
func (b *backoff) wait(now time.Time) error {
	// A clock that was set back must not stretch the wait.
	if left := b.until.Sub(now); left > 0 && left <= b.delay {
		return fmt.Errorf("%w (next attempt in %s)", b.why, left.Round(10*time.Millisecond))
	}
	return nil
}

func (b *backoff) failed(now time.Time, why error) {
	b.delay = min(max(2*b.delay, firstDelay), longestDelay)
	b.until, b.why = now.Add(b.delay), why
}

func (b *backoff) succeeded() { *b = backoff{} }
