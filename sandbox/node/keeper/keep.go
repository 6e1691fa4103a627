//go:build linux

package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/gpuscale/gpuscale/internal/await"
)

// endTimeout bounds the wait for processes of the node that were killed.
const endTimeout = 30 * time.Second

// Keep starts the node, and writes the process id of First to out as soon as First runs. It returns when in
// has ended or First has ended, and nothing of the node is left. The end of First is an error.
func Keep(file string, in io.Reader, out io.Writer) error {
	c, err := read(file)
	if err != nil {
		return err
	}
	sweepCgroups()
	defer func() {
		if err := c.remove(); err != nil {
			fmt.Fprintln(os.Stderr, "node-keeper:", err)
		}
	}()
	if err := MakeCgroup(c.Cgroup); err != nil {
		return err
	}
	// The kernel sends the parent-death signal when the thread ends that started the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", "first", file)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
		Setpgid:    true,
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the node's first process: %w", err)
	}
	fmt.Fprintln(out, cmd.Process.Pid)
	stopped := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, in)
		close(stopped)
		_ = cmd.Process.Kill()
	}()
	_ = cmd.Wait() // the process state has the reason
	select {
	case <-stopped:
		return nil
	default:
		return fmt.Errorf("the node's first process ended: %s", cmd.ProcessState)
	}
}

// remove removes what a node leaves behind: its files, and its cgroups, which may contain killed processes
// for another moment.
func (c Config) remove() error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), endTimeout, fmt.Errorf("after %s", endTimeout))
	defer cancel()
	err := await.Until(ctx, func(context.Context) error { return RemoveCgroup(c.Cgroup) })
	// A mount below Root would be emptied too. There should be none: all of them are in the node's own namespace.
	mounts, readErr := procfs.GetMounts()
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	for _, m := range mounts {
		if strings.HasPrefix(m.MountPoint+"/", c.Root+"/") {
			return errors.Join(err, fmt.Errorf("%s is a mount: the node's files stay", m.MountPoint))
		}
	}
	return errors.Join(err, os.RemoveAll(c.Root))
}
