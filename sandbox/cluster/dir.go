package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	dirPrefix = "gpuscale-cluster-"
	diskSpace = 512 << 20
)

func (o Options) check() error {
	for _, name := range []string{Etcd, APIServer, ControllerManager, Scheduler, KWOK} {
		if _, err := os.Stat(o.Binaries.Program(name)); err != nil {
			return fmt.Errorf("the control plane's binaries are not there (build them first): %w", err)
		}
	}
	if len(o.Prometheus) > 0 && o.Binaries.Prometheus == "" {
		return errors.New("a Prometheus configuration, but no Prometheus binary")
	}
	var s syscall.Statfs_t
	if err := syscall.Statfs(o.Parent, &s); err != nil {
		return fmt.Errorf("looking at the folder for temporary files: %w", err)
	}
	if free := s.Bavail * uint64(s.Bsize); free < diskSpace {
		return fmt.Errorf("the disk is full: the sandbox needs %d MiB in %s, which has %d (another place: TMPDIR=<folder>)",
			diskSpace>>20, o.Parent, free>>20)
	}
	return nil
}

// makeDir makes the cluster's folder and takes its lease.
func (c *Cluster) makeDir() error {
	var err error
	if c.dir, err = os.MkdirTemp(c.opts.Parent, dirPrefix); err != nil {
		return fmt.Errorf("making the sandbox's folder: %w", err)
	}
	c.lease, err = takeLease(c.dir)
	for _, sub := range []string{"logs", "pki", "prometheus"} {
		err = errors.Join(err, os.Mkdir(filepath.Join(c.dir, sub), 0o700))
	}
	if err != nil {
		return fmt.Errorf("making the sandbox's folder: %w", err)
	}
	return nil
}

// takeLease locks a sandbox's folder while the sandbox lives.
func takeLease(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// sweep removes the folders of sandboxes that were killed before they could remove them: the kernel has
// released their locks. A folder that has just been created may not be locked yet.
func sweep(parent string, log *slog.Logger) {
	dirs, err := filepath.Glob(filepath.Join(parent, dirPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err != nil || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		lease, err := takeLease(dir)
		if err != nil {
			continue // alive, or another user's
		}
		if err := os.RemoveAll(dir); err == nil {
			log.Info("removed what a killed sandbox had left", "dir", dir)
		}
		lease.Close()
	}
}
