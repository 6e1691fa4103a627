package build

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// reportEvery is the pause between two lines about a compilation.
const reportEvery = 10 * time.Second

// progress reports a compilation, which may take minutes.
type progress struct {
	out   io.Writer
	title string
	stop  chan struct{}
	ended sync.WaitGroup

	mu                sync.Mutex
	modules, packages int // downloaded, compiled
}

// newProgress reports until close. A first compilation is reported at once; a check for changes only if it
// takes long.
func newProgress(out io.Writer, t target, first bool) *progress {
	p := &progress{out: out, title: t.title, stop: make(chan struct{})}
	begun := time.Now()
	if first {
		fmt.Fprintf(out, "compiling %s, which takes minutes the first time\n", t.title)
	}
	p.ended.Go(func() {
		tick := time.NewTicker(reportEvery)
		defer tick.Stop()
		for {
			select {
			case <-p.stop:
				return
			case <-tick.C:
				fmt.Fprintln(p.out, p.text(time.Since(begun)))
			}
		}
	})
	return p
}

// line handles a line of go build -v. It reports whether the line is a message, not progress.
func (p *progress) line(line string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case strings.HasPrefix(line, "go: downloading "):
		p.modules++
	case line != "" && !strings.ContainsAny(line, " \t"):
		p.packages++
	default:
		return true
	}
	return false
}

// text includes the time: it is the only thing that changes while programs are linked.
func (p *progress) text(after time.Duration) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("compiling %s: %d modules downloaded, %d packages compiled, %s", p.title, p.modules, p.packages, after.Round(time.Second))
}

func (p *progress) close() {
	close(p.stop)
	p.ended.Wait()
}
