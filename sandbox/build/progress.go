package build

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// plainEvery is the pause between lines without a terminal.
const plainEvery = 10 * time.Second

// reportAfter is how long a target that is compiled each time may take before
// its progress is reported: usually it takes no time at all.
const reportAfter = 2 * time.Second

// progress reports a compilation, which may take minutes.
type progress struct {
	out   io.Writer
	title string
	again bool               // compiled each time
	width func() (int, bool) // of the terminal; false: there is none
	now   func() time.Time
	stop  chan struct{}
	ended sync.WaitGroup

	mu        sync.Mutex
	modules   int // fetched
	total     int // packages to compile; 0: not known yet
	done      int
	start     time.Time
	begin     time.Time // of compiling
	lastPlain time.Time // zero: no line written yet
}

func newProgress(out io.Writer, t target) *progress {
	p := &progress{out: out, title: t.title, again: t.again, now: time.Now, stop: make(chan struct{})}
	p.width = func() (int, bool) { return columns(out) }
	p.start = p.now()
	p.begin = p.start
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
	p.total, p.done, p.begin = total, 0, p.now()
	if total == 0 { // only the program itself
		p.total, p.done = 1, 1
	}
	p.mu.Unlock()
	p.show(!p.again)
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
	if p.again && p.now().Sub(p.start) < reportAfter {
		return
	}
	if p.lastPlain.IsZero() {
		p.lastPlain = p.start
		now = now || p.again // its first line
	}
	width, tty := p.width()
	switch {
	case tty:
		fmt.Fprintf(p.out, "\r\x1b[K%s", truncate(p.text(), width-1))
	case now || p.now().Sub(p.lastPlain) >= plainEvery:
		fmt.Fprintln(p.out, p.text())
		p.lastPlain = p.now()
	}
}

// truncate keeps a line from wrapping: the rest of a wrapped line would stay
// when the line is painted again.
func truncate(s string, width int) string {
	if runes := []rune(s); len(runes) > width {
		return string(runes[:max(0, width-1)]) + "…"
	}
	return s
}

func (p *progress) text() string {
	if p.total == 0 {
		if p.modules == 0 {
			return fmt.Sprintf("resolving the modules of %s", p.title)
		}
		return fmt.Sprintf("downloading the sources of %s: %s modules, %s", p.title, thousands(p.modules), short(p.now().Sub(p.begin)))
	}
	took := p.now().Sub(p.begin)
	first := " the first time"
	if p.again {
		first = ""
	}
	s := fmt.Sprintf("compiling %s%s: %s/%s packages", p.title, first, thousands(p.done), thousands(p.total))
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
	if _, tty := p.width(); tty {
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
