//go:build linux

package keeper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/prometheus/procfs"
)

// hierarchy is a mounted tree of cgroups.
type hierarchy struct {
	dir string
	v2  bool
}

// hierarchies of this machine.
func hierarchies() ([]hierarchy, error) {
	mounts, err := procfs.GetMounts()
	if err != nil {
		return nil, fmt.Errorf("finding the cgroups: %w", err)
	}
	var all []hierarchy
	for _, m := range mounts {
		if strings.HasPrefix(m.MountPoint, "/sys/fs/cgroup") && (m.FSType == "cgroup" || m.FSType == "cgroup2") {
			all = append(all, hierarchy{dir: m.MountPoint, v2: m.FSType == "cgroup2"})
		}
	}
	if len(all) == 0 {
		return nil, errors.New("no cgroups are mounted below /sys/fs/cgroup")
	}
	return all, nil
}

// MakeCgroup creates the cgroup in each hierarchy. The caller must remove it.
func MakeCgroup(name string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		dir := filepath.Join(h.dir, name)
		if h.v2 { // beside version 1 it has no controllers, but runc uses it
			err = enableControllers(h.dir)
		}
		if err == nil {
			err = os.Mkdir(dir, 0o755)
		}
		if err == nil && !h.v2 {
			err = inherit(h.dir, dir)
		}
		if err != nil {
			return fmt.Errorf("making a cgroup: %w", err)
		}
	}
	return nil
}

// inherit copies the settings that a cpuset of version 1 requires before a process can join.
func inherit(parent, child string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(parent, file))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // not the cpuset controller
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(child, file), value, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// enableControllers enables all controllers of the root for its children; the kubelet requires them.
func enableControllers(root string) error {
	there, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for _, c := range strings.Fields(string(there)) {
		if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+"+c), 0o644); err != nil {
			return fmt.Errorf("enabling controller %s: %w", c, err)
		}
	}
	return nil
}

// RemoveCgroup removes the cgroup and its children from each hierarchy. It fails while they contain
// processes.
func RemoveCgroup(name string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	var errs []error
	for _, h := range all {
		errs = append(errs, removeTree(filepath.Join(h.dir, name)))
	}
	return errors.Join(errs...)
}

func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() {
			err = errors.Join(err, removeTree(filepath.Join(dir, e.Name())))
		}
	}
	if err == nil {
		err = syscall.Rmdir(dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing cgroup %s: %w", dir, err)
	}
	return nil
}

// sweepCgroups removes cgroups of processes that ended without removing them. Those that cannot be removed
// yet stay until the next node.
func sweepCgroups() {
	all, err := hierarchies()
	if err != nil {
		return
	}
	for _, h := range all {
		dirs, _ := filepath.Glob(filepath.Join(h.dir, cgroupPrefix+"*"))
		for _, dir := range dirs {
			owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), cgroupPrefix), "-")
			pid, err := strconv.Atoi(owner)
			if err != nil || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
				continue
			}
			_ = removeTree(dir)
		}
	}
}
