//go:build linux

package keeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/sandbox/proc"
)

const (
	restartAfter = time.Second
	soonest      = 5 * time.Second // a program that exits earlier counts as broken
)

// First creates the node and runs its programs until one of them counts as broken. It is process 1 in its own
// namespaces.
func First(file string) error {
	c, err := read(file)
	if err != nil {
		return err
	}
	if os.Getpid() != 1 {
		return errors.New("the node's first process is not process 1: its keeper starts it")
	}
	if err := syscall.Sethostname([]byte(c.Name)); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	if err := c.makeRoot(); err != nil {
		return err
	}
	if err := c.makeNetwork(); err != nil {
		return err
	}
	return c.run()
}

// makeNetwork gives the node its address. CNI plugins give addresses to pods.
func (c Config) makeNetwork() error {
	commands := [][]string{
		{"ip", "link", "set", "lo", "up"},
		{"ip", "address", "add", c.Address, "dev", "lo", "scope", "global"},
	}
	for _, r := range c.Routes {
		commands = append(commands, []string{"ip", "route", "add", r, "dev", "lo"})
	}
	for _, args := range commands {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: %s", args, err, out)
		}
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("forwarding between pods: %w", err)
	}
	return nil
}

// run starts the programs and reaps all processes that end.
func (c Config) run() error {
	// It has a buffer, so no signal is lost while children are reaped.
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	running := map[int]int{} // program index by process id
	started := make([]time.Time, len(c.Programs))
	due := make(chan int, len(c.Programs))
	for i := range c.Programs {
		go c.await(i, due)
	}
	for {
		select {
		case i := <-due:
			pid, err := c.Programs[i].start()
			if err != nil {
				return err
			}
			running[pid], started[i] = i, time.Now()
		case <-children:
			for {
				var status syscall.WaitStatus
				pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
				if err != nil || pid <= 0 {
					break
				}
				i, ours := running[pid]
				if !ours {
					continue
				}
				delete(running, pid)
				if ran := time.Since(started[i]); status.Exited() && ran < soonest {
					return fmt.Errorf("%s ended after %s with status %d; its log: %s", c.Programs[i].Name, ran.Round(time.Millisecond),
						status.ExitStatus(), strings.Join(proc.Tail(c.Programs[i].log(), 10), "\n    "))
				}
				time.AfterFunc(restartAfter, func() { c.await(i, due) })
			}
		}
	}
}

// await sends a program's index to due as soon as the program's socket accepts connections.
func (c Config) await(i int, due chan<- int) {
	if socket := c.Programs[i].Socket; socket != "" {
		_ = await.Until(context.Background(), func(context.Context) error { // runs until the node ends
			conn, err := net.Dial("unix", socket)
			if err == nil {
				conn.Close()
			}
			return err
		})
	}
	due <- i
}

func (p Program) log() string { return filepath.Join("/var/log", p.Name+".log") }

func (p Program) start() (int, error) {
	log, err := os.OpenFile(p.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, fmt.Errorf("starting %s: %w", p.Name, err)
	}
	defer log.Close()
	process, err := os.StartProcess(p.Path, append([]string{filepath.Base(p.Path)}, p.Args...), &os.ProcAttr{
		Dir: "/", Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:" + filepath.Dir(p.Path), "HOME=/root"},
		Files: []*os.File{nil, log, log},
	})
	if err != nil {
		return 0, fmt.Errorf("starting %s: %w", p.Name, err)
	}
	pid := process.Pid
	return pid, process.Release() // run reaps it
}
