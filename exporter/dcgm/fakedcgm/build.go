package fakedcgm

import (
	"bufio"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/gpuscale/gpuscale/internal/cbuild"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
)

//go:embed c
var embedded embed.FS

// ErrNoCompiler is wrapped by Build when the machine has no gcc.
var ErrNoCompiler = cbuild.ErrNoCompiler

// HostEngine is the file name of the pretended host engine in Build's folder.
const HostEngine = "fake-hostengine"

// Build compiles libdcgm.so.4, the NVML fake and the host engine into a folder in
// dir, as cbuild.Build does, and returns that folder, for LD_LIBRARY_PATH.
func Build(ctx context.Context, dir string) (libDir string, err error) {
	source, err := fs.Sub(embedded, "c")
	if err != nil {
		panic(err) // the name of the folder is a constant
	}
	return cbuild.Build(ctx, dir, "fakedcgm",
		cbuild.Target{Output: "libdcgm.so.4", Source: source, Beside: fakenvml.Lines(), Files: []string{"lines.c", "state.c", "library.c", "machine.c", "samples.c", "watches.c"}},
		cbuild.Target{Output: HostEngine, Source: source, Beside: fakenvml.Lines(), Files: []string{"lines.c", "state.c", "server.c"}},
		fakenvml.Target())
}

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

// FieldMeta is what DCGM 4.5.2 knows about a field.
type FieldMeta struct {
	ID    uint16
	Type  rune // 'i', 'd', 's', or 'b' for a structure
	Level uint // the entity group that has it, as DCGM numbers them
}

// FieldTable lists all fields of DCGM 4.5.2, sorted: the fake's own table.
func FieldTable() []FieldMeta {
	text, err := embedded.ReadFile("c/fields.h")
	if err != nil {
		panic(err) // it is embedded
	}
	var out []FieldMeta
	for line := range strings.Lines(string(text)) {
		var f FieldMeta
		var last uint16
		if n, _ := fmt.Sscanf(line, "FIELDS(%d, %d, '%c', %d)", &f.ID, &last, &f.Type, &f.Level); n == 4 {
			for ; f.ID <= last; f.ID++ {
				out = append(out, f)
			}
		}
	}
	return out
}
