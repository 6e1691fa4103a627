package view

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// plainEvery is the interval between live lines without a terminal.
const plainEvery = 5 * time.Second

// sparkWidth is the number of values in the sparkline.
const sparkWidth = 12

// View draws to one writer. It is safe for concurrent use.
type View struct {
	out   io.Writer
	live  bool // repaint in place
	color bool
	width func() int

	mu      sync.Mutex
	queue   []float64
	painted int // lines of the live part at the bottom of the screen
	last    string
	plainAt time.Duration
	printed bool
}

// New draws to a file. On a terminal it redraws in place, in colour unless noColor is set (see
// https://no-color.org). A dumb terminal gets plain lines.
func New(out *os.File, noColor bool) *View {
	fd := int(out.Fd())
	live := term.IsTerminal(fd) && os.Getenv("TERM") != "dumb"
	return &View{out: out, live: live, color: live && !noColor, width: func() int {
		if w, _, err := term.GetSize(fd); err == nil && w > 0 {
			return w
		}
		return 120
	}}
}

// Plain draws lines to any writer.
func Plain(out io.Writer) *View {
	return &View{out: out, width: func() int { return 1 << 16 }}
}

// Say prints a line permanently.
func (v *View) Say(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.stay(fmt.Sprintf(format, args...))
}

// Decide prints a decision.
func (v *View) Decide(d Decision) {
	v.mu.Lock()
	defer v.mu.Unlock()
	line := d.line()
	if v.color {
		line = "\x1b[36m" + line + "\x1b[0m"
	}
	v.stay(line)
}

// Show draws the current figures.
func (v *View) Show(f Figures) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if q, ok := f.Queue.Get(); ok {
		v.queue = append(v.queue, q)
		v.queue = v.queue[max(0, len(v.queue)-sparkWidth):]
	}
	line := f.line(v.queue)
	if v.live {
		v.last = line
		v.paint()
		return
	}
	if v.printed && f.At-v.plainAt < plainEvery {
		return
	}
	v.printed, v.plainAt = true, f.At
	fmt.Fprintln(v.out, line)
}

// Summarize ends the live line and prints the summary.
func (v *View) Summarize(s Summary) {
	v.Close()
	fmt.Fprint(v.out, "\n"+s.text())
}

// Close ends the live line, so that later output begins on a new line.
func (v *View) Close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clear()
	v.last = ""
}

func (v *View) stay(line string) {
	v.clear()
	fmt.Fprintln(v.out, line)
	if v.live && v.last != "" {
		v.paint()
	}
}

func (v *View) clear() {
	if v.painted > 0 {
		fmt.Fprint(v.out, "\r\x1b[K"+strings.Repeat("\x1b[A\x1b[K", v.painted-1))
		v.painted = 0
	}
}

func (v *View) paint() {
	v.clear()
	lines := stack(v.last, v.width()-1) // a line that the terminal wraps could not be erased
	fmt.Fprint(v.out, strings.Join(lines, "\n"))
	v.painted = len(lines)
}

// between separates the parts of the live line.
const between = " │ "

// stack breaks the live line into as many lines as the terminal's width requires.
func stack(line string, width int) []string {
	var out []string
	for i, part := range strings.Split(line, between) {
		if i > 0 {
			last := out[len(out)-1]
			if utf8.RuneCountInString(last+between+part) <= width {
				out[len(out)-1] = last + between + part
				continue
			}
			part = "       " + part // aligned with the text after the clock
		}
		out = append(out, part)
	}
	for i, l := range out {
		out[i] = truncate(l, width)
	}
	return out
}

// truncate a line to the width.
func truncate(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	runes := []rune(s)
	return strings.TrimRight(string(runes[:max(0, width-1)]), " ") + "…"
}
