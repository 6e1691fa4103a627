package main

import (
	"context"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settleFor lets an editor finish: most write a file in two or three steps.
	settleFor = 100 * time.Millisecond
	// lookEvery covers changes without notification: a folder created later, a
	// link into another one, a file system that does not support it.
	lookEvery = 10 * time.Second
)

// watchFolder calls changed after anything in a folder changed, and every ten
// seconds, until ctx ends. A ConfigMap is replaced by moving the link ..data in
// its folder, which is a change like any other.
func watchFolder(ctx context.Context, folder string, changed func()) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	followFolder(ctx, folder, look.C, changed)
}

// followFolder is watchFolder with its clock handed in.
func followFolder(ctx context.Context, folder string, look <-chan time.Time, changed func()) {
	var events chan fsnotify.Event
	var errs chan error
	watching := func() bool { return false }
	if watcher, err := fsnotify.NewWatcher(); err == nil {
		defer watcher.Close()
		events, errs = watcher.Events, watcher.Errors
		watching = func() bool { return watcher.Add(folder) == nil }
	}
	watching()
	var settled <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
			if settled == nil {
				settled = time.After(settleFor)
			}
			continue
		case <-errs: //nolint:errcheck // only that one came counts
			continue // an overflow: the ticker looks
		case <-settled:
			settled = nil
		case <-look:
			watching() // the folder may have been made again
		}
		changed()
	}
}
