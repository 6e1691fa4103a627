package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lock locks the file and returns the function that unlocks it. If another process has the lock, it calls
// wait once and then waits. The kernel releases the lock of a process that dies, so a lock is never stale.
func lock(ctx context.Context, file string, wait func()) (func(), error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	for waiting := false; ; waiting = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", file, err)
		}
		if !waiting {
			wait()
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}
