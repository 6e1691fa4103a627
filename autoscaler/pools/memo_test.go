package pools

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestFailuresAreRetriedLessOften: a failing provider's answer is kept for a time that doubles, up
// to a minute; a Problem, and a change of the pool, are read at the normal interval; one success
// resets it.
func TestFailuresAreRetriedLessOften(t *testing.T) {
	now, asked := testNow, 0
	var fails error = errors.New("Throttling")
	m := newMemo(10*time.Second, func() time.Time { return now })
	pool := testPool()
	get := func() error {
		_, err := m.get(t.Context(), pool, func() (Listing, error) { asked++; return Listing{Target: 3}, fails })
		return err
	}
	over := func(d time.Duration) int {
		before := asked
		for end := now.Add(d); now.Before(end); now = now.Add(time.Second) {
			if err := get(); !errors.Is(err, fails) {
				t.Fatalf("%v, want %v", err, fails)
			}
		}
		return asked - before
	}
	if n := over(62 * time.Second); n != 5 { // after 2, 4, 8, 16 and 32 seconds
		t.Errorf("asked %d times in a minute of failures", n)
	}
	if n := over(10 * time.Minute); n != 10 {
		t.Errorf("asked %d times in ten minutes more", n)
	}
	pool.Generation++
	if n := over(time.Second); n != 1 {
		t.Errorf("a pool that was changed was asked for %d times", n)
	}
	fails = &Problem{Reason: ReasonTarget}
	m.forget(pool)
	if n := over(time.Minute); n != 6 {
		t.Errorf("what may have been mended was looked at %d times in a minute", n)
	}
	fails = nil
	now = now.Add(time.Minute)
	if err := get(); err != nil {
		t.Fatal(err)
	}
	fails = errors.New("Throttling")
	now = now.Add(time.Minute)
	_, _ = over(time.Second), now
	if n := over(2 * time.Second); n != 1 {
		t.Errorf("the first failure after a good answer is asked again after two seconds, not %d times", n)
	}
	// A clock that goes back keeps no answer forever.
	before := asked
	now = now.Add(-time.Hour)
	_ = get()
	if asked == before {
		t.Error("an answer of the future is believed")
	}
	// A call that is cancelled by this process says nothing about the provider.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	pool.Name = "other"
	_, _ = m.get(ctx, pool, func() (Listing, error) { return Listing{}, context.Canceled })
	if _, kept := m.answers["other"]; kept {
		t.Error("our own end is kept as a failure")
	}
}
