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

// pluginFolders are where distributions have the CNI plugins.
var pluginFolders = []string{"/usr/lib/cni", "/usr/libexec/cni", "/opt/cni/bin"}

// needed are the programs of the machine that a node runs, and Debian's packages
// with them.
var needed = []struct{ program, pkg string }{
	{"runc", "runc"},
	{"iptables", "iptables"},
	{"mount", "mount"},
	{"ip", "iproute2"},
}

var missing = sync.OnceValue(findMissing)

// Missing returns one error that lists everything that this machine lacks for a
// real node; nil when all is there.
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

// lackingRights tries what root may not do in a container.
func lackingRights() []string {
	var lacks []string
	for what, command := range map[string]string{
		"namespaces and mounts of its own": "mount -t tmpfs none /mnt",
		// Without them no Service leads anywhere. The kernel may lack the kind, nftables or legacy, that the program writes.
		"iptables rules of its own": "iptables -t nat -N GPUSCALE",
	} {
		words := strings.Fields(command)
		cmd := exec.Command(words[0], words[1:]...)
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:   syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
			Unshareflags: syscall.CLONE_NEWNS, // its mounts are private
		}
		if out, err := cmd.CombinedOutput(); err != nil && !errors.Is(err, exec.ErrNotFound) { // which is listed already
			lacks = append(lacks, fmt.Sprintf("%s: %v: %s", what, err, strings.TrimSpace(string(out))))
		}
	}
	name := keeper.CgroupName(os.Getpid(), 0)
	if err := errors.Join(keeper.MakeCgroup(name), keeper.RemoveCgroup(name)); err != nil {
		lacks = append(lacks, "cgroups of its own: "+err.Error())
	}
	return lacks
}

// plugins is the folder with the CNI plugins; empty: there is none.
func plugins() string {
	for _, dir := range pluginFolders {
		if _, err := os.Stat(filepath.Join(dir, "bridge")); err == nil {
			return dir
		}
	}
	return ""
}
