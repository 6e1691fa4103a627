//go:build linux

package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/gpuscale/gpuscale/sandbox/node/keeper"
)

// pluginFolders are the folders in which distributions install CNI plugins.
var pluginFolders = []string{"/usr/lib/cni", "/usr/libexec/cni", "/opt/cni/bin"}

// needed lists the programs that a node requires on this machine, with Debian's packages.
var needed = []struct{ program, pkg string }{
	{"runc", "runc"},
	{"iptables", "iptables"},
	{"mount", "mount"},
	{"ip", "iproute2"},
}

var missing = sync.OnceValue(findMissing)

// Missing returns one error with everything that this machine lacks for a real node; nil if nothing is
// missing.
func Missing() error { return missing() }

func findMissing() error {
	var lacks, packages []string
	for _, n := range needed {
		if _, err := exec.LookPath(n.program); err != nil {
			lacks, packages = append(lacks, n.program), append(packages, n.pkg)
		}
	}
	if plugins() == "" {
		lacks = append(lacks, "CNI plugins in "+strings.Join(pluginFolders, ", "))
		packages = append(packages, "containernetworking-plugins")
	}
	if os.Geteuid() != 0 {
		lacks = append(lacks, "root: this is another user")
	} else {
		lacks = append(lacks, lackingRights()...)
	}
	if len(lacks) == 0 {
		return nil
	}
	text := "for a real node this machine lacks:\n  " + strings.Join(lacks, "\n  ")
	if len(packages) > 0 {
		text += "\non Debian and Ubuntu: sudo apt-get install -y --no-install-recommends " + strings.Join(packages, " ")
	}
	return errors.New(text)
}

// lackingRights tries operations that root may not be allowed to do inside a container.
func lackingRights() []string {
	var lacks []string
	for what, command := range map[string]string{
		"namespaces and mounts of its own": "mount -t tmpfs none /mnt",
		// Without these rules no Service works. The kernel may not support the kind of rules, nftables or legacy, that
		// iptables writes.
		"iptables rules of its own": "iptables -t nat -N GPUSCALE",
	} {
		words := strings.Fields(command)
		cmd := exec.Command(words[0], words[1:]...)
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:   syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
			Unshareflags: syscall.CLONE_NEWNS, // so its mounts stay private
		}
		if out, err := cmd.CombinedOutput(); err != nil && !errors.Is(err, exec.ErrNotFound) { // a missing program is already listed
			lacks = append(lacks, fmt.Sprintf("%s: %v: %s", what, err, strings.TrimSpace(string(out))))
		}
	}
	name := keeper.CgroupName(os.Getpid(), 0)
	if err := errors.Join(keeper.MakeCgroup(name), keeper.RemoveCgroup(name)); err != nil {
		lacks = append(lacks, "cgroups of its own: "+err.Error())
	}
	return lacks
}

// plugins returns the folder with the CNI plugins, or "".
func plugins() string {
	for _, dir := range pluginFolders {
		if _, err := os.Stat(filepath.Join(dir, "bridge")); err == nil {
			return dir
		}
	}
	return ""
}
