package fakedcgm

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/internal/cbuild"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
)

//go:embed c
var embedded embed.FS

// ErrNoCompiler is wrapped by Build when the machine has no gcc, or no Go to find the headers.
var ErrNoCompiler = cbuild.ErrNoCompiler

// Build compiles libdcgm.so.4 and the NVML fake into a folder in dir, as cbuild.Build does, and
// returns that folder, for LD_LIBRARY_PATH. It runs in this module's checkout.
func Build(ctx context.Context, dir string) (libDir string, err error) {
	source, err := fs.Sub(embedded, "c")
	if err != nil {
		panic(err) // the name of the folder is a constant
	}
	headers, err := Headers(ctx)
	if err != nil {
		return "", err
	}
	return cbuild.Build(ctx, dir, "fakedcgm",
		cbuild.Target{Output: "libdcgm.so.4", Sources: []fs.FS{source, fakenvml.Lines()}, Flags: []string{"-isystem", headers}}, fakenvml.Target())
}

// Headers is the folder of DCGM's headers, which come with go-dcgm.
func Headers(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-dcgm").Output()
	if errors.Is(err, exec.ErrNotFound) {
		err = fmt.Errorf("%w: %w", ErrNoCompiler, err)
	}
	if err != nil {
		return "", fmt.Errorf("looking for DCGM's headers in go-dcgm: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "pkg", "dcgm"), nil
}

// Engine is a pretended remote host engine. It only holds connections: the library answers for it.
type Engine struct {
	// Address is where it listens: "127.0.0.1:PORT" or the path of a socket.
	Address  string
	listener net.Listener
	ended    chan struct{}
	conns    []net.Conn // until it has ended
}

// Sizes of c/fake.h's hello.
const (
	helloState = 4096
	helloXIDs  = 16
)

// StartEngine runs a host engine on an address: "HOST:PORT", where port 0 takes a free one, or the
// absolute path of a unix socket, which one that was killed may have left behind. state is the file
// that says what machine it is on.
func StartEngine(address, state string) (*Engine, error) {
	text, err := os.ReadFile(state)
	if err != nil {
		return nil, fmt.Errorf("starting the fake host engine: %w", err)
	}
	network := "tcp"
	if strings.HasPrefix(address, "/") {
		network = "unix"
		_ = os.Remove(address) // what is wrong with it, listening says
	}
	listener, err := net.Listen(network, address)
	if err != nil {
		return nil, fmt.Errorf("starting the fake host engine: %w", err)
	}
	if unix, ok := listener.(*net.UnixListener); ok {
		unix.SetUnlinkOnClose(false)
	}
	hello := make([]byte, helloState+helloXIDs)
	copy(hello, state)
	copy(hello[helloState:], strconv.Itoa(strings.Count("\n"+string(text), "\nxid.")))
	e := &Engine{Address: listener.Addr().String(), listener: listener, ended: make(chan struct{})}
	go e.accept(hello)
	return e, nil
}

func (e *Engine) accept(hello []byte) {
	defer close(e.ended)
	for {
		conn, err := e.listener.Accept()
		if err != nil {
			return
		}
		e.conns = append(e.conns, conn)
		_, _ = conn.Write(hello) // what fails is the connection, which the library sees
	}
}

// Kill ends it like a crash: connections break.
func (e *Engine) Kill() {
	_ = e.listener.Close()
	<-e.ended
	for _, conn := range e.conns {
		_ = conn.Close()
	}
}
