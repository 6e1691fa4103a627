package main

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// dumpEvery is the interval of dumps: readings come every second; a dump is read by users.
const dumpEvery = 30 * time.Second

// dumpOptions are dcgm-exporter's --dump-* flags.
type dumpOptions struct {
	enabled        bool
	directory      string
	retentionHours int // 0: for ever
	compress       bool
}

// dumper writes readings to files, to analyse a problem later. It writes from
// its own goroutine, so a full disk blocks nothing.
type dumper struct {
	opts   dumpOptions
	log    *slog.Logger
	latest atomic.Pointer[collect.Reading]
	now    func() time.Time
}

func newDumper(o dumpOptions, log *slog.Logger) *dumper {
	return &dumper{opts: o, log: log, now: time.Now}
}

// run writes the latest reading every half minute, until ctx ends.
func (d *dumper) run(ctx context.Context) {
	var last time.Time
	wait.UntilWithContext(ctx, func(context.Context) {
		if r, now := d.latest.Load(), d.now(); r != nil && now.Sub(last) >= dumpEvery {
			last = now
			d.write(r)
			d.clean()
		}
	}, time.Second)
}

func (d *dumper) write(r *collect.Reading) {
	name, err := d.save(r)
	if err != nil {
		d.log.Warn("reading not dumped", "error", err)
		return
	}
	d.log.Debug("reading dumped", "file", name)
}

// save writes under a temporary name and renames, so that no reader finds a
// partial file.
func (d *dumper) save(r *collect.Reading) (name string, err error) {
	if err := os.MkdirAll(d.opts.directory, 0o750); err != nil {
		return "", fmt.Errorf("dump directory: %w", err)
	}
	suffix := ".json"
	if d.opts.compress {
		suffix += ".gz"
	}
	file, err := os.CreateTemp(d.opts.directory, "reading-"+r.Taken.UTC().Format("20060102-150405")+"-*"+suffix+".part")
	if err != nil {
		return "", fmt.Errorf("dumping a reading: %w", err)
	}
	name = strings.TrimSuffix(file.Name(), ".part")
	err = errors.Join(d.encode(file, r), file.Chmod(0o640), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return "", fmt.Errorf("dumping a reading to %s: %w", name, err)
	}
	return name, nil
}

func (d *dumper) encode(w io.Writer, r *collect.Reading) error {
	to, end := w, func() error { return nil }
	if d.opts.compress {
		z := gzip.NewWriter(w)
		to, end = z, z.Close
	}
	encoder := json.NewEncoder(to)
	encoder.SetIndent("", "  ")
	return errors.Join(encoder.Encode(r), end())
}

// dumpName is what save writes; other files in the directory are not ours.
var dumpName = regexp.MustCompile(`^reading-\d{8}-\d{6}-[0-9a-f]+\.json(\.gz)?(\.part)?$`)

// clean removes dumps older than the retention.
func (d *dumper) clean() {
	if d.opts.retentionHours == 0 {
		return
	}
	files, err := os.ReadDir(d.opts.directory)
	if err != nil {
		return // nothing has been dumped yet
	}
	oldest := d.now().Add(-time.Duration(d.opts.retentionHours) * time.Hour)
	for _, f := range files {
		info, err := f.Info()
		if err != nil || !dumpName.MatchString(f.Name()) || info.ModTime().After(oldest) {
			continue
		}
		if err := os.Remove(filepath.Join(d.opts.directory, f.Name())); err != nil {
			d.log.Warn("old dump not removed", "error", err)
		}
	}
}
