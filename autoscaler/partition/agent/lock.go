package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lockEvery is how often an agent that waits for another looks again.
const lockEvery = time.Second

// Lock waits until no other agent holds the file, and holds it until release is
// called or the process ends, however it ends. Two agents on one machine would each
// destroy what the other has just made. waiting is called each time the file is
// found held. An empty path locks nothing.
func Lock(ctx context.Context, path string, waiting func()) (release func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lockFile: %w", err)
	}
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = file.Close()
			return nil, fmt.Errorf("lockFile %s: %w", path, err)
		}
		waiting()
		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, ctx.Err()
		case <-time.After(lockEvery):
		}
	}
}
