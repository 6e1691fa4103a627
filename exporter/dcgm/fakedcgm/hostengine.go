package fakedcgm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Engine is a pretended host engine that runs in a process of its own.
type Engine struct {
	// Address is where it listens: "127.0.0.1:PORT" or the path of a socket.
	Address string
	cmd     *exec.Cmd
}

// StartEngine runs a host engine on an address: "HOST:PORT", where port 0 takes
// a free one, or the absolute path of a unix socket. libDir is what Build gave,
// and state the file that says what machine it is on. It returns once the host
// engine can be connected to.
func StartEngine(ctx context.Context, libDir, address, state string) (*Engine, error) {
	option := "-p"
	if strings.HasPrefix(address, "/") {
		option = "-d"
	}
	cmd := exec.CommandContext(ctx, filepath.Join(libDir, HostEngine), option, address, "-w")
	cmd.Env = append(os.Environ(), EnvState+"="+state)
	cmd.Stderr = os.Stderr
	_, err := cmd.StdinPipe() // never written to: it closes with this process, whatever ends it
	if err != nil {
		return nil, fmt.Errorf("starting the fake host engine: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the fake host engine: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the fake host engine: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	where, ok := strings.CutPrefix(strings.TrimSpace(line), "listening ")
	if err != nil || !ok {
		e := &Engine{cmd: cmd}
		e.Kill()
		return nil, fmt.Errorf("starting the fake host engine on %s: output %q: %w", address, line, errors.Join(err, io.ErrUnexpectedEOF))
	}
	return &Engine{Address: where, cmd: cmd}, nil
}

// Kill ends it like a crash: connections break.
func (e *Engine) Kill() {
	_ = e.cmd.Process.Kill()
	_ = e.cmd.Wait() // killed: the status is known
}
