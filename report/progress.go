package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// progress is a bar on a terminal, and nothing in a log.
type progress struct {
	w     io.Writer
	on    bool
	shown int // of 100
}

func newProgress(w io.Writer, quiet bool) *progress {
	f, ok := w.(*os.File)
	return &progress{w: w, on: ok && !quiet && term.IsTerminal(int(f.Fd())), shown: -1}
}

// show draws how many of all queries are answered.
func (p *progress) show(done, all int) {
	percent := 100 * done / max(1, all)
	if !p.on || percent == p.shown {
		return
	}
	p.shown = percent
	fmt.Fprintf(p.w, "\rquerying Prometheus %s%s %3d %%", strings.Repeat("█", percent/4), strings.Repeat("░", 25-percent/4), percent)
}

// end removes the bar.
func (p *progress) end() {
	if p.on && p.shown >= 0 {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
