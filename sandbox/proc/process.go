package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

// Spec describes a program to run.
type Spec struct {
	Name string   // what messages call it
	Path string   // path of the binary
	Args []string // without the program's own name
	Env  []string // in addition to this process's environment
	Dir  string   // working directory; empty: ours
	Log  string   // file that gets stdout and stderr, appended to
}

// Process is a running child.
type Process struct {
	Spec    Spec
	Started time.Time

	cmd      *exec.Cmd
	expected atomic.Bool   // we asked it to end
	done     chan struct{} // closed when the process has ended
	exit     error         // reason; set before done is closed; nil for status 0
}

func start(spec Spec) (*Process, error) {
	if err := os.MkdirAll(filepath.Dir(spec.Log), 0o755); err != nil {
		return nil, fmt.Errorf("starting %s: %w", spec.Name, err)
	}
	log, err := os.OpenFile(spec.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", spec.Name, err)
	}
	defer log.Close() // the child has its own descriptor

	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Args[0] = filepath.Base(spec.Path)
	cmd.Env = append(os.Environ(), spec.Env...)
	cmd.Dir = spec.Dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = attributes()
	p := &Process{Spec: spec, Started: time.Now(), cmd: cmd, done: make(chan struct{})}
	if err := spawn(cmd); err != nil {
		return nil, fmt.Errorf("starting %s: %w", spec.Name, err)
	}
	go func() {
		p.exit = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// PID of the process, which is also the id of its process group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Signal sends a signal to the process and everything that it started.
func (p *Process) Signal(s syscall.Signal) error {
	select {
	case <-p.done:
		return nil
	default:
	}
	if err := syscall.Kill(-p.PID(), s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signalling %s: %w", p.Spec.Name, err)
	}
	return nil
}

// Stop ends the process on purpose: SIGTERM, and SIGKILL after the grace period. It returns when the process
// has ended.
func (p *Process) Stop(grace time.Duration) {
	p.expected.Store(true)
	_ = p.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(grace):
		_ = p.Signal(syscall.SIGKILL)
		<-p.done
	}
	_ = syscall.Kill(-p.PID(), syscall.SIGKILL) // processes that it left in its group
}

// Kill ends the process on purpose and at once, as in a crash.
func (p *Process) Kill() {
	p.Stop(0)
}

// Err is the reason why the process ended; nil while it runs or if it was stopped.
func (p *Process) Err() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	if p.expected.Load() {
		return nil
	}
	return exitError(p)
}
