package proc

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tailLines is how many lines of a dead child's log are shown.
const tailLines = 15

// exitError describes how a child ended by itself, what the probable cause is, and the last lines of its log.
func exitError(p *Process) error {
	status, killed := "ended by itself with status 0", false
	var exit *exec.ExitError
	if errors.As(p.exit, &exit) {
		status = fmt.Sprintf("ended with exit status %d", exit.ExitCode())
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			status = fmt.Sprintf("was killed from outside (%s)", unix.SignalName(ws.Signal()))
			killed = ws.Signal() == syscall.SIGKILL
		}
	} else if p.exit != nil {
		status = p.exit.Error()
	}
	tail := Tail(p.Spec.Log, tailLines)
	text := fmt.Sprintf("%s %s after %s%s", p.Spec.Name, status, time.Since(p.Started).Round(100*time.Millisecond), hint(strings.Join(tail, "\n"), killed))
	if len(tail) == 0 {
		return fmt.Errorf("%s; it logged nothing to %s", text, p.Spec.Log)
	}
	return fmt.Errorf("%s\n  its last words, in %s:\n    %s", text, p.Spec.Log, strings.Join(tail, "\n    "))
}

// hint is the probable cause of an exit; it may be empty.
func hint(tail string, killed bool) string {
	switch {
	case strings.Contains(tail, "no space left on device"):
		return ": the disk is full"
	case strings.Contains(tail, "address already in use"):
		return ": a port it needs is taken"
	case strings.Contains(tail, "too many open files"):
		return ": too many open files (raise it with: ulimit -n 65536)"
	case killed:
		return ": unless it was killed by hand, the machine ran out of memory"
	}
	return ""
}
