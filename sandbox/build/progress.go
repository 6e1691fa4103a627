package build

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// plainEvery is the pause between lines when nobody watches a terminal.
const plainEvery = 10 * time.Second

// progress tells somebody who waits for minutes what is going on.
type progress struct {
	out   io.Writer
	title string
	tty   bool
	now   func() time.Time
	stop  chan struct{}
	ended sync.WaitGroup

	mu        sync.Mutex
	modules   int // fetched
	total     int // packages to compile; 0: not known yet
	done      int
	begin     time.Time // of compiling
	lastPlain time.Time
}

func newProgress(out io.Writer, title string) *progress {
	p := &progress{out: out, title: title, now: time.Now, stop: make(chan struct{})}
	if f, ok := out.(*os.File); ok {
		p.tty = term.IsTerminal(int(f.Fd()))
	}
	p.begin, p.lastPlain = p.now(), p.now()
	p.ended.Go(func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-p.stop:
				return
			case <-tick.C:
				p.show(false)
			}
		}
	})
	return p
}

// downloading gets go's lines while it fetches modules.
func (p *progress) downloading(line string) {
	if strings.HasPrefix(line, "go: downloading ") {
		p.mu.Lock()
		p.modules++
		p.mu.Unlock()
	}
}

// compiling begins, of so many packages.
func (p *progress) compiling(total int) {
	p.mu.Lock()
	p.total, p.done, p.begin = max(total, 1), 0, p.now()
	p.mu.Unlock()
	p.show(true)
}

// compiled gets go's lines while it compiles: one for each package.
func (p *progress) compiled(line string) {
	if line == "" || strings.ContainsAny(line, " \t") {
		return // a message
	}
	p.mu.Lock()
	p.done = min(p.done+1, p.total)
	p.mu.Unlock()
}

func (p *progress) show(now bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.tty:
		fmt.Fprintf(p.out, "\r\x1b[K%s", p.text())
	case now || p.now().Sub(p.lastPlain) >= plainEvery:
		fmt.Fprintln(p.out, p.text())
		p.lastPlain = p.now()
	}
}

func (p *progress) text() string {
	if p.total == 0 {
		if p.modules == 0 {
			return fmt.Sprintf("looking at the sources of %s", p.title)
		}
		return fmt.Sprintf("downloading the sources of %s: %s modules, %s", p.title, thousands(p.modules), short(p.now().Sub(p.begin)))
	}
	took := p.now().Sub(p.begin)
	s := fmt.Sprintf("compiling %s the first time: %s/%s packages", p.title, thousands(p.done), thousands(p.total))
	if took >= time.Second {
		s += ", " + short(took)
	}
	if p.done == p.total {
		return s + ", linking"
	}
	if left, ok := remaining(took, p.done, p.total); ok {
		s += ", about " + roughly(left) + " left"
	}
	return s
}

func (p *progress) close() {
	close(p.stop)
	p.ended.Wait()
	if p.tty {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

// remaining time, once there is enough to judge by. Packages differ, but
// over two thousand of them the rate is even enough.
func remaining(took time.Duration, done, total int) (time.Duration, bool) {
	if took < 5*time.Second || done < total/50 || done == 0 {
		return 0, false
	}
	return time.Duration(float64(took) / float64(done) * float64(total-done)), true
}

func short(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%ds", int(d.Seconds()))
	}
	return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
}

func roughly(d time.Duration) string {
	switch m := int(d.Minutes() + 0.5); {
	case d < 10*time.Second:
		return "10 seconds"
	case d < 50*time.Second:
		return fmt.Sprintf("%d seconds", (int(d.Seconds())+9)/10*10)
	case m <= 1:
		return "1 minute"
	default:
		return fmt.Sprintf("%d minutes", m)
	}
}

func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
