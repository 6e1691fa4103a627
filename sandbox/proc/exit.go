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

// tailLines of a dead child's log are shown.
const tailLines = 15

// Exit is the error for a child that ended by itself.
type Exit struct {
	Name   string
	Status string        // "exit status 1", "was killed (SIGKILL)"
	After  time.Duration // how long it had run
	Tail   []string      // last lines of its log
	Log    string        // the whole log
	Hint   string        // what it probably means; may be empty
}

func newExit(p *Process) *Exit {
	e := &Exit{Name: p.Spec.Name, After: time.Since(p.Started).Round(100 * time.Millisecond), Log: p.Spec.Log}
	e.Tail = Tail(p.Spec.Log, tailLines)
	e.Status = "ended by itself with status 0"
	var exit *exec.ExitError
	killed := false
	if errors.As(p.exit, &exit) {
		e.Status = fmt.Sprintf("ended with exit status %d", exit.ExitCode())
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			e.Status = fmt.Sprintf("was killed from outside (%s)", unix.SignalName(ws.Signal()))
			killed = ws.Signal() == syscall.SIGKILL
		}
	} else if p.exit != nil {
		e.Status = p.exit.Error()
	}
	e.Hint = hint(strings.Join(e.Tail, "\n"), killed)
	return e
}

func (e *Exit) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s after %s", e.Name, e.Status, e.After)
	if e.Hint != "" {
		fmt.Fprintf(&b, ": %s", e.Hint)
	}
	if len(e.Tail) == 0 {
		fmt.Fprintf(&b, "; it logged nothing to %s", e.Log)
		return b.String()
	}
	fmt.Fprintf(&b, "\n  its last words, in %s:", e.Log)
	for _, line := range e.Tail {
		b.WriteString("\n    " + line)
	}
	return b.String()
}

func hint(tail string, killed bool) string {
	switch {
	case strings.Contains(tail, "no space left on device"):
		return "the disk is full"
	case strings.Contains(tail, "address already in use"):
		return "a port it needs is taken"
	case strings.Contains(tail, "too many open files"):
		return "too many open files (raise it with: ulimit -n 65536)"
	case killed:
		return "unless it was killed by hand, the machine ran out of memory"
	}
	return ""
}
