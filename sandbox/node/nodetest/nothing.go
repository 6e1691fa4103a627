//go:build linux

package nodetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/node/keeper"
)

// Machine is the state of this machine that a node could change, by kind.
type Machine map[string]string

// Look reads this state.
func Look(t testing.TB) Machine {
	t.Helper()
	m := Machine{}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	m["mounts"] = string(mounts)
	for _, command := range []string{"iptables-save", "ip -o address", "ip route show table all"} {
		args := strings.Fields(command)
		out, err := exec.Command(args[0], args[1:]...).Output()
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		m[command] = withoutComments(string(out))
	}
	for _, pattern := range []string{"/proc/sys/vm/*", "/proc/sys/kernel/panic*", "/proc/sys/kernel/keys/*", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/netfilter/*_max"} {
		files, _ := filepath.Glob(pattern)
		for _, f := range files {
			if value, err := os.ReadFile(f); err == nil {
				m[f] = string(value)
			}
		}
	}
	m["cgroups"] = strings.Join(Cgroups(os.Getpid()), "\n")
	return m
}

// Cgroups returns the cgroups of the nodes that a process has started, in all hierarchies.
func Cgroups(pid int) []string {
	name := strings.TrimSuffix(keeper.CgroupName(pid, 0), "0") + "*"
	v1, _ := filepath.Glob(filepath.Join("/sys/fs/cgroup/*", name))
	v2, _ := filepath.Glob(filepath.Join("/sys/fs/cgroup", name))
	return append(v1, v2...)
}

// withoutComments removes comment lines, which contain the time.
func withoutComments(text string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool { return strings.HasPrefix(l, "#") }), "\n")
}

// Diff returns the differences from an earlier state; nil if there are none.
func (m Machine) Diff(before Machine) error {
	var errs []error
	for what, was := range before {
		if m[what] != was {
			errs = append(errs, fmt.Errorf("%s differ:\nbefore: %s\nafter: %s", what, was, m[what]))
		}
	}
	return errors.Join(errs...)
}

var namespaces = []string{"cgroup", "ipc", "mnt", "net", "pid", "uts"}

// Namespaces returns the namespaces of this machine's processes other than this process's own, with one
// process for each.
func Namespaces() map[string]string {
	ours, all := map[string]bool{}, map[string]string{}
	for _, kind := range namespaces {
		if to, err := os.Readlink("/proc/self/ns/" + kind); err == nil {
			ours[to] = true
		}
	}
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		for _, kind := range namespaces {
			if to, err := os.Readlink(filepath.Join(p, "ns", kind)); err == nil && !ours[to] {
				command, _ := os.ReadFile(filepath.Join(p, "cmdline"))
				all[to] = fmt.Sprintf("%s %s", filepath.Base(p), strings.ReplaceAll(string(command), "\x00", " "))
			}
		}
	}
	return all
}
