package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// writable checks --out before any query is sent, since queries may take minutes.
func (o options) writable() error {
	if o.out == "" {
		return nil
	}
	if info, err := os.Stat(o.out); err == nil && info.IsDir() {
		return fmt.Errorf("--out %s is a folder: name a file in it", o.out)
	}
	if _, err := os.Stat(filepath.Dir(o.out)); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}

// replace writes a file atomically, because a web server may be serving it. A symbolic link is followed. A
// pipe or device, such as /dev/stdout, is written into, since a rename would replace it.
func replace(file string, raw []byte) error {
	if !strings.HasPrefix(file, "/dev/") && !strings.HasPrefix(file, "/proc/") { // opened streams have names there
		if target, err := filepath.EvalSymlinks(file); err == nil {
			file = target
		}
		if info, err := os.Stat(file); err != nil || info.Mode().IsRegular() {
			return exchange(file, raw)
		}
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	return errors.Join(err, f.Close())
}

// exchange replaces the old file by a new one.
func exchange(file string, raw []byte) error {
	f, err := os.CreateTemp(filepath.Dir(file), ".gpuscale-report-*")
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// progress draws a progress bar on a terminal. In a log it writes nothing.
type progress struct {
	w     io.Writer
	on    bool
	shown int // percent
}

func newProgress(w io.Writer, quiet bool) *progress {
	return &progress{w: w, on: !quiet && painted(w), shown: -1}
}

// show draws how many of all queries have been answered.
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
