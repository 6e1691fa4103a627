package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// lockEvery is the interval at which a second agent retries the lock.
const lockEvery = time.Second

// Lock waits until no other agent holds the file's lock, and holds it until release is called or
// the process ends, however it ends. Two agents on one machine would each destroy what the other
// creates. waiting is called on each failed try. An empty path locks nothing.
func Lock(ctx context.Context, path string, waiting func()) (release func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lockFile: %w", err)
	}
	err = wait.PollUntilContextCancel(ctx, lockEvery, true, func(context.Context) (bool, error) {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
			waiting()
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lockFile %s: %w", path, err)
	}
	return func() { _ = file.Close() }, nil
}
