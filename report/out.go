package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// writable finds out before anything is asked whether there is a place for --out: the
// questions may take minutes.
func (o options) writable() error {
	if o.out == "" || o.form == "csv" { // of csv the folder is made
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

// replace writes a file whole or not at all: what is there may be served. A link is
// followed, and what is no file, such as a pipe or /dev/stdout, is written into; both
// would be gone if a file took their place.
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

// device says whether a file's name stands for an open stream, whatever that leads to.
func device(file string) bool {
	return strings.HasPrefix(file, "/dev/") || strings.HasPrefix(file, "/proc/")
}

// exchange puts a new file in the place of the old one.
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
