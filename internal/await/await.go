package await

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Looks are apart by soonest at first and twice as far each time, up to a bound: what
// comes at once is seen at once, and what takes minutes is not asked a thousand times.
const soonest, latest = time.Millisecond, 50 * time.Millisecond

// Until looks until done returns nil. Where ctx ends first the error is its cause and
// what done said last; an error of done that is Final ends it at once.
func Until(ctx context.Context, done func(context.Context) error) error {
	for pause := soonest; ; pause = min(2*pause, latest) {
		err := done(ctx)
		if err == nil {
			return nil
		}
		if f := (final{}); errors.As(err, &f) {
			return f.error
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}

// Final marks an error that waiting does not mend.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return final{err}
}

type final struct{ error }

func (f final) Unwrap() error { return f.error }

// T is what is asked of a test.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// For looks until done returns nil, and ends the test where that takes longer than
// most: with what was awaited and what done said last. What takes more than a second
// is logged. It may be used in a cleanup.
func For(t T, most time.Duration, what string, done func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(context.Background(), most, fmt.Errorf("not within %s", most))
	defer cancel()
	begin := time.Now()
	if err := Until(ctx, func(context.Context) error { return done() }); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if took := time.Since(begin); took > time.Second {
		t.Logf("%s: after %s", what, took.Round(10*time.Millisecond))
	}
}

// True is For where there is nothing to say but yes or no.
func True(t T, most time.Duration, what string, done func() bool) {
	t.Helper()
	For(t, most, what, func() error {
		if !done() {
			return errors.New("not yet")
		}
		return nil
	})
}
