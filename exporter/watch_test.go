package main

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/require"
)

// following starts to follow a folder. Its clock ticks when the test sends.
func following(t *testing.T, folder string) (look chan<- time.Time, changed <-chan struct{}) {
	t.Helper()
	clock, notified := make(chan time.Time), make(chan struct{}, 100)
	var running sync.WaitGroup
	running.Go(func() { followFolder(t.Context(), folder, clock, func() { notified <- struct{}{} }) })
	t.Cleanup(running.Wait) // the context ends before the cleanup
	return clock, notified
}

func wait(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		t.Fatalf("not reported: %s", what)
	}
}

// The kernel reports a file written, replaced, and reached through a link that
// moves; the clock stands still.
func TestFolderEvents(t *testing.T) {
	dir := t.TempDir()
	look, changed := following(t, dir)
	look <- time.Now() // taken, so the folder is watched
	wait(t, "the first look", changed)

	write(t, filepath.Join(dir, "a"), "1")
	wait(t, "a new file", changed)
	write(t, filepath.Join(t.TempDir(), "b"), "elsewhere")
	require.NoError(t, os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "b")))
	wait(t, "a file moved", changed)
	require.NoError(t, os.Symlink("..v1", filepath.Join(dir, "..data_tmp")))
	wait(t, "a link", changed)
	require.NoError(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	wait(t, "a ConfigMap's update", changed)
}

// A folder that comes later is watched from the next look on.
func TestFolderThatComesLater(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	look, changed := following(t, dir)
	look <- time.Now()
	wait(t, "the first look", changed)
	require.NoError(t, os.Mkdir(dir, 0o755))
	look <- time.Now()
	wait(t, "the second look", changed)
	write(t, filepath.Join(dir, "a"), "1")
	wait(t, "a new file", changed)
}
