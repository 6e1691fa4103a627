//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// network is the network namespace of another process, kept open.
type network struct{ file *os.File }

func openNetwork(pid int) (network, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return network{}, fmt.Errorf("opening the node's network: %w", err)
	}
	return network{f}, nil
}

// within calls f on a thread in the namespace. Sockets that f creates belong to it, whichever thread uses
// them later. f must not create sockets in another goroutine.
func (n network) within(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		here, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			runtime.UnlockOSThread()
			done <- fmt.Errorf("entering the node's network: %w", err)
			return
		}
		defer here.Close()
		if err := n.enter(); err != nil {
			runtime.UnlockOSThread()
			done <- fmt.Errorf("entering the node's network: %w", err)
			return
		}
		err = f()
		// If the thread cannot return to its namespace, it stays locked and ends with its goroutine.
		if unix.Setns(int(here.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

// enter moves the thread into the namespace, unless the node is being stopped.
func (n network) enter() error {
	conn, err := n.file.SyscallConn()
	if err != nil {
		return err
	}
	var entered error
	err = conn.Control(func(fd uintptr) { entered = unix.Setns(int(fd), unix.CLONE_NEWNET) })
	return errors.Join(err, entered)
}

func (n network) dial(ctx context.Context, address string) (conn net.Conn, err error) {
	err = n.within(func() error {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp4", address)
		return err
	})
	return conn, err
}

func (n network) listen(address string) (l net.Listener, err error) {
	err = n.within(func() error {
		l, err = net.Listen("tcp4", address)
		return err
	})
	return l, err
}
