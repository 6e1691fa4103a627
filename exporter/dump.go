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
	dumpOptions
	log     *slog.Logger
	reading func() *collect.Reading // the newest; nil before the first
}

// run writes the latest reading every half minute, until ctx ends.
func (d *dumper) run(ctx context.Context) {
	var last time.Time
	wait.UntilWithContext(ctx, func(context.Context) {
		r, now := d.reading(), time.Now()
		if r == nil || now.Sub(last) < dumpEvery {
			return
		}
		last = now
		name, err := d.save(r)
		if err != nil {
			d.log.Warn("reading not dumped", "error", err)
		} else {
			d.log.Debug("reading dumped", "file", name)
		}
		d.clean(now)
	}, time.Second)
}

// save writes under a temporary name and renames, so that no reader finds a
// partial file.
func (d *dumper) save(r *collect.Reading) (name string, err error) {
	if err := os.MkdirAll(d.directory, 0o750); err != nil {
		return "", fmt.Errorf("dump directory: %w", err)
	}
	suffix := ".json"
	if d.compress {
		suffix += ".gz"
	}
	file, err := os.CreateTemp(d.directory, "reading-"+r.Taken.UTC().Format("20060102-150405")+"-*"+suffix+".part")
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

func (d *dumper) encode(w io.Writer, r *collect.Reading) (err error) {
	if d.compress {
		z := gzip.NewWriter(w)
		defer func() { err = errors.Join(err, z.Close()) }()
		w = z
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// dumpName is what save writes; other files in the directory are not ours.
var dumpName = regexp.MustCompile(`^reading-\d{8}-\d{6}-[0-9a-f]+\.json(\.gz)?(\.part)?$`)

// clean removes dumps older than the retention.
func (d *dumper) clean(now time.Time) {
	if d.retentionHours == 0 {
		return
	}
	files, err := os.ReadDir(d.directory)
	if err != nil {
		return // nothing has been dumped yet
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil || !dumpName.MatchString(f.Name()) || now.Sub(info.ModTime()).Hours() <= float64(d.retentionHours) {
			continue
		}
		if err := os.Remove(filepath.Join(d.directory, f.Name())); err != nil {
			d.log.Warn("old dump not removed", "error", err)
		}
	}
}
