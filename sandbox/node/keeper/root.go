//go:build linux

package keeper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// system lists the machine's folders and files that the node sees, read-only. On Debian, iptables is reached
// through /etc/alternatives.
var system = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
	"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/protocols", "/etc/services", "/etc/ssl"}

// folders lists the node's own folders.
var folders = []string{"/dev", "/etc", "/node", "/old", "/opt", "/proc", "/root", "/run", "/sys", "/tmp", "/usr", "/var/lib", "/var/log"}

// tunables are kernel settings of the whole machine that the kubelet wants to change, with the wanted values.
// The node sees files in their place.
var tunables = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// makeRoot makes Root the root file system of this process's mount namespace.
func (c Config) makeRoot() error {
	in := func(path string) string { return filepath.Join(c.Root, path) }
	// Mounts from here on stay in the node's mount namespace.
	if err := mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE); err != nil {
		return err
	}
	if err := bind(c.Root, c.Root, false); err != nil {
		return err
	}
	// An overlay file system cannot have overlays of containers on top of it.
	if overlay, err := onOverlay(c.Root); err != nil {
		return err
	} else if overlay {
		if err := mount("tmpfs", in("/var/lib/containerd"), "tmpfs", 0); err != nil {
			return err
		}
	}
	for _, dir := range folders {
		if err := os.MkdirAll(in(dir), 0o755); err != nil {
			return fmt.Errorf("making the node's root: %w", err)
		}
	}
	if err := os.Chmod(in("/tmp"), 0o777|fs.ModeSticky); err != nil {
		return fmt.Errorf("making the node's root: %w", err)
	}
	for _, path := range system {
		if err := c.see(path); err != nil {
			return err
		}
	}
	for _, m := range []struct{ source, target, kind string }{{"proc", "/proc", "proc"}, {"sysfs", "/sys", "sysfs"}} {
		if err := mount(m.source, in(m.target), m.kind, syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC); err != nil {
			return err
		}
	}
	for _, path := range []string{"/dev", "/sys/fs/cgroup"} {
		if err := bind(path, in(path), false); err != nil {
			return err
		}
	}
	for name, value := range tunables {
		file := in(filepath.Join("/node/tunables", name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(value+"\n"), 0o644)); err != nil {
			return fmt.Errorf("making the node's root: %w", err)
		}
		if err := bind(file, in(filepath.Join("/proc/sys", name)), false); err != nil {
			return err
		}
	}
	for _, m := range c.Mounts {
		if err := m.mount(in(m.Target)); err != nil {
			return err
		}
	}
	if err := os.Symlink("/run", in("/var/run")); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making the node's root: %w", err)
	}
	if err := syscall.PivotRoot(c.Root, in("/old")); err != nil {
		return fmt.Errorf("entering the node's root: %w", err)
	}
	if err := errors.Join(os.Chdir("/"), syscall.Unmount("/old", syscall.MNT_DETACH), os.Remove("/old")); err != nil {
		return fmt.Errorf("entering the node's root: %w", err)
	}
	// Containers may request mount propagation to themselves or to the node.
	return mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED)
}

// see makes a path of the machine visible on the node; a symbolic link stays one.
func (c Config) see(path string) error {
	target := filepath.Join(c.Root, path)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("making the node's root: %w", err)
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := os.Readlink(path)
		if err == nil {
			err = os.Symlink(to, target)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("making the node's root: %w", err)
		}
		return nil
	}
	return Mount{Source: path, ReadOnly: true}.mount(target)
}

// mount creates the target if it does not exist, and mounts there.
func (m Mount) mount(target string) error {
	info, err := os.Stat(m.Source)
	if err == nil && info.IsDir() {
		err = os.MkdirAll(target, 0o755)
	} else if err == nil {
		err = touch(target)
	}
	if err != nil {
		return fmt.Errorf("mounting %s: %w", m.Source, err)
	}
	return bind(m.Source, target, m.ReadOnly)
}

func touch(file string) error {
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, nil, 0o644)
}

func bind(source, target string, readOnly bool) error {
	if err := mount(source, target, "", syscall.MS_BIND|syscall.MS_REC); err != nil || !readOnly {
		return err
	}
	return mount("", target, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY)
}

func mount(source, target, kind string, flags uintptr) error {
	if err := syscall.Mount(source, target, kind, flags, ""); err != nil {
		return fmt.Errorf("mounting %q at %s: %w", source, target, err)
	}
	return nil
}

// overlayMagic is OVERLAYFS_SUPER_MAGIC of linux/magic.h.
const overlayMagic = 0x794c7630

func onOverlay(path string) (bool, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return false, fmt.Errorf("looking at %s: %w", path, err)
	}
	return s.Type == overlayMagic, nil
}
