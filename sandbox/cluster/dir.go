package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
)

const (
	dirPrefix = "gpuscale-sandbox-"
	leaseFile = ".lease" // locked by its sandbox for as long as it lives
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
	dir, err := os.MkdirTemp(c.opts.Parent, dirPrefix)
	if err != nil {
		return fmt.Errorf("making the sandbox's folder: %w", err)
	}
	c.dir = dir
	// Locked before it gets its name: a sweep that runs now must not find
	// it free.
	c.lease, err = takeLease(dir, leaseFile+".new")
	if err == nil {
		err = os.Rename(c.lease.Name(), filepath.Join(dir, leaseFile))
	}
	if err != nil {
		return fmt.Errorf("making the sandbox's folder: %w", err)
	}
	for _, sub := range []string{"logs", "pki", "prometheus"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			return fmt.Errorf("making the sandbox's folder: %w", err)
		}
	}
	return nil
}

func takeLease(dir, name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// sweep removes folders of sandboxes that were killed and could not do it
// themselves: the kernel has released their locks.
func sweep(parent string, log *slog.Logger) {
	dirs, err := filepath.Glob(filepath.Join(parent, dirPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, leaseFile)); err != nil {
			continue // not ours, or being made this very moment
		}
		lease, err := takeLease(dir, leaseFile)
		if err != nil {
			continue // alive, or another user's
		}
		if err := os.RemoveAll(dir); err == nil {
			log.Info("removed what a killed sandbox had left", "dir", dir)
		}
		lease.Close()
	}
}
