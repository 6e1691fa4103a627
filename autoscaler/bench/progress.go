package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress says on a line of its own what is being done, and since when.
type progress struct {
	mu    sync.Mutex
	w     io.Writer
	since time.Time
}

func newProgress(w io.Writer) *progress { return &progress{w: w, since: time.Now()} }

func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.w, "%6s  %s\n", time.Since(p.since).Round(time.Second), fmt.Sprintf(format, args...))
}
