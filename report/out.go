package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// writable checks --out before any query: queries may take minutes.
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

// replace writes a file atomically, since it may be served. A link is followed, and a
// pipe or device, such as /dev/stdout, is written into: a rename would remove either.
func replace(file string, raw []byte) error {
	if !device(file) {
		if target, err := filepath.EvalSymlinks(file); err == nil {
			file = target
		}
		if info, err := os.Stat(file); err != nil || info.Mode().IsRegular() {
			return exchange(file, raw)
		}
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	_, err = f.Write(raw)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// device reports whether a path names an open stream.
func device(file string) bool {
	return strings.HasPrefix(file, "/dev/") || strings.HasPrefix(file, "/proc/")
}

// exchange replaces the old file by a new one.
func exchange(file string, raw []byte) error {
	f, err := os.CreateTemp(filepath.Dir(file), ".gpuscale-report-*")
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	_, err = f.Write(raw)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return fmt.Errorf("writing the report: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}
