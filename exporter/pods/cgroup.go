package pods

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// hostPIDNamespace is the inode number that the kernel gives the first PID
// namespace.
const hostPIDNamespace = "pid:[4026531836]"

// seesHost returns nil if the node's processes are in this proc, else the
// reason. Without hostPID a container sees only its own processes, and the
// driver's process numbers are invalid there.
func seesHost(proc string) error {
	namespace, err := os.Readlink(filepath.Join(proc, "self", "ns", "pid"))
	if err == nil && namespace == hostPIDNamespace {
		return nil
	}
	// Nested in a virtual machine's container the number differs, but only the
	// host's process 2 is the kernel's.
	if name, err := os.ReadFile(filepath.Join(proc, "2", "comm")); err == nil && strings.TrimSpace(string(name)) == "kthreadd" {
		return nil
	}
	return fmt.Errorf("%s shows this container's processes only: the pod needs hostPID: true", proc)
}

// cgroup is the pod and container of a process, from its cgroup path.
type cgroup struct{ podUID, container string }

var (
	podInPath       = regexp.MustCompile(`(?:^|[/-])pod([0-9a-fA-F]{8}(?:[-_]?[0-9a-fA-F]{4}){3}[-_]?[0-9a-fA-F]{12})(?:\.slice)?(?:[/:]|$)`)
	containerInPath = regexp.MustCompile(`(?:^|[/:-])([0-9a-f]{64})(?:\.scope)?(?:/|$)`)
)

// parseCgroup reads /proc/PID/cgroup, of version 1 or 2 and of either of the
// kubelet's cgroup drivers. ok is false for a process that is in no pod.
func parseCgroup(text string) (c cgroup, ok bool) {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		at := podInPath.FindStringSubmatchIndex(parts[2])
		if at == nil {
			continue
		}
		c.podUID = plainUID(parts[2][at[2]:at[3]])
		if id := containerInPath.FindStringSubmatch(parts[2][at[3]:]); id != nil {
			c.container = id[1]
		}
		return c, true
	}
	return cgroup{}, false
}

// plainUID undoes systemd's escaping of a UID: dashes are underscores there. A
// static pod's UID is a hash, without either.
func plainUID(text string) string { return strings.ToLower(strings.ReplaceAll(text, "_", "-")) }

// readCgroup returns the pod and container of a process; ok is false where it
// is gone or in no pod.
func readCgroup(proc string, pid int) (c cgroup, ok bool) {
	text, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return cgroup{}, false
	}
	return parseCgroup(string(text))
}
