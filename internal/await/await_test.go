package await_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuscale/gpuscale/internal/await"
)

var errNotYet = errors.New("no node came")

// A condition that comes true is seen within one check, however long it took, and the checks stop.
func TestUntil(t *testing.T) {
	for _, comes := range []time.Duration{0, 3 * time.Millisecond, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			begin, looks := time.Now(), 0
			err := await.Until(t.Context(), func(context.Context) error {
				looks++
				if time.Since(begin) < comes {
					return errNotYet
				}
				return nil
			})
			if late := time.Since(begin) - comes; err != nil || late > 50*time.Millisecond {
				t.Errorf("comes after %s: %v, seen %s late", comes, err, late)
			}
			if most := 10 + int(comes/(50*time.Millisecond)); looks > most {
				t.Errorf("comes after %s: looked %d times, want at most %d", comes, looks, most)
			}
		})
	}
}

// The error has the reason for the end, and what was seen last.
func TestUntilEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		died := errors.New("etcd was killed")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(died) })
		begin := time.Now()
		err := await.Until(ctx, func(context.Context) error { return errNotYet })
		if !errors.Is(err, died) || !errors.Is(err, errNotYet) || time.Since(begin) != time.Minute {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
	})
}

func TestFinal(t *testing.T) {
	looks := 0
	err := await.Until(t.Context(), func(context.Context) error {
		looks++
		return fmt.Errorf("pod a: %w", await.Final(errNotYet))
	})
	if !errors.Is(err, errNotYet) || looks != 1 {
		t.Errorf("%v after %d looks", err, looks)
	}
	if await.Final(nil) != nil {
		t.Error("what is done is no error")
	}
}

// failed is a fake of a test.
type failed struct{ reported string }

func (*failed) Helper()                             {}
func (*failed) Logf(string, ...any)                 {}
func (f *failed) Fatalf(format string, args ...any) { f.reported = fmt.Sprintf(format, args...) }

func TestForSaysWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f failed
		await.For(&f, time.Minute, "the fleet", func() error { return errNotYet })
		if want := "the fleet: not within 1m0s: no node came"; f.reported != want {
			t.Errorf("%q, want %q", f.reported, want)
		}
		await.True(&f, time.Minute, "the fleet", func() bool { return false })
		if want := "the fleet: not within 1m0s: not yet"; f.reported != want {
			t.Errorf("%q, want %q", f.reported, want)
		}
	})
}
