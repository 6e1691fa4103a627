package await

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The interval between checks starts at soonest and doubles up to latest: fast
// conditions are seen at once, slow ones are not checked a thousand times.
const soonest, latest = time.Millisecond, 50 * time.Millisecond

// Until calls done until it returns nil. If ctx ends first, the error is its cause and
// done's last error. A Final error of done ends it at once.
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

// Final marks an error that does not go away by waiting.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return final{err}
}

type final struct{ error }

func (f final) Unwrap() error { return f.error }

// T is the part of testing.TB that For needs.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// For calls done until it returns nil, and fails the test if that takes longer than
// most, with what and done's last error. It logs waits of more than a second. It may
// be used in a cleanup.
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

// True is For with a condition that has no error.
func True(t T, most time.Duration, what string, done func() bool) {
	t.Helper()
	For(t, most, what, func() error {
		if !done() {
			return errors.New("not yet")
		}
		return nil
	})
}
